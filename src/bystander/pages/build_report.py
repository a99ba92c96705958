"""`report.html` of a build: one file that shows, offline, what went in, what was refused, and what came out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from bystander.pages.charts import Series, draw_bars, draw_histogram
from bystander.pages.clips import shorten_text
from bystander.pages.listening_samples import HeardReject, choose_listening_samples
from bystander.pages.page_templates import render_page
from bystander.schemas.ordering import interleave
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL

_TEXT_COLUMNS = ("primary_text", "third_party_text", "reply")
_QUERY_COLUMNS = ("request", "query_text")


@dataclass(frozen=True, slots=True)
class StageFunnel:
    """Rows that a stage read, kept, and rejected by reason."""

    stage: str
    rows_in: int
    kept: int
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        return sum(self.reasons.values())

    @property
    def is_balanced(self) -> bool:
        return self.kept + self.rejected == self.rows_in


@dataclass(frozen=True, slots=True)
class Stratum:
    """Rows asked for and obtained: of a label, or of a label in a scenario."""

    label: str
    scenario: str | None
    asked: int
    got: int


@dataclass(frozen=True, slots=True)
class RejectExample:
    """A rejected row in words."""

    stage: str
    reason: str
    text: str
    detail: str = ""
    raw_output: str = ""


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that the report shows.

    `rows` are all final rows with the columns of `schemas.tpi.FINAL` but without `audio`; `samples` a few with it.
    `facts` are pairs of a name and a value about the build.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    stages: Sequence[StageFunnel]
    rows: pa.Table
    samples: pa.Table
    strata: Sequence[Stratum] = ()
    rejects: Sequence[RejectExample] = ()
    heard_rejects: Sequence[HeardReject] = ()
    """Rejects to listen to."""
    controls: Sequence[tuple[str, str]] = ()
    """How well a bench is solved without listening: name and figure. The section is left out where empty."""


def choose_samples(rows: pa.Table, count: int) -> list[str]:
    """Return the ids of up to `count` rows that differ much: labels take turns, and so do scenarios within a label."""
    queues: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    columns = (rows[name].to_pylist() for name in ("label", "scenario", "id"))
    for label, scenario, row_id in sorted(zip(*columns, strict=True)):
        queues[label][scenario].append(row_id)
    orders = []
    for index, (_, scenarios) in enumerate(sorted(queues.items())):
        # Each label begins elsewhere in the taxonomy, so that few rows show many scenarios.
        first = index * len(scenarios) // len(queues)
        turns = list(scenarios.values())
        orders.append(interleave(turns[first:] + turns[:first]))
    return interleave(orders)[:count]


def describe_reject(row: Mapping[str, Any]) -> RejectExample:
    """Return a row of a rejects table in words."""
    spoken = [str(row[name]) for name in _TEXT_COLUMNS if row.get(name)]
    queries = [str(row[name]) for name in _QUERY_COLUMNS if row.get(name)]
    return make_reject_example(row, " / ".join(spoken or queries[:1]))


def make_reject_example(row: Mapping[str, Any], text: str) -> RejectExample:
    """Return a row of any rejects table in words; `text` is what it is about, empty where it has none."""
    return RejectExample(
        stage=str(row["reject_stage"]),
        reason=str(row["reject_reason"]),
        text=shorten_text(text or "(no text)"),
        detail=shorten_text(str(row.get("reject_detail") or "")),
        raw_output=shorten_text(str(row.get("raw_output") or "")),
    )


def describe_flow(stages: Sequence[StageFunnel], rejects: Sequence[RejectExample]) -> dict[str, Any]:
    """Return what the sections of `build_sections.html.j2` show besides the stages themselves."""
    by_reason: dict[tuple[str, str], list[RejectExample]] = defaultdict(list)
    for example in rejects:
        by_reason[example.stage, example.reason].append(example)
    return {
        "most_in": max((stage.rows_in for stage in stages), default=0) or 1,
        "balanced": all(stage.is_balanced for stage in stages),
        "rejects": by_reason,
    }


def render_build_report(data: ReportData) -> str:
    """Return the page. It loads nothing from anywhere."""
    return render_page(
        "build_report.html.j2",
        ("sid_report.css", "listening.css"),
        "listening.js",
        data=data,
        **describe_flow(data.stages, data.rejects),
        missing=[stratum for stratum in data.strata if stratum.got < stratum.asked],
        tiles=_count_tiles(data.rows),
        scenarios=_cross_scenarios(data.rows),
        bars=_draw_counts(data.rows),
        histograms=_draw_histograms(data.rows),
        samples=choose_listening_samples("tpi", data.samples, data.heard_rejects, data.title),
    )


def _count_tiles(rows: pa.Table) -> list[tuple[str, str]]:
    seconds = sum(rows["duration_s"].to_pylist())
    labels = Counter(rows["label"].to_pylist())
    return [
        ("rows", f"{len(rows):,}"),
        *((label, f"{count:,}") for label, count in sorted(labels.items())),
        *([("twins", f"{twins:,}")] if (twins := _count_twins(rows)) else []),
        ("of audio", f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"),
        ("voices", f"{len({*rows['primary_voice'].to_pylist(), *rows['third_party_voice'].to_pylist()} - {None})}"),
    ]


def _count_twins(rows: pa.Table) -> int:
    """Return in how many two-speaker rows the one-speaker twin is there too."""
    links = zip(rows["n_speakers"].to_pylist(), rows["twin_id"].to_pylist(), strict=True)
    return sum(speakers == 2 and twin is not None for speakers, twin in links)


@dataclass(frozen=True, slots=True)
class _CrossTable:
    labels: list[str]
    lines: list[tuple[str, str, list[int], int]]
    totals: list[int]
    most: int


def _cross_scenarios(rows: pa.Table) -> _CrossTable:
    names = ("category", "scenario", "label")
    counts = Counter(zip(*(rows[name].to_pylist() for name in names), strict=True))
    labels = sorted({label for _, _, label in counts}, key=lambda label: (label == HARD_NEGATIVE_LABEL, label))
    lines = []
    for category, scenario in sorted({(category, scenario) for category, scenario, _ in counts}):
        cells = [counts[category, scenario, label] for label in labels]
        lines.append((category, scenario, cells, sum(cells)))
    totals = [sum(cells[i] for _, _, cells, _ in lines) for i in range(len(labels))]
    return _CrossTable(labels, lines, totals, max(counts.values(), default=0) or 1)


def _draw_counts(rows: pa.Table) -> list[Markup]:
    charts = []
    for title, name in (("Timing", "timing"), ("Kind", "kind"), ("Category", "category"), ("Split", "split")):
        counts = Counter(value for value in rows[name].to_pylist() if value is not None)
        charts.append(draw_bars(title, dict(sorted(counts.items()))))
    return [chart for chart in charts if chart]


def _draw_histograms(rows: pa.Table) -> list[Markup]:
    pairs = [n == 2 for n in rows["n_speakers"].to_pylist()]
    two, one = rows.filter(pa.array(pairs, pa.bool_())), rows.filter(pa.array([not pair for pair in pairs], pa.bool_()))

    def read(table: pa.Table, *names: str) -> list[float]:
        return [float(value) for name in names for value in table[name].to_pylist() if value is not None]

    charts = [
        draw_histogram(
            "Overlap",
            "s",
            [
                Series("asked", [-offset for offset in read(two, "offset_asked_s")], "--other"),
                Series("obtained", read(two, "overlap_s"), "--both"),
            ],
        ),
        draw_histogram(
            "Duration",
            "s",
            [
                Series("pairs", read(two, "duration_s"), "--bar"),
                Series("hard negatives", read(one, "duration_s"), "--third"),
            ],
        ),
        draw_histogram(
            "Word error rate of the tracks",
            "",
            [
                Series("raw", read(rows, "primary_wer_raw", "third_party_wer_raw"), "--other"),
                Series("normalised", read(rows, "primary_wer", "third_party_wer"), "--bar"),
            ],
            bins=16,
        ),
        *(
            draw_histogram(
                title,
                unit,
                [Series("pairs", read(two, name), "--bar"), Series("hard negatives", read(one, name), "--third")],
            )
            for title, name, unit in (
                ("Speaker similarity of the tracks", "track_similarity", ""),
                ("Speaker similarity in the mixture", "mixture_similarity", ""),
                ("Loudness difference", "loudness_difference_db", "dB"),
                ("Realism score", "realism_score", ""),
                ("Ambiguity score", "ambiguity_score", ""),
                ("Label score", "label_score", ""),
            )
        ),
    ]
    attempts = (
        ("Attempts: texts", ("write_attempts",)),
        ("Attempts: replies", ("reply_attempts",)),
        ("Attempts: tracks", ("primary_attempts", "third_party_attempts")),
    )
    for title, names in attempts:
        counts = Counter(int(value) for value in read(rows, *names))
        charts.append(draw_bars(title, {str(n): counts[n] for n in sorted(counts)}))
    return [chart for chart in charts if chart]
