"""`report.html` of a dyadic build: one file that shows, offline, what was spoken, refused, and how it sounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from markupsafe import Markup

from bystander.pages.build_report import RejectExample, StageFunnel, describe_flow
from bystander.pages.charts import Series, draw_bars, draw_histogram
from bystander.pages.listening_samples import HeardReject, choose_listening_samples
from bystander.pages.page_templates import render_page


@dataclass(frozen=True, slots=True)
class DyadicReportData:
    """All that the report shows.

    `rows` are all final rows with the columns of `schemas.dyadic.DYADIC_FINAL` but without `audio`; `samples` a few
    with it. `facts` are pairs of a name and a value about the build.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    stages: Sequence[StageFunnel]
    rows: pa.Table
    samples: pa.Table
    missing: Sequence[tuple[int, int]] = ()
    """Rows asked for and obtained, where these are fewer."""
    rejects: Sequence[RejectExample] = ()
    heard_rejects: Sequence[HeardReject] = ()
    """Rejects to listen to."""


def render_dyadic_report(data: DyadicReportData) -> str:
    """Return the page. It loads nothing from anywhere."""
    return render_page(
        "dyadic_report.html.j2",
        ("sid_report.css", "listening.css"),
        "listening.js",
        data=data,
        **describe_flow(data.stages, data.rejects),
        tiles=_count_tiles(data.rows),
        charts=_draw_charts(data.rows),
        samples=choose_listening_samples("dyadic", data.samples, data.heard_rejects, data.title),
    )


def _count_tiles(rows: pa.Table) -> list[tuple[str, str]]:
    seconds = sum(rows["duration_s"].to_pylist())
    return [
        ("rows", f"{len(rows):,}"),
        ("of audio", f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"),
        ("voices", f"{len(set(rows['primary_voice'].to_pylist()))}"),
    ]


def _draw_charts(rows: pa.Table) -> list[Markup]:
    def read(name: str) -> list[float]:
        return [float(value) for value in rows[name].to_pylist() if value is not None]

    charts = [
        draw_bars("Split", dict(sorted(Counter(rows["split"].to_pylist()).items()))),
        draw_bars("Voice", dict(sorted(Counter(rows["primary_voice"].to_pylist()).items()))),
        draw_histogram("Duration", "s", [Series("requests", read("duration_s"), "--bar")]),
        draw_histogram(
            "Word error rate",
            "",
            [
                Series("raw", read("primary_wer_raw"), "--other"),
                Series("normalised", read("primary_wer"), "--bar"),
            ],
            bins=16,
        ),
        draw_histogram("Speaker similarity of the halves", "", [Series("requests", read("track_similarity"), "--bar")]),
    ]
    return [chart for chart in charts if chart]
