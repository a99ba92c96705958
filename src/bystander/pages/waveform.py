"""A clip's picture: its waveform coloured by who speaks, with a lane a speaker and the overlap marked."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import soundfile
from markupsafe import Markup

WIDTH, HEIGHT = 1000, 100
_BUCKETS = 400
_CLASSES = {(False, False): "nobody", (True, False): "primary", (False, True): "third", (True, True): "both"}


def draw_waveform(audio: bytes, segments: Sequence[Mapping[str, Any]], label: str) -> Markup:
    """Return the picture as HTML.

    Args:
        audio: an encoded clip that libsndfile reads.
        segments: `speaker` (primary | third_party), `start_s` and `end_s` from the clip's start.
        label: text alternative.
    """
    samples, rate = soundfile.read(io.BytesIO(audio), dtype="float32", always_2d=True)
    duration_s = max(len(samples) / rate, 1e-3)
    times, low, high = find_envelope(samples[:, 0], rate)
    speaking = [_CLASSES[_is_speaking("primary", t, segments), _is_speaking("third_party", t, segments)] for t in times]
    paths = Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(kind, draw_run(times[run], low[run], high[run], duration_s))
        for kind, run in split_runs(speaking)
    )
    return Markup(
        '<div class="wave"><div class="picture">{bands}'
        '<svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">{paths}</svg></div>'
        '<div class="lanes" aria-hidden="true">{lanes}</div><div class="seconds" aria-hidden="true">{ticks}</div></div>'
    ).format(
        bands=_draw_overlaps(segments, duration_s),
        w=WIDTH,
        h=HEIGHT,
        label=label,
        paths=paths,
        lanes=_draw_lanes(segments, duration_s),
        ticks=draw_seconds(duration_s),
    )


def find_envelope(samples: np.ndarray, rate: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bucket centres in seconds and the lowest and highest sample of each, scaled to a peak of 1."""
    edges = np.linspace(0, len(samples), min(_BUCKETS, max(len(samples), 1)) + 1).astype(int)
    starts = edges[:-1]
    if not len(samples):
        return np.zeros(1), np.zeros(1), np.zeros(1)
    peak = max(float(np.abs(samples).max()), 1e-4)
    low = np.minimum.reduceat(samples, starts) / peak
    high = np.maximum.reduceat(samples, starts) / peak
    return (edges[:-1] + edges[1:]) / 2 / rate, low, high


def _is_speaking(speaker: str, time_s: float, segments: Sequence[Mapping[str, Any]]) -> bool:
    return any(s["speaker"] == speaker and s["start_s"] <= time_s < s["end_s"] for s in segments)


def split_runs(kinds: Sequence[str]) -> Iterator[tuple[str, slice]]:
    """Yield runs of equal kinds; each reaches one bucket into the next, so that the shape has no gaps."""
    start = 0
    for at in range(1, len(kinds) + 1):
        if at == len(kinds) or kinds[at] != kinds[start]:
            yield kinds[start], slice(start, min(at + 1, len(kinds)))
            start = at


def draw_run(times: np.ndarray, low: np.ndarray, high: np.ndarray, duration_s: float) -> str:
    """Return the outline of a stretch of an envelope as an SVG path in a box of `WIDTH` by `HEIGHT`."""
    x = times / duration_s * WIDTH
    half = HEIGHT / 2
    # Half a unit keeps silence visible as a line.
    top = half - np.maximum(high, 0) * (half - 2) - 0.5
    bottom = half - np.minimum(low, 0) * (half - 2) + 0.5
    upper = [f"{a:.1f},{b:.1f}" for a, b in zip(x, top, strict=True)]
    lower = [f"{a:.1f},{b:.1f}" for a, b in zip(x[::-1], bottom[::-1], strict=True)]
    return "M" + "L".join(upper + lower) + "Z"


def _draw_overlaps(segments: Sequence[Mapping[str, Any]], duration_s: float) -> Markup:
    bands = Markup("")
    for one in segments:
        for two in segments:
            start, end = max(one["start_s"], two["start_s"]), min(one["end_s"], two["end_s"])
            if one["speaker"] == "primary" and two["speaker"] != "primary" and start < end:
                bands += Markup('<span class="overlap" style="left:{:.2f}%;width:{:.2f}%"></span>').format(
                    100 * start / duration_s, 100 * (end - start) / duration_s
                )
    return bands


def _draw_lanes(segments: Sequence[Mapping[str, Any]], duration_s: float) -> Markup:
    lanes = Markup("")
    for speaker, kind in (("primary", "primary"), ("third_party", "third")):
        own = [segment for segment in segments if segment["speaker"] == speaker]
        if own:
            bars = Markup("").join(
                Markup('<span class="{}" style="left:{:.2f}%;width:{:.2f}%"></span>').format(
                    kind, 100 * s["start_s"] / duration_s, 100 * (s["end_s"] - s["start_s"]) / duration_s
                )
                for s in own
            )
            lanes += Markup('<div class="lane">{}</div>').format(bars)
    return lanes


def draw_seconds(duration_s: float) -> Markup:
    """Return the labels of a time axis as HTML."""
    step = next(s for s in (1, 2, 5, 10, 30, 60, 600) if duration_s / s <= 8 or s == 600)
    ticks = [step * i for i in range(int(duration_s / step) + 1)]
    return Markup("").join(
        Markup('<span style="left:{:.2f}%">{} s</span>').format(100 * t / duration_s, t)
        for t in ticks
        if t / duration_s < 0.96
    )
