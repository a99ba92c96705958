"""Rows of a bench whose clips the fake speech engine speaks, so that the fake verifier hears the voices in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.engines.fake_speech import CHARACTER_S, SAMPLING_RATE, encode_speech
from final_rows import make_row, make_table

AMBIGUOUS = ("And add oat milk to that.", "Make it eight o'clock.", "Or the other one instead.")
"""Lines that one person could add; only these have one-speaker rows."""
CLEAR = ("Are you talking to it again?", "You never liked jazz, did you?", "Dinner is ready, you two!")
REQUESTS = ("Book table {} for tonight", "Play album {} in the kitchen", "Read me page {} of the news")


def make_bench_row(
    index: int,
    one_speaker: bool = False,
    linked: bool = True,
    third_party: str | None = None,
    overlap_characters: int = 5,
    voices: tuple[int, int] = (1, 7),
) -> dict[str, Any]:
    """Row `index` as published; its twin, if `linked`, is the row of the same index with the other number of speakers.

    One-speaker rows are a sixth slower to speak, as a whole transcript read in one go may be.
    """
    primary = REQUESTS[index % len(REQUESTS)].format(index)
    lines = AMBIGUOUS if linked or one_speaker else CLEAR
    second = third_party if third_party is not None else lines[index % len(lines)]
    row = make_row(index, hard_negative=one_speaker)
    names = (f"row-{index:04d}", f"hn-{index:04d}")
    row.update(primary_complete=primary, primary_text=primary, third_party_text=second)
    row["id"], twin = names if not one_speaker else names[::-1]
    row["twin_id"] = twin if linked else None
    first = encode_speech(primary, voices[0])
    if one_speaker:
        samples = encode_speech(f"{primary} {second}" + "." * (len(primary + second) // 6), voices[0])
        row["segments"] = [{"speaker": "primary", "start_s": 0.0, "end_s": len(samples) / SAMPLING_RATE}]
    else:
        start = len(first) - round(overlap_characters * CHARACTER_S * SAMPLING_RATE)
        other = encode_speech(second, voices[1])
        samples = np.zeros(max(len(first), start + len(other)), np.float32)
        samples[: len(first)] += first / 2
        samples[start : start + len(other)] += other / 2
        row["segments"] = [
            {"speaker": "primary", "start_s": 0.0, "end_s": len(first) / SAMPLING_RATE},
            {
                "speaker": "third_party",
                "start_s": start / SAMPLING_RATE,
                "end_s": (start + len(other)) / SAMPLING_RATE,
            },
        ]
    row["audio"] = {"bytes": encode_flac(samples, SAMPLING_RATE), "path": f"{row['id']}.flac"}
    row["sampling_rate"], row["duration_s"] = SAMPLING_RATE, len(samples) / SAMPLING_RATE
    return row


def make_bench_rows(pairs: int, alone: int) -> list[dict[str, Any]]:
    """`pairs` twins, then `alone` two-speaker rows without one, whose lines no single person would say."""
    rows = [make_bench_row(i, one_speaker) for i in range(pairs) for one_speaker in (False, True)]
    return rows + [make_bench_row(pairs + i, linked=False) for i in range(alone)]


def make_bench(pairs: int, alone: int) -> pa.Table:
    return make_table(make_bench_rows(pairs, alone))
