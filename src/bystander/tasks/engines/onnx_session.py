"""Opening ONNX models on the CPU, the same way everywhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bystander.schemas.errors import EngineError, EngineSetupError


def open_onnx_session(path: Path, inner_outputs: Sequence[str] = ()) -> Any:
    """Return an onnxruntime session that runs each call on the caller's thread alone.

    One thread a call makes results independent of the machine's load, and lets callers run calls side by side.

    Args:
        path: the model.
        inner_outputs: names of int64 values inside the graph that are to be outputs too, after its own. The file is
            then read whole, which takes its size in memory for a moment.

    Raises:
        EngineSetupError: onnxruntime is missing, the file is no model that it can run, or it has no such value.
    """
    try:
        import onnxruntime
    except ImportError as exc:
        raise EngineSetupError("the package onnxruntime is missing; run: pip install onnxruntime") from exc
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: warnings about unused initialisers are of no use to anyone
    try:
        model = _read_with_outputs(path, inner_outputs) if inner_outputs else str(path)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime raises types of its own for each kind of damage
        raise EngineSetupError(
            f"{path}: cannot be opened as an ONNX model; it is damaged or something else: fetch or make it again"
        ) from exc


class OnnxModel:
    """A model that opens at its first run, once, and runs on the threads of its callers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._session: Any = None

    def run(self, inputs: Mapping[str, Any], outputs: list[str] | None = None) -> list[Any]:
        """Return the outputs named, or all of them in the model's order.

        Raises:
            EngineSetupError: onnxruntime is missing, or the file is no model that it can run.
            EngineError: the model does not take these inputs, or failed.
        """
        with self._lock:
            if self._session is None:
                self._session = open_onnx_session(self._path)
            session = self._session
        try:
            answers: list[Any] = session.run(outputs, dict(inputs))
        except Exception as exc:  # onnxruntime raises types of its own for each kind of failure
            raise EngineError(f"{self._path}: the model failed ({str(exc).splitlines()[0][:160]})") from exc
        return answers

    def close(self) -> None:
        """Let go of the session; another run opens it again."""
        with self._lock:
            self._session = None


def _read_with_outputs(path: Path, names: Sequence[str]) -> bytes:
    """Return a model's bytes with further outputs.

    Messages of protocol buffers merge when their bytes are joined, and repeated fields are appended to: so a model that
    holds nothing but outputs adds them to the one before it, which need not be parsed for that.
    """
    from onnx import ModelProto, TensorProto, helper

    added = ModelProto()
    added.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in names)
    return b"".join([path.read_bytes(), added.SerializeToString()])
