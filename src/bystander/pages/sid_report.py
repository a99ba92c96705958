"""`report.html` of a SID build: one file that shows, offline, what was found, refused, and how well it is placed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from bystander.pages.build_report import RejectExample, StageFunnel, describe_flow, make_reject_example
from bystander.pages.charts import Series, draw_bars, draw_histogram
from bystander.pages.listening_samples import HeardReject, choose_listening_samples
from bystander.pages.page_templates import render_page
from bystander.schemas.annotation_error import AnnotationError
from bystander.schemas.ordering import interleave
from bystander.schemas.sid import CATEGORIES, SILENCE

_TEXT_COLUMNS = ("text_with_break", "text", "context_text", "substance", "assistant_text", "fault", "source")


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A stratum with fewer rows than were asked for."""

    stratum: str
    asked: int
    got: int


@dataclass(frozen=True, slots=True)
class SidReportData:
    """All that the report shows.

    `rows` are all final rows with the columns of `schemas.sid.SID_FINAL` but without `audio`; `samples` a few with it.
    `facts` are pairs of a name and a value about the build.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    stages: Sequence[StageFunnel]
    rows: pa.Table
    samples: pa.Table
    annotation: Sequence[AnnotationError] = ()
    missing: Sequence[Shortfall] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    rejects: Sequence[RejectExample] = ()
    heard_rejects: Sequence[HeardReject] = ()
    """Rejects to listen to."""


def choose_sid_samples(rows: pa.Table, count: int) -> list[str]:
    """Return the ids of up to `count` rows that differ much: categories and languages take turns."""
    queues: dict[tuple[str, str], list[str]] = defaultdict(list)
    columns = (rows[name].to_pylist() for name in ("category", "language", "id"))
    for category, language, row_id in zip(*columns, strict=True):
        queues[language or "", category].append(row_id)
    order = sorted(queues, key=lambda key: (CATEGORIES.index(key[1]), key[0]))
    return interleave([queues[key] for key in order])[:count]


def describe_sid_reject(row: Mapping[str, Any]) -> RejectExample:
    """Return a row of a SID build's rejects in words."""
    return make_reject_example(row, next((str(row[name]) for name in _TEXT_COLUMNS if row.get(name)), ""))


def render_sid_report(data: SidReportData) -> str:
    """Return the page. It loads nothing from anywhere."""
    languages = sorted({language for language in data.rows["language"].to_pylist() if language})
    return render_page(
        "sid_report.html.j2",
        ("sid_report.css", "listening.css"),
        "listening.js",
        data=data,
        **describe_flow(data.stages, data.rejects),
        missing=data.missing,
        tiles=_count_tiles(data.rows),
        languages=languages,
        cross=_cross_categories(data.rows, languages),
        bars=_draw_counts(data.rows),
        histograms=_draw_histograms(data.rows),
        samples=choose_listening_samples("sid", data.samples, data.heard_rejects, data.title),
    )


def _count_tiles(rows: pa.Table) -> list[tuple[str, str]]:
    seconds = sum(rows["duration_s"].to_pylist())
    breaks = sum(not value for value in rows["total_nonbreak"].to_pylist())
    synthetic = sum(bool(value) for value in rows["synthetic"].to_pylist())
    recordings = {value for value in rows["recording_id"].to_pylist() if value}
    return [
        ("rows", f"{len(rows):,}"),
        ("with a break", f"{breaks:,}"),
        ("synthetic", f"{synthetic:,}"),
        ("recordings", f"{len(recordings):,}"),
        ("of audio", f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"),
    ]


def _cross_categories(rows: pa.Table, languages: Sequence[str]) -> list[tuple[str, list[int], int]]:
    counts = Counter(zip(rows["category"].to_pylist(), rows["language"].to_pylist(), strict=True))
    return [
        (category, [counts[category, language] for language in languages], total)
        for category in CATEGORIES
        if (total := sum(count for (found, _), count in counts.items() if found == category))
    ]


def _draw_counts(rows: pa.Table) -> list[Markup]:
    charts = []
    for title, name in (
        ("Transcript", "transcript_source"),
        ("Aligner", "aligner"),
        ("Licence", "licence"),
        ("Source", "source"),
    ):
        columns = zip(rows[name].to_pylist(), rows["category"].to_pylist(), strict=True)
        # Silence comes from recordings, which are countless and shown by their turns.
        counts = Counter(value for value, category in columns if value is not None and category != SILENCE)
        charts.append(draw_bars(title, dict(counts.most_common(12))))
    return [chart for chart in charts if chart]


def _draw_histograms(rows: pa.Table) -> list[Markup]:
    def read(name: str, *categories: str) -> list[float]:
        columns = zip(rows["category"].to_pylist(), rows[name].to_pylist(), strict=True)
        return [float(value) for category, value in columns if value is not None and category in categories]

    speech = CATEGORIES[:3]
    colours = ("--bar", "--third", "--other")
    breaks = [
        found - start
        for found, start, has_none in zip(
            rows["break_time_s"].to_pylist(), _list_first_starts(rows), rows["total_nonbreak"].to_pylist(), strict=True
        )
        if not has_none and start is not None
    ]
    errors = [
        1000 * (found - true)
        for found, true, at, true_at in zip(
            *(
                rows[name].to_pylist()
                for name in ("break_time_s", "true_break_time_s", "break_word_index", "true_break_word_index")
            ),
            strict=True,
        )
        if true is not None and at == true_at
    ]
    charts = [
        draw_histogram(
            "Duration",
            "s",
            [Series(name, read("duration_s", name), colour) for name, colour in zip(speech, colours, strict=True)],
        ),
        draw_histogram("From the first word to the break", "s", [Series("", breaks, "--third")]),
        draw_histogram("Overlap with the other speaker", "s", [Series("", read("overlap_s", *speech), "--both")]),
        draw_histogram("Found minus true break", "ms", [Series("", errors, "--kept")]),
        draw_histogram("Alignment score", "", [Series("", read("alignment_score", *speech), "--bar")]),
        draw_histogram("Disagreement of aligners", "s", [Series("", read("aligner_disagreement_s", *speech), "--bar")]),
        draw_histogram("Agreement of taggers", "", [Series("", read("tag_agreement", *speech), "--bar")]),
    ]
    return [chart for chart in charts if chart]


def _list_first_starts(rows: pa.Table) -> list[float | None]:
    return [words[0]["start_s"] if words else None for words in rows["words"].to_pylist()]
