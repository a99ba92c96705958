"""Writes a trained recurrent network as an ONNX graph that hears a stream step by step."""

from __future__ import annotations

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


def export_recurrent(network: RecurrentNetwork, config: RecurrentConfig, path: Path) -> None:
    """Write the graph of a network.

    It takes `frames`, shape (1, bands, context + 4 n), and the states `state0`, `state1`, ... of the layers, shape
    (1, 1, hidden), all float32; it gives `probabilities`, shape (n,), and the states after them, `next0`, `next1`, ...

    The graph is written node by node, not traced: it hangs on no version of torch's exporter.
    """
    import onnx
    from onnx import TensorProto, helper

    weights = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    graph = _Graph()
    graph.add("Conv", ["frames", "convolution.weight", "convolution.bias"], ["convolved"], strides=[STEP_FRAMES])
    for name in ("convolution.weight", "convolution.bias"):
        graph.keep(name, weights[name])
    graph.add("Relu", ["convolved"], ["seen"])
    graph.add("Transpose", ["seen"], ["heard0"], perm=[2, 0, 1])
    graph.keep("directions", np.array([1], np.int64))
    for layer in range(config.layers):
        _add_layer(graph, layer, config.hidden, weights)
    graph.keep("head.weight", np.ascontiguousarray(weights["head.weight"].T))
    graph.keep("head.bias", weights["head.bias"])
    graph.add("MatMul", [f"heard{config.layers}", "head.weight"], ["scores"])
    graph.add("Add", ["scores", "head.bias"], ["logits"])
    graph.add("Sigmoid", ["logits"], ["likely"])
    graph.keep("flat", np.array([-1], np.int64))
    graph.add("Reshape", ["likely", "flat"], ["probabilities"])

    def describe(name: str, *shape: int | str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    state = (1, 1, config.hidden)
    inputs = [describe("frames", 1, network.bands, "frames")]
    inputs += [describe(f"state{layer}", *state) for layer in range(config.layers)]
    outputs = [describe("probabilities", "steps")] + [describe(f"next{i}", *state) for i in range(config.layers)]
    made = helper.make_graph(graph.nodes, "recurrent", inputs, outputs, graph.constants)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="bystander"
    )
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def save_recurrent(
    network: RecurrentNetwork, config: TrainSidConfig, threshold: float, folder: Path, recogniser_revision: str = ""
) -> None:
    """Write the folder of a detector: its graph, and a `config.json` that says how it hears a stream."""
    model = config.model
    assert isinstance(model, RecurrentConfig)
    folder.mkdir(parents=True, exist_ok=True)
    export_recurrent(network, model, folder / GRAPH_NAME)
    settings = RecurrentFolder(
        features=model.features,
        recogniser=model.recogniser if model.features == "recogniser" else None,
        recogniser_revision=recogniser_revision or None,
        mel_bands=network.bands,
        context_steps=model.context_steps,
        hidden=model.hidden,
        layers=model.layers,
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


def _add_layer(graph: _Graph, layer: int, hidden: int, weights: dict[str, Weights]) -> None:
    for part in ("weight_ih", "weight_hh"):
        graph.keep(f"{part}{layer}", _reorder(weights[f"recurrent.{part}_l{layer}"], hidden)[np.newaxis])
    biases = [_reorder(weights[f"recurrent.bias_{part}_l{layer}"], hidden) for part in ("ih", "hh")]
    graph.keep(f"bias{layer}", np.concatenate(biases)[np.newaxis])
    inputs = [f"heard{layer}", f"weight_ih{layer}", f"weight_hh{layer}", f"bias{layer}", "", f"state{layer}"]
    # torch resets what the gate lets through after the product, which ONNX does only when told so.
    graph.add("GRU", inputs, [f"all{layer}", f"next{layer}"], hidden_size=hidden, linear_before_reset=1)
    graph.add("Squeeze", [f"all{layer}", "directions"], [f"heard{layer + 1}"])


def _reorder(gates: Weights, hidden: int) -> Weights:
    """Return torch's reset, update, new as ONNX has them: update, reset, new."""
    reset, update, new = gates[:hidden], gates[hidden : 2 * hidden], gates[2 * hidden :]
    return np.concatenate([update, reset, new])
