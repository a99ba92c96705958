"""Opening ONNX models on the CPU, the same way everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bystander.schemas.errors import EngineSetupError


def open_onnx_session(path: Path) -> Any:
    """Return an onnxruntime session that runs each call on the caller's thread alone.

    One thread a call makes results independent of the machine's load, and lets callers run calls side by side.

    Raises:
        EngineSetupError: onnxruntime is missing, or the file is no model that it can run.
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
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime raises types of its own for each kind of damage
        raise EngineSetupError(f"{path}: cannot be opened as an ONNX model ({str(exc).splitlines()[0][:120]})") from exc
