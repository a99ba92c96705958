"""Answers a browser that asks for a clip, or for a part of it, as players do to move within it."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)


def answer_clip(request: Request, audio: bytes) -> Response:
    """Return a clip, WAV or FLAC, or the range of its bytes that is asked for."""
    kind = "audio/wav" if audio.startswith(b"RIFF") else "audio/flac"
    headers = {"accept-ranges": "bytes", "cache-control": "private, max-age=3600"}
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    if not found or not (found[1] or found[2]):
        return Response(audio, media_type=kind, headers=headers)
    size = len(audio)
    start = int(found[1]) if found[1] else max(size - int(found[2]), 0)
    end = min(int(found[2]) + 1, size) if found[1] and found[2] else size
    if start >= end:
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{size}"})
    return Response(
        audio[start:end],
        206,
        media_type=kind,
        headers=headers | {"content-range": f"bytes {start}-{end - 1}/{size}"},
    )
