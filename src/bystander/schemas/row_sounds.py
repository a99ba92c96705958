"""What of a row can be heard: its clip, or the tracks that it has while it has no clip yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HEAVY_COLUMNS = ("audio", "tracks", "pieces")
"""Columns of rows and rejects that hold encoded audio."""


@dataclass(frozen=True, slots=True)
class Sound:
    """An encoded clip that browsers play, WAV or FLAC, and what it is in words; `speaker` where one person talks."""

    title: str
    audio: bytes
    speaker: str | None = None


def list_sounds(row: Mapping[str, Any]) -> list[Sound]:
    """Return what a row's own columns hold: the clip, else its tracks, else the pieces that it was to be made of."""
    audio = row.get("audio")
    if audio and audio["bytes"]:
        return [Sound("Clip", audio["bytes"])]
    tracks = [*_list_tracks(row)]
    if tracks:
        return tracks
    pieces = [piece["bytes"] for piece in row.get("pieces") or () if piece and piece["bytes"]]
    return [Sound(f"Piece {number}", piece) for number, piece in enumerate(pieces, 1)]


def _list_tracks(row: Mapping[str, Any]) -> Iterator[Sound]:
    for track in row.get("tracks") or ():
        if track["audio"]:
            name = "Primary speaker" if track["speaker"] == "primary" else "Third party"
            yield Sound(f"{name}, alone", track["audio"], track["speaker"])
