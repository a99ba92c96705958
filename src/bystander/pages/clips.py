"""Rows that a page plays: player, waveform and figures, within a budget of bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from bystander.pages.waveform import draw_waveform

MOST_AUDIO_BYTES = 10_000_000
"""Encoded clips that a page embeds; Base64 adds a third, and the file should open on a phone."""
MOST_REJECT_AUDIO_BYTES = 3_000_000
"""The same for clips of rejected rows, which come on top."""


def describe_clips(rows: pa.Table) -> list[dict[str, Any]]:
    """Return what the macros of `clip.html.j2` show of each row.

    `rows` have columns of `schemas.tpi.FINAL`, all or those of `schemas.evaluation.BENCH_ROW`. To them come `player`, a
    data URL, empty where the clips before and this one are more than `MOST_AUDIO_BYTES`; `wave`; and `numbers`.
    """
    described, spent = [], 0
    for row in rows.to_pylist():
        audio: bytes = row["audio"]["bytes"]
        spent += len(audio)
        player = make_player(audio) if spent <= MOST_AUDIO_BYTES else ""
        label = f"Waveform, {row['duration_s']:.1f} s"
        if row["n_speakers"] == 2:
            label += f", two speakers, overlap {row['overlap_s'] or 0:.2f} s"
        described.append(
            {
                **{name: value for name, value in row.items() if name != "audio"},
                "player": player,
                "wave": draw_waveform(audio, row["segments"], label),
                "numbers": list_numbers(row, TPI_NUMBERS),
            }
        )
    return described


def make_player(audio: bytes) -> str:
    """Return an encoded clip, WAV or FLAC, as a data URL."""
    kind = "wav" if audio.startswith(b"RIFF") else "flac"
    return f"data:audio/{kind};base64,{base64.b64encode(audio).decode()}"


def shorten_text(text: str, most: int = 300) -> str:
    """Return the text on one line, cut to `most` characters."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= most else f"{text[:most]}…"


def list_numbers(row: Mapping[str, Any], formats: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Return name and formatted value of a row's figures that are not null; `formats` are name, column and format."""
    return [(name, text.format(row[column])) for name, column, text in formats if row.get(column) is not None]


TPI_NUMBERS = (
    ("Duration", "duration_s", "{:.2f} s"),
    ("Offset asked", "offset_asked_s", "{:+.2f} s"),
    ("Overlap", "overlap_s", "{:.2f} s"),
    ("Level difference", "loudness_difference_db", "{:+.1f} dB"),
    ("WER, primary", "primary_wer", "{:.2f}"),
    ("WER, third party", "third_party_wer", "{:.2f}"),
    ("Similarity, tracks", "track_similarity", "{:.2f}"),
    ("Similarity, mixture", "mixture_similarity", "{:.2f}"),
    ("Realism", "realism_score", "{:.2f}"),
    ("Label score", "label_score", "{:.2f}"),
    ("Ambiguity", "ambiguity_score", "{:.1f}"),
    ("Request", "query_score", "{:.2f}"),
    ("Interruption", "interruption_score", "{:.2f}"),
    ("Answerable", "answerable_score", "{:.2f}"),
    ("Recording", "recording", "{}"),
)
"""Figures of a TPI row: name, column and format."""
