from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bystander.schemas.errors import ModelStoreError
from bystander.storage.onnx_dequantise import dequantise_onnx

_RNG = np.random.Generator(np.random.PCG64(5))
MATRIX = _RNG.integers(0, 256, (6, 4)).astype(np.uint8)
KERNEL = _RNG.integers(0, 256, (6, 6, 3)).astype(np.uint8)


def _quantise_product(kind: str, x: str, weight: str, out: str, scale: float) -> tuple[list, list]:
    """Return the nodes and constants that onnxruntime's dynamic quantiser writes for one product."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", [x], [f"{x}_q", f"{x}_s", f"{x}_z"]),
        helper.make_node(kind, [f"{x}_q", weight, f"{x}_z", f"{weight}_z"], [f"{out}_int"], name=out),
        helper.make_node("Cast", [f"{out}_int"], [f"{out}_cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{x}_s", f"{weight}_s"], [f"{out}_scales"]),
        helper.make_node("Mul", [f"{out}_cast", f"{out}_scales"], [out]),
    ]
    constants = [
        numpy_helper.from_array(np.array(128, np.uint8), f"{weight}_z"),
        numpy_helper.from_array(np.array(scale, np.float32), f"{weight}_s"),
    ]
    return nodes, constants


@pytest.fixture
def quantised(tmp_path: Path) -> Path:
    conv_nodes, conv_constants = _quantise_product("ConvInteger", "x", "kernel", "y", 0.002)
    product_nodes, product_constants = _quantise_product("MatMulInteger", "t", "matrix", "z", 0.01)
    graph = helper.make_graph(
        [*conv_nodes, helper.make_node("Transpose", ["y"], ["t"], perm=[0, 2, 1]), *product_nodes],
        "two products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 10])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 8, 4])],
        [
            *conv_constants,
            *product_constants,
            numpy_helper.from_array(KERNEL, "kernel"),
            numpy_helper.from_array(MATRIX, "matrix"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "int8.onnx"
    onnx.save(model, str(path))
    return path


def test_float_model_computes_what_the_weights_say(quantised: Path, tmp_path: Path) -> None:
    target = tmp_path / "float.onnx"
    dequantise_onnx(quantised, target)
    assert [node.op_type for node in onnx.load(str(target)).graph.node] == ["Conv", "Transpose", "MatMul"]
    x = _RNG.normal(size=(1, 6, 10)).astype(np.float32)
    (got,) = onnxruntime.InferenceSession(str(target)).run(None, {"x": x})
    kernel = (KERNEL.astype(np.float32) - 128) * np.float32(0.002)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], 3, axis=1)
    expected = np.einsum("oik,itk->to", kernel, windows) @ ((MATRIX.astype(np.float32) - 128) * np.float32(0.01))
    np.testing.assert_allclose(got[0], expected, rtol=1e-4, atol=1e-4)


def test_result_is_the_same_each_time(quantised: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        dequantise_onnx(quantised, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_other_quantised_graphs_are_refused(quantised: Path, tmp_path: Path) -> None:
    model = onnx.load(str(quantised))
    for node in model.graph.node:
        if node.op_type == "Cast":
            node.op_type = "Identity"
            del node.attribute[:]
            node.output[0] = "elsewhere"
    onnx.save(model, str(quantised))
    with pytest.raises(ModelStoreError, match=r"int8\.onnx: is not a dynamically quantised model of the known form"):
        dequantise_onnx(quantised, tmp_path / "float.onnx")
