"""The tables of an evaluation of interruption detection, in the form of Tables II and III of the SID paper."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.evaluation_table import TableStyle
from bystander.schemas.sid import NOISE, SILENCE
from bystander.schemas.sid_evaluation import AVERAGE, NOISE_SILENCE
from bystander.schemas.sid_evaluation_scores import SidGroupScore, SidScores, SidSystemScore
from bystander.schemas.sid_table import (
    AlarmRow,
    SidCell,
    SidColumn,
    SidRow,
    SidTables,
    name_group,
    show_seconds,
)
from bystander.tasks.metrics.published_sid import (
    PublishedGroupName,
    PublishedSid,
    PublishedSidSystem,
    load_published_sid,
)

_METRICS = ("irl", "fir", "apt")
_FIGURES = ("fir", "fir_nonbreak", "early_rate", "miss_rate", "irl", "irl_with_exact", "apt", "apt_capped")
_COUNTS = ("TP", "FP", "FN", "TN")
_PARTS = ("late", "early", "false_alarm", "missed")


def build_sid_tables(scores: SidScores, published: bool = True) -> SidTables:
    """Return the tables; with `published`, those of the paper follow, marked, as far as the bench has their groups."""
    columns = tuple(_list_columns(scores))
    figures = [[_get(score, column) for column in columns] for score in scores.scores]
    best = [_find_best(column) for column in zip(*figures, strict=True)]
    rows = [
        SidRow(
            score.system,
            tuple(SidCell(one, one is not None and one.mean == low) for one, low in zip(found, best, strict=True)),
        )
        for score, found in zip(scores.scores, figures, strict=True)
    ]
    alarms = [_make_alarms(score) for score in scores.scores]
    paper = load_published_sid() if published else None
    for system in paper.systems if paper else ():
        rows.append(SidRow(system.name, tuple(_get_published(system, column) for column in columns), published=True))
        alarms.append(_make_published_alarms(system))
    return SidTables(columns, tuple(rows), tuple(alarms), tuple(_list_notes(scores, paper)))


def format_sid_table(scores: SidScores, style: TableStyle, published: bool = True) -> str:
    """Return the tables, ending in a line break.

    Markdown has a line a system: scores by group, then outcomes, then silence and noise. CSV and JSON have a record a
    system and group or value of a property (`breakdown`), with all figures and their intervals.

    Args:
        scores: what was found.
        style: which form.
        published: whether the paper's systems follow, marked.
    """
    if style == "markdown":
        return _format_markdown(scores, build_sid_tables(scores, published))
    records = list(_list_records(scores, load_published_sid() if published else None))
    if style == "json":
        return json.dumps(records, indent=2, ensure_ascii=False) + "\n"
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(records[0]) if records else ["system"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


# ---- tables --------------------------------------------------------------------------------------------------


def _list_columns(scores: SidScores) -> Iterator[SidColumn]:
    for group in scores.bench.cases:
        yield from (SidColumn(group, metric) for metric in _METRICS if (group, metric) != (NOISE_SILENCE, "irl"))


def _get(score: SidSystemScore, column: SidColumn) -> Estimate | None:
    group = score.group(column.group)
    return None if group is None else cast(Estimate, getattr(group, column.metric))


def _find_best(figures: Sequence[Estimate | None]) -> float | None:
    means = [one.mean for one in figures if one is not None and one.mean is not None]
    # One system alone is no best.
    return min(means) if len(means) > 1 else None


def _get_published(system: PublishedSidSystem, column: SidColumn) -> SidCell:
    group = system.groups.get(cast(PublishedGroupName, column.group))
    mean = None if group is None else cast("float | None", getattr(group, column.metric))
    return SidCell(None if mean is None else Estimate(mean=mean, low=None, high=None, n=0))


def _make_alarms(score: SidSystemScore) -> AlarmRow:
    silence, noise = score.category(SILENCE), score.category(NOISE)
    capped = [
        one.apt_capped.mean if one is not None and one.apt_capped is not None else None for one in (silence, noise)
    ]
    return AlarmRow(
        system=score.system,
        silence_alarms=None if silence is None else silence.false_alarms,
        silence_apt=None if silence is None else silence.apt.mean,
        noise_alarms=None if noise is None else noise.false_alarms,
        noise_apt=None if noise is None else noise.apt.mean,
        capped=None if capped == [None, None] else (capped[0], capped[1]),
    )


def _make_published_alarms(system: PublishedSidSystem) -> AlarmRow:
    return AlarmRow(
        system=system.name,
        silence_alarms=system.silence.false_alarms,
        silence_apt=system.silence.apt,
        noise_alarms=system.noise.false_alarms,
        noise_apt=system.noise.apt,
        published=True,
    )


def _list_notes(scores: SidScores, paper: PublishedSid | None) -> Iterator[str]:
    bench = scores.bench
    by = f"{bench.clusters} recordings or single clips" if scores.resample_by == "recording" else "single clips"
    yield (
        f"Lower is better. IRL and APT in seconds. Intervals: {scores.confidence:.0%}, bootstrap over {by}. FIR: false "
        "interruptions by all clips, early stops included, as in the paper's tables; (README): false interruptions of "
        "clips without a break, by these, as in the README of SID-Bench."
    )
    if scores.tolerance_s is None:
        yield "No stop counts as exact: latencies of all true positives are in IRL."
    else:
        yield (
            f"A stop within {scores.tolerance_s:g} s of the break, before or after, is exact: no penalty, and left out "
            "of IRL."
        )
    if scores.penalty_cap_s is not None:
        yield f"Capped: a false alarm in a clip without speech costs at most {scores.penalty_cap_s:g} s."
    if _is_small(bench.cases):
        there = ", ".join(f"{name_group(name)} {n}" for name, n in bench.cases.items() if name != AVERAGE)
        yield (
            f"Average: over the {bench.cases[AVERAGE]} clips of this bench ({there}), not the paper's EN 1600, ZH "
            "1600, noise & silence 500."
        )
    for score in scores.scores:
        yield from _list_system_notes(score)
    if bench.doubled:
        yield f"{bench.doubled} lines of the references repeat another and count once."
    if paper is not None:
        yield (
            f"Published: {paper.source.place} of {paper.source.title} ({paper.source.address}), measured by its "
            "authors on their bench: not to be compared closely."
        )
        yield from (f"{system.name} (published): {system.remark}." for system in paper.systems if system.remark)


def _is_small(cases: dict[str, int]) -> bool:
    paper = {str(name): n for name, n in load_published_sid().cases.items()}
    return {name: n for name, n in cases.items() if name != AVERAGE} != {
        name: paper[name] for name in ("en", "zh", NOISE_SILENCE)
    }


def _list_system_notes(score: SidSystemScore) -> Iterator[str]:
    info, average = score.predictions, score.groups[-1]
    if info is not None and info.missing:
        yield (
            f"{score.system}: {info.missing} of {average.cases} clips have no prediction and count as never stopped; "
            f"{info.missing_with_break} of them have a break."
        )
    if info is not None and info.unknown:
        yield f"{score.system}: {info.unknown} predictions are of no clip of this bench."
    if info is not None and info.doubled:
        yield f"{score.system}: {info.doubled} predictions repeat another and count once."
    if average.after_end:
        stops = average.counts["TP"] + average.counts["FP"]
        yield (
            f"{score.system}: {average.after_end} of {stops} stops come after the clip's end"
            f"{'; are its times in seconds?' if 2 * average.after_end > stops else ''}."
        )


# ---- writing -------------------------------------------------------------------------------------------------


def _format_markdown(scores: SidScores, tables: SidTables) -> str:
    heads = [f"{name_group(column.group)} {column.title}" for column in tables.columns]
    parts = [_format_rows(["System", *heads], [[_mark(row), *(c.text for c in row.cells)] for row in tables.rows])]
    parts.append(_format_outcomes(scores))
    if NOISE_SILENCE in scores.bench.cases:
        parts.append(_format_alarms(tables))
    return "\n".join([*parts, *tables.notes]) + "\n"


def _format_outcomes(scores: SidScores) -> str:
    heads = ["All clips", *_COUNTS, "Early", "Exact", "IRL", "FIR", "FIR (README)", "APT"]
    capped = scores.penalty_cap_s is not None
    timed = any(score.compute for score in scores.scores)
    heads += ["APT capped"] * capped + ["Compute per second heard"] * timed
    lines = []
    for score in scores.scores:
        one = score.groups[-1]
        line = [score.system, *(str(one.counts[name]) for name in _COUNTS), str(one.early), str(one.exact)]
        line += [_show_interval(getattr(one, name)) for name in ("irl", "fir", "fir_nonbreak", "apt")]
        line += [_show_interval(one.apt_capped)] * capped
        line += [show_compute(score)] * timed
        lines.append(line)
    return _format_rows(heads, lines)


def show_compute(score: SidSystemScore) -> str:
    """Return milliseconds of computing for a second of sound; a dash where none was measured."""
    factor = score.compute.real_time_factor if score.compute else None
    return "–" if factor is None else f"{1000 * factor:.1f} ms"


def _format_alarms(tables: SidTables) -> str:
    capped = any(row.capped for row in tables.alarms)
    heads = ["False alarms", "Silence FAN ↓", "Silence APT ↓", "Noise FAN ↓", "Noise APT ↓"]
    lines = []
    for row in tables.alarms:
        counts = ["–" if n is None else str(n) for n in (row.silence_alarms, row.noise_alarms)]
        line = [_mark(row), counts[0], show_seconds(row.silence_apt), counts[1], show_seconds(row.noise_apt)]
        line += [show_seconds(one) for one in row.capped or (None, None)] if capped else []
        lines.append(line)
    return _format_rows(heads + ["Silence APT capped", "Noise APT capped"] * capped, lines)


def _mark(row: SidRow | AlarmRow) -> str:
    return f"{row.system} (published)" if row.published else row.system


def _show_interval(estimate: Estimate | None) -> str:
    if estimate is None or estimate.mean is None:
        return "–"
    return f"{show_seconds(estimate.mean)} [{show_seconds(estimate.low)}, {show_seconds(estimate.high)}]"


def _format_rows(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    table = [heads, ["---", *["---:"] * (len(heads) - 1)], *lines]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in table)


def _list_records(scores: SidScores, paper: PublishedSid | None) -> Iterator[dict[str, Any]]:
    for score in scores.scores:
        for one in score.groups:
            yield _make_record(score.system, "group", one)
        for breakdown in score.breakdowns:
            for one in breakdown.groups:
                yield _make_record(score.system, breakdown.key, one)
    fields = list(_make_record("", "", scores.scores[0].groups[0])) if scores.scores else []
    for system in paper.systems if paper and fields else ():
        for group, figures in system.groups.items():
            known = {"system": system.name, "breakdown": "group", "group": group, "published": True}
            yield {**dict.fromkeys(fields), **known, **figures.model_dump()}
        for category, alarms in ((SILENCE, system.silence), (NOISE, system.noise)):
            known = {"system": system.name, "breakdown": "category", "group": category, "published": True}
            yield {**dict.fromkeys(fields), **known, "FP": alarms.false_alarms, "apt": alarms.apt}


def _make_record(system: str, key: str, one: SidGroupScore) -> dict[str, Any]:
    record: dict[str, Any] = {"system": system, "breakdown": key, "group": one.group, "published": False}
    record |= {"cases": one.cases, **{name: one.counts[name] for name in _COUNTS}}
    record |= {"early": one.early, "exact": one.exact, "after_end": one.after_end}
    for name in _FIGURES:
        estimate: Estimate | None = getattr(one, name)
        record |= {
            name: estimate and estimate.mean,
            f"{name}_low": estimate and estimate.low,
            f"{name}_high": estimate and estimate.high,
        }
    return record | {f"apt_of_{part}": one.apt_parts[part] for part in _PARTS}
