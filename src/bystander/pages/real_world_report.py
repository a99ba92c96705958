"""`report.html` of a build of real recordings: one file that shows, offline, what was found, refused, and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from bystander.pages.build_report import RejectExample, StageFunnel, describe_flow
from bystander.pages.charts import Series, draw_bars, draw_histogram
from bystander.pages.listening_samples import HeardReject, choose_listening_samples
from bystander.pages.page_templates import render_page


@dataclass(frozen=True, slots=True)
class RealWorldReportData:
    """All that the report shows.

    `rows` are all final rows with the columns of `schemas.real_world.REAL_FINAL` but without `audio`; `samples` a few
    with it. `candidates` are pairs without audio, with the fields of `storage.candidate_files`, some of
    `candidates_in_all`. `facts` are pairs of a name and a value about the build.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    stages: Sequence[StageFunnel]
    rows: pa.Table
    samples: pa.Table
    candidates: Sequence[Mapping[str, Any]] = ()
    candidates_in_all: int = 0
    rejects: Sequence[RejectExample] = ()
    heard_rejects: Sequence[HeardReject] = ()
    """Rejects to listen to."""


def render_real_world_report(data: RealWorldReportData) -> str:
    """Return the page. It loads nothing from anywhere."""
    return render_page(
        "real_world_report.html.j2",
        ("sid_report.css", "listening.css"),
        "listening.js",
        data=data,
        **describe_flow(data.stages, data.rejects),
        tiles=_count_tiles(data),
        charts=_draw_charts(data.rows),
        samples=choose_listening_samples("tpi", data.samples, data.heard_rejects, data.title),
    )


def _count_tiles(data: RealWorldReportData) -> list[tuple[str, str]]:
    seconds = sum(data.rows["duration_s"].to_pylist())
    utterances = data.stages[0].rows_in if data.stages else 0
    return [
        ("rows", f"{len(data.rows):,}"),
        ("of audio", f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"),
        ("without audio", f"{data.candidates_in_all:,}"),
        ("utterances read", f"{utterances:,}"),
        ("reviewed", f"{sum(review is not None for review in data.rows['review'].to_pylist()):,}"),
    ]


def _draw_charts(rows: pa.Table) -> list[Markup]:
    def read(name: str) -> list[float]:
        return [float(value) for value in rows[name].to_pylist() if value is not None]

    def count(name: str) -> dict[str, int]:
        return dict(sorted(Counter(str(value) for value in rows[name].to_pylist()).items()))

    charts = [
        draw_bars("Corpus", count("corpus")),
        draw_bars("Label", count("label")),
        draw_bars("Timing", count("timing")),
        draw_histogram("Duration", "s", [Series("clips", read("duration_s"), "--bar")]),
        draw_histogram("Overlap", "s", [Series("clips", read("overlap_s"), "--bar")]),
        draw_histogram("Score: request to an assistant", "", [Series("rows", read("query_score"), "--bar")]),
        draw_histogram("Score: interruption", "", [Series("rows", read("interruption_score"), "--bar")]),
        draw_histogram("Score: answerable from words", "", [Series("rows", read("answerable_score"), "--bar")]),
        draw_histogram("Ambiguity score", "", [Series("rows", read("ambiguity_score"), "--bar")]),
    ]
    return [chart for chart in charts if chart]
