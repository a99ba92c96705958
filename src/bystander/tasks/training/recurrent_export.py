"""Writes a trained recurrent network as an ONNX graph that hears a stream step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.train_sid_config import RecurrentConfig, RecurrentFolder, TrainSidConfig
from bystander.tasks.engines.log_mel_steps import STEP_FRAMES
from bystander.tasks.engines.recurrent_detector import CONFIG_NAME, GRAPH_NAME
from bystander.tasks.training.recurrent_model import RecurrentNetwork

_OPSET, _IR_VERSION = 17, 8
Weights = npt.NDArray[np.float32]


def export_recurrent(networks: Sequence[RecurrentNetwork], config: RecurrentConfig, path: Path) -> None:
    """Write the graph of networks whose mean is the answer.

    It takes `frames`, shape (1, bands, context + 4 n), and the states `state0`, `state1`, ... of the layers, network by
    network, shape (1, 1, hidden), all float32; it gives `probabilities`, shape (n,), and the states after them,
    `next0`, `next1`, ...

    The graph is written node by node, not traced: it hangs on no version of torch's exporter.
    """
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph()
    graph.keep("directions", np.array([1], np.int64))
    graph.keep("flat", np.array([-1], np.int64))
    for member, network in enumerate(networks):
        _add_member(graph, member, network, config)
    graph.add("Mean", [f"likely.{member}" for member in range(len(networks))], ["likely"])
    graph.add("Reshape", ["likely", "flat"], ["probabilities"])
    states = range(len(networks) * config.layers)

    def describe(name: str, *shape: int | str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    state = (1, 1, config.hidden)
    inputs = [describe("frames", 1, networks[0].bands, "frames")]
    inputs += [describe(f"state{number}", *state) for number in states]
    outputs = [describe("probabilities", "steps")] + [describe(f"next{number}", *state) for number in states]
    made = helper.make_graph(graph.nodes, "recurrent", inputs, outputs, graph.constants)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="bystander"
    )
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def save_recurrent(
    networks: Sequence[RecurrentNetwork],
    config: TrainSidConfig,
    threshold: float,
    folder: Path,
    recogniser_revision: str = "",
) -> None:
    """Write the folder of a detector: its graph, and a `config.json` that says how it hears a stream."""
    model = config.model
    assert isinstance(model, RecurrentConfig)
    folder.mkdir(parents=True, exist_ok=True)
    export_recurrent(networks, model, folder / GRAPH_NAME)
    settings = RecurrentFolder(
        features=model.features,
        recogniser=model.recogniser if model.features == "recogniser" else None,
        recogniser_revision=recogniser_revision or None,
        mel_bands=networks[0].bands,
        context_steps=model.context_steps,
        hidden=model.hidden,
        layers=model.layers,
        members=len(networks),
        chunk_s=config.chunk_s,
        k=config.k,
        threshold=threshold,
    )
    (folder / CONFIG_NAME).write_text(settings.model_dump_json(indent=2) + "\n")


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))

    def keep(self, name: str, value: npt.NDArray[Any]) -> None:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(value, name))


def _add_member(graph: _Graph, member: int, network: RecurrentNetwork, config: RecurrentConfig) -> None:
    weights = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}

    def own(name: str) -> str:
        return f"{name}.{member}"

    convolution = [own("convolution.weight"), own("convolution.bias")]
    graph.add("Conv", ["frames", *convolution], [own("convolved")], strides=[STEP_FRAMES])
    for name in ("convolution.weight", "convolution.bias"):
        graph.keep(own(name), weights[name])
    graph.add("Relu", [own("convolved")], [own("seen")])
    graph.add("Transpose", [own("seen")], [own("heard0")], perm=[2, 0, 1])
    for layer in range(config.layers):
        _add_layer(graph, member, layer, config, weights)
    graph.keep(own("head.weight"), np.ascontiguousarray(weights["head.weight"].T))
    graph.keep(own("head.bias"), weights["head.bias"])
    graph.add("MatMul", [own(f"heard{config.layers}"), own("head.weight")], [own("scores")])
    graph.add("Add", [own("scores"), own("head.bias")], [own("logits")])
    graph.add("Sigmoid", [own("logits")], [own("likely")])


def _add_layer(graph: _Graph, member: int, layer: int, config: RecurrentConfig, weights: Mapping[str, Weights]) -> None:
    hidden, state = config.hidden, member * config.layers + layer
    for part in ("weight_ih", "weight_hh"):
        graph.keep(f"{part}{state}", _reorder(weights[f"recurrent.{part}_l{layer}"], hidden)[np.newaxis])
    biases = [_reorder(weights[f"recurrent.bias_{part}_l{layer}"], hidden) for part in ("ih", "hh")]
    graph.keep(f"bias{state}", np.concatenate(biases)[np.newaxis])
    heard = f"heard{layer}.{member}"
    inputs = [heard, f"weight_ih{state}", f"weight_hh{state}", f"bias{state}", "", f"state{state}"]
    # torch resets what the gate lets through after the product, which ONNX does only when told so.
    graph.add("GRU", inputs, [f"all{state}", f"next{state}"], hidden_size=hidden, linear_before_reset=1)
    graph.add("Squeeze", [f"all{state}", "directions"], [f"heard{layer + 1}.{member}"])


def _reorder(gates: Weights, hidden: int) -> Weights:
    """Return torch's reset, update, new as ONNX has them: update, reset, new."""
    reset, update, new = gates[:hidden], gates[hidden : 2 * hidden], gates[2 * hidden :]
    return np.concatenate([update, reset, new])
