"""How crops of clips were drawn: where they end around the break, which are positive, and examples."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import soundfile
from markupsafe import Markup

from bystander.pages.line_plot import Bars, Frame, Line, Mark, draw_lines
from bystander.pages.word_waveform import draw_word_waveform
from bystander.schemas.training_report import CropExample, CropFigures

_BIN_S = 0.1
_REACH_S = 3.0
"""How far around the break charts reach at most."""


@dataclass(frozen=True, slots=True)
class CropSection:
    """What the page shows of crops. `examples` are names, counts and pictures."""

    tiles: list[tuple[str, str]]
    charts: list[Markup]
    examples: list[tuple[str, str, Markup]]


def draw_crops(crops: CropFigures) -> CropSection:
    """Return the section's charts: density of ends as drawn and as wanted, and the share of positives by distance."""
    positive = int(np.sum(crops.positive)) if len(crops.positive) else 0
    count = len(crops.from_label_s)
    return CropSection(
        [
            ("clips with a break", f"{crops.clips:,}"),
            ("crops of these", f"{count:,}"),
            ("of them positive", f"{positive / count:.1%}" if count else "–"),
            ("crops of other clips, all negative", f"{crops.crops_without_break:,}"),
        ],
        [_draw_density(crops), _draw_shares(crops)] if count else [],
        [_describe_example(example) for example in crops.examples],
    )


def _draw_density(crops: CropFigures) -> Markup:
    ends = np.asarray(crops.from_label_s, float)
    edges = _choose_edges(ends)
    counts, _ = np.histogram(ends, edges)
    # Over all crops, so that what lies outside the chart is no part of its area.
    density = counts / (len(ends) * np.diff(edges))
    at, wanted = np.asarray(crops.density_at_s, float), np.asarray(crops.density, float)
    inside = (at >= edges[0]) & (at <= edges[-1])
    return draw_lines(
        "Where crops end",
        Frame("seconds from the label’s break", "1/s", x_span=(float(edges[0]), float(edges[-1]))),
        [Line("density that is wanted", at[inside].tolist(), wanted[inside].tolist(), 1)],
        [Bars("crops as drawn", edges.tolist(), density.tolist(), 0)],
        [Mark("label’s break", [0.0], "break")],
    )


def _draw_shares(crops: CropFigures) -> Markup:
    ends = np.asarray(crops.from_break_s, float)
    positive = np.asarray(crops.positive, bool)
    edges = _choose_edges(ends)
    counts, _ = np.histogram(ends, edges)
    hits, _ = np.histogram(ends[positive], edges)
    shares = [float(hit / n) if n else None for hit, n in zip(hits, counts, strict=True)]
    return draw_lines(
        "Share of positive crops by where they end",
        Frame("seconds from the row’s break", x_span=(float(edges[0]), float(edges[-1])), y_span=(0.0, 1.0)),
        [],
        [Bars("share that is positive", edges.tolist(), shares, 2)],
        [Mark("row’s break", [0.0], "truth")],
    )


def _choose_edges(ends_s: np.ndarray) -> np.ndarray:
    low = max(-_REACH_S, np.floor(ends_s.min() / _BIN_S) * _BIN_S)
    high = min(_REACH_S, np.ceil(ends_s.max() / _BIN_S) * _BIN_S)
    low, high = min(low, -_BIN_S), max(high, _BIN_S)
    return np.asarray(np.arange(round(low / _BIN_S), round(high / _BIN_S) + 1) * _BIN_S, float)


def _describe_example(example: CropExample) -> tuple[str, str, Markup]:
    after = [end for end in example.ends_s if example.label_break_s is not None and end > example.label_break_s]
    told = f"{len(example.ends_s)} crops, {len(after)} of them positive"
    label = f"Waveform of {example.name}, {told}"
    wave = draw_word_waveform(example.audio, example.words, example.label_break_s, label, example.break_s)
    return example.name, told, _draw_ends(example) + wave


def _draw_ends(example: CropExample) -> Markup:
    duration_s = _find_duration(example)
    break_s = example.label_break_s
    lines = Markup("").join(
        Markup('<span class="{}" style="width:{:.2f}%" title="{:.2f} s, {}"></span>').format(
            "yes" if is_positive else "no", 100 * end / duration_s, end, "positive" if is_positive else "negative"
        )
        for end in sorted(example.ends_s)
        for is_positive in (break_s is not None and end > break_s,)
    )
    return Markup('<div class="crops" aria-hidden="true">{}</div>').format(lines)


def _find_duration(example: CropExample) -> float:

    info = soundfile.info(io.BytesIO(example.audio))
    return max(float(info.frames / info.samplerate), 1e-3)
