"""Rewrite a dynamically quantised ONNX model to float operations, once, so that it runs faster on a CPU.

Dynamic quantisation stores int8 weights and quantises activations at run time. On CPUs without fast int8 kernels
that costs more than it saves: Kokoro-82M needs 1.2 CPU seconds a second of speech in int8 and .75 in float, with
the very same weights. `dequantise_onnx` undoes three patterns of onnxruntime's quantiser:

- `DynamicQuantizeLinear -> ConvInteger | MatMulInteger -> (Add bias) -> Cast -> Mul(scales)` becomes `Conv | MatMul`,
- `DynamicQuantizeLSTM` becomes `LSTM`,
- what nothing reads any more goes away.

The result depends on the input alone: no order of a set or hash is used.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import ModelStoreError

_FLOAT_OPS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}


def dequantise_onnx(source: Path, target: Path) -> None:
    """Write the float form of the quantised model `source` to `target`.

    Raises:
        ModelStoreError: the package onnx is missing, or the graph is not of the known form.
    """
    try:
        import onnx
    except ImportError as exc:
        raise ModelStoreError("the package onnx is needed to prepare the speech model; run: pip install onnx") from exc
    model = onnx.load(str(source))
    try:
        _GraphRewriter(model.graph).rewrite()
    except (KeyError, ValueError, IndexError) as exc:
        raise ModelStoreError(
            f"{source.name}: is not a dynamically quantised model of the known form ({exc!r})"
        ) from exc
    onnx.save(model, str(target))


class _GraphRewriter:
    """Rewrites one graph in place."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self.producer = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[Any]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self.readers[name].append(node)
        self.added: dict[str, Any] = {}
        self.replaced: dict[str, Any] = {}  # first output of an old node -> its new node
        self.dropped: set[str] = set()  # first outputs of nodes folded into a new one

    def rewrite(self) -> None:
        for node in self.graph.node:
            if node.op_type in _FLOAT_OPS:
                self._fold_integer_product(node)
            elif node.op_type == "DynamicQuantizeLSTM":
                self._fold_lstm(node)
        nodes = [self.replaced.get(n.output[0], n) for n in self.graph.node if n.output[0] not in self.dropped]
        nodes = self._sort_nodes(self._prune_nodes(nodes))
        used = {name for node in nodes for name in node.input}
        tensors = [t for t in [*self.graph.initializer, *self.added.values()] if t.name in used]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        del self.graph.initializer[:]
        self.graph.initializer.extend(tensors)

    def _fold_integer_product(self, node: Any) -> None:
        from onnx import helper

        (after,) = self.readers[node.output[0]]
        bias = None
        if after.op_type == "Add":
            # The bias was rounded to int32 on the fly from a float initialiser: walk back to that one.
            self.dropped.add(after.output[0])
            (name,) = [i for i in after.input if i != node.output[0]]
            while self.producer[name].op_type != "Div":
                name = self.producer[name].input[0]
            bias = self.producer[name].input[0]
            if bias not in self.weights:
                raise ValueError(f"bias of {node.name} is no constant")
            (after,) = self.readers[after.output[0]]
        cast = after
        (scaling,) = self.readers[cast.output[0]]
        (scales,) = [i for i in scaling.input if i != cast.output[0]]
        (weight_scale,) = [i for i in self.producer[scales].input if i in self.weights]
        weight = f"{node.input[1]}_float"
        if weight not in self.added:
            values = self._read(node.input[1])
            # Scales and zero points belong to a convolution's first axis (its output channels), to a matrix's last.
            rank = values.ndim if node.op_type == "ConvInteger" else 0
            values = _scale(values, self._read(weight_scale), self._read(node.input[3]), rank)
            self._add_tensor(weight, values)
        activation = self.producer[node.input[0]].input[0]
        inputs = [activation, weight, *([bias] if bias else [])]
        new = helper.make_node(_FLOAT_OPS[node.op_type], inputs, [scaling.output[0]], name=f"{node.name}_float")
        new.attribute.extend(node.attribute)
        self.replaced[node.output[0]] = new
        self.dropped |= {cast.output[0], scaling.output[0]}

    def _fold_lstm(self, node: Any) -> None:
        from onnx import helper

        inputs = list(node.input)
        for position, scale, zero in ((1, 8, 9), (2, 10, 11)):
            values, factor, offset = (self._read(inputs[i]) for i in (position, scale, zero))
            # (directions, inputs, 4 * hidden) with a scale for each direction or for each of its columns.
            factor, offset = (a.reshape(a.shape[0], 1, -1) if a.size > 1 else a for a in (factor, offset))
            inputs[position] = f"{inputs[position]}_float"
            self._add_tensor(inputs[position], np.ascontiguousarray(((values - offset) * factor).transpose(0, 2, 1)))
        new = helper.make_node("LSTM", inputs[:8], list(node.output), name=node.name)
        new.attribute.extend(node.attribute)
        self.replaced[node.output[0]] = new

    def _read(self, name: str) -> npt.NDArray[np.float32]:
        from onnx import numpy_helper

        values: npt.NDArray[np.float32] = numpy_helper.to_array(self.weights[name]).astype(np.float32)
        return values

    def _add_tensor(self, name: str, values: npt.NDArray[np.float32]) -> None:
        from onnx import numpy_helper

        self.added[name] = numpy_helper.from_array(values.astype(np.float32), name)

    def _prune_nodes(self, nodes: list[Any]) -> list[Any]:
        outputs = {output.name for output in self.graph.output}
        while True:
            used = outputs | {name for node in nodes for name in node.input}
            kept = [node for node in nodes if any(name in used for name in node.output)]
            if len(kept) == len(nodes):
                return kept
            nodes = kept

    def _sort_nodes(self, nodes: list[Any]) -> list[Any]:
        """Return the nodes in an order in which every input is known, else as they were."""
        known = {"", *self.weights, *self.added, *(i.name for i in self.graph.input)}
        ordered: list[Any] = []
        while nodes:
            waiting = []
            for node in nodes:
                if known.issuperset(node.input):
                    ordered.append(node)
                    known.update(node.output)
                else:
                    waiting.append(node)
            if len(waiting) == len(nodes):
                raise ValueError("the rewritten graph has a cycle")
            nodes = waiting
        return ordered


def _scale(
    values: npt.NDArray[np.float32],
    factor: npt.NDArray[np.float32],
    offset: npt.NDArray[np.float32],
    rank: int,
) -> npt.NDArray[np.float32]:
    """Return `(values - offset) * factor`, with one factor for all, or (rank > 0) one a first-axis index."""
    shape = (-1, *[1] * (rank - 1))
    factor, offset = (a.reshape(shape) if rank and a.size > 1 else a for a in (factor, offset))
    return (values - offset) * factor
