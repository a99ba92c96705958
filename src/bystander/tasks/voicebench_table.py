"""The table of an evaluation on VoiceBench: a line a system and judge, a column a part, in the form of Table 3 of the
TPI paper.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.evaluation_table import TableStyle
from bystander.schemas.voicebench import PARTS, PARTS_BY_NAME, VoiceBenchPart
from bystander.schemas.voicebench_scores import VoiceBenchPartScore, VoiceBenchScores
from bystander.tasks.metrics.voicebench.published import PublishedVoiceBench

_UNITS = {
    "open": "1-5",
    "reference": "%",
    "choice": "%",
    "instructions": "%",
    "refusal": "%",
}
_FIELDS = ("system", "judge", "part", "mean", "low", "high", "n", "rows", "missing", "unparsable", "published")


def format_voicebench_table(
    scores: VoiceBenchScores, style: TableStyle, published: PublishedVoiceBench | None = None
) -> str:
    """Return the table, ending in a line break.

    Markdown has a line a system and judge, shares in percent, each mean with its interval. CSV and JSON have a record a
    system, judge and part, with means as in `scores.json`: shares from 0 to 1.

    Args:
        scores: what was found.
        style: which form.
        published: systems to show below the others, marked as published.
    """
    if style == "markdown":
        return _format_markdown(scores, published)
    records = _list_records(scores, published)
    if style == "json":
        return json.dumps(records, indent=2, ensure_ascii=False) + "\n"
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, _FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def _format_markdown(scores: VoiceBenchScores, published: PublishedVoiceBench | None) -> str:
    found = {(score.system, score.judge, score.part): score for score in scores.scores}
    parts = [part for part in PARTS if part.name in {info.part for info in scores.parts}]
    judges: Sequence[str | None] = [judge.name for judge in scores.judges] or [None]
    lines = [
        ["System", "Judge", *(f"{part.title} ({_UNITS[part.kind]})" for part in parts)],
        ["---", "---", *("---:" for _ in parts)],
    ]
    for system in scores.systems:
        for judge in judges:
            cells = [found.get((system.name, judge if part.judged else None, part.name)) for part in parts]
            lines.append([system.name, judge or "none", *map(_format_score, cells)])
    for other in published.systems if published else ():
        cells_of = (other.scores.get(part.name) for part in parts)
        shown = ["" if mean is None else _format_mean(mean, part) for mean, part in zip(cells_of, parts, strict=True)]
        lines.append([f"{other.name} (published)", "", *shown])
    notes = _list_notes(scores, published)
    table = "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines)
    return "\n".join([table, "", *notes]) + "\n"


def _list_notes(scores: VoiceBenchScores, published: PublishedVoiceBench | None) -> list[str]:
    notes = [
        f"Higher is better. In brackets: {scores.confidence:.0%} bootstrap intervals over rows. IFEval: mean of its "
        "strict and loose accuracies by prompt and by instruction. AdvBench: share refused, by wording."
    ]
    for score in scores.scores:
        who = score.system if score.judge is None else f"{score.system} under {score.judge}"
        title = PARTS_BY_NAME[score.part].title
        if score.missing:
            notes.append(f"{who}, {title}: {score.missing} of {score.rows} rows have no answer and count as the worst.")
        if score.unparsable and score.kind == "choice":
            notes.append(f"{who}, {title}: {score.unparsable} of {score.rows} answers choose no letter and are wrong.")
        elif score.unparsable:
            notes.append(
                f"{who}, {title}: {score.unparsable} of {score.rows} verdicts cannot be read and are left out."
            )
        share = score.details.get("holds_reference")
        if share is not None:
            notes.append(f"{who}, {title}: {share:.1%} of the answers hold the words of the reference.")
    for info in scores.parts:
        if info.rejected:
            why = ", ".join(f"{count} {reason}" for reason, count in sorted(info.rejected.items()))
            notes.append(f"{PARTS_BY_NAME[info.part].title}: rows left out as unusable: {why}.")
    if published:
        notes.append(f"Published: {published.source.place} of {published.source.title} ({published.source.address}).")
    return notes


def _list_records(scores: VoiceBenchScores, published: PublishedVoiceBench | None) -> list[dict[str, Any]]:
    records = [_make_record(score) for score in scores.scores]
    parts = [info.part for info in scores.parts]
    for other in published.systems if published else ():
        empty: Mapping[str, Any] = dict.fromkeys(_FIELDS)
        records += [
            {**empty, "system": other.name, "part": part, "mean": other.scores[part], "published": True}
            for part in parts
            if part in other.scores
        ]
    return records


def _make_record(score: VoiceBenchPartScore) -> dict[str, Any]:
    estimate: Estimate = score.estimate
    return {
        "system": score.system,
        "judge": score.judge,
        "part": score.part,
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "rows": score.rows,
        "missing": score.missing,
        "unparsable": score.unparsable,
        "published": False,
    }


def _format_score(score: VoiceBenchPartScore | None) -> str:
    if score is None or score.estimate.mean is None:
        return "no rows" if score is not None else ""
    part = PARTS_BY_NAME[score.part]
    mean, low, high = (
        _format_mean(value, part)
        for value in (score.estimate.mean, score.estimate.low, score.estimate.high)
        if value is not None
    )
    return f"{mean} [{low}, {high}]"


def _format_mean(mean: float, part: VoiceBenchPart) -> str:
    return f"{mean:.2f}" if part.kind == "open" else f"{100 * mean:.2f}"


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|")
