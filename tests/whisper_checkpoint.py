"""Writes the weights of a CTranslate2 Whisper model as a checkpoint of openai-whisper, to test its engine for real.

CTranslate2's file: version, then the model's name and revision, then the variables, each with its name (length before
it, zero byte after it), rank, dimensions, type and bytes; little-endian throughout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Weights = dict[str, npt.NDArray[np.floating]]

_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


def write_checkpoint(ct2_folder: Path, target: Path) -> Path:
    """Write `target`, a .pt that `whisper.load_model` opens; the weights must not be quantised."""
    import torch

    with (ct2_folder / "model.bin").open("rb") as source:
        weights = dict(_read_variables(source))
    width = weights["decoder/embeddings/weight"].shape[1]
    state = {name: torch.from_numpy(np.array(values)) for name, values in _rename(weights, width)}
    dims = {
        "n_mels": weights["encoder/conv1/weight"].shape[1],
        "n_vocab": weights["decoder/embeddings/weight"].shape[0],
        "n_audio_ctx": weights["encoder/position_encodings/encodings"].shape[0],
        "n_audio_state": width,
        "n_audio_head": int(weights["encoder/num_heads"]),
        "n_audio_layer": _count_layers(weights, "encoder"),
        "n_text_ctx": weights["decoder/position_encodings/encodings"].shape[0],
        "n_text_state": width,
        "n_text_head": int(weights["decoder/num_heads"]),
        "n_text_layer": _count_layers(weights, "decoder"),
    }
    torch.save({"dims": dims, "model_state_dict": state}, target)
    return target


def _read_variables(source: BinaryIO) -> Iterator[tuple[str, npt.NDArray[np.floating]]]:
    def take(layout: str) -> tuple[int, ...]:
        return struct.unpack(f"<{layout}", source.read(struct.calcsize(f"<{layout}")))

    def take_text() -> str:
        return source.read(take("H")[0])[:-1].decode()

    take("I")
    take_text()
    take("I")
    for _ in range(take("I")[0]):
        name = take_text()
        shape = take(f"{take('B')[0]}I")
        kind, size = take("B")[0], take("I")[0]
        yield name, np.frombuffer(source.read(size), _TYPES[kind]).reshape(shape)


def _count_layers(weights: Weights, side: str) -> int:
    parts = {name.split("/")[1] for name in weights if name.startswith(f"{side}/layer_")}
    return sum(part.removeprefix("layer_").isdigit() for part in parts)


def _rename(weights: Weights, width: int) -> Iterator[tuple[str, npt.NDArray[np.floating]]]:
    def linear(
        target: str, source: str, rows: slice = slice(None), bias: bool = True
    ) -> Iterator[tuple[str, npt.NDArray[np.floating]]]:
        yield f"{target}.weight", weights[f"{source}/weight"][rows]
        if bias:
            yield f"{target}.bias", weights[f"{source}/bias"][rows]

    def norm(target: str, source: str) -> Iterator[tuple[str, npt.NDArray[np.floating]]]:
        yield f"{target}.weight", weights[f"{source}/gamma"]
        yield f"{target}.bias", weights[f"{source}/beta"]

    for conv in ("conv1", "conv2"):
        yield from linear(f"encoder.{conv}", f"encoder/{conv}")
    for side in ("encoder", "decoder"):
        yield f"{side}.positional_embedding", weights[f"{side}/position_encodings/encodings"]
    yield "decoder.token_embedding.weight", weights["decoder/embeddings/weight"]
    yield from norm("encoder.ln_post", "encoder/layer_norm")
    yield from norm("decoder.ln", "decoder/layer_norm")
    parts = [slice(k * width, (k + 1) * width) for k in range(3)]
    for side in ("encoder", "decoder"):
        for layer in range(_count_layers(weights, side)):
            source, target = f"{side}/layer_{layer}", f"{side}.blocks.{layer}"
            # Queries, keys (which have no bias) and values are one matrix in CTranslate2.
            for name, rows in zip(("query", "key", "value"), parts, strict=True):
                yield from linear(f"{target}.attn.{name}", f"{source}/self_attention/linear_0", rows, name != "key")
            yield from linear(f"{target}.attn.out", f"{source}/self_attention/linear_1")
            yield from norm(f"{target}.attn_ln", f"{source}/self_attention/layer_norm")
            if side == "decoder":
                yield from linear(f"{target}.cross_attn.query", f"{source}/attention/linear_0")
                for name, rows in zip(("key", "value"), parts, strict=False):
                    yield from linear(
                        f"{target}.cross_attn.{name}", f"{source}/attention/linear_1", rows, name != "key"
                    )
                yield from linear(f"{target}.cross_attn.out", f"{source}/attention/linear_2")
                yield from norm(f"{target}.cross_attn_ln", f"{source}/attention/layer_norm")
            yield from linear(f"{target}.mlp.0", f"{source}/ffn/linear_0")
            yield from linear(f"{target}.mlp.2", f"{source}/ffn/linear_1")
            yield from norm(f"{target}.mlp_ln", f"{source}/ffn/layer_norm")
