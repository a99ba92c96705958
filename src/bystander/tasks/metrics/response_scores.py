"""Means of the judge's verdicts over a bench set: response strategy following (RSF) and overall helpfulness (OH)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bystander.schemas.errors import InputError
from bystander.schemas.identity import derive_seed
from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES, estimate_mean
from bystander.tasks.metrics.input_checks import list_ids
from bystander.tasks.metrics.score_definitions import ScoreDefinition

MissingPolicy = Literal["error", "worst"]
UnparsablePolicy = Literal["error", "worst", "omit"]
Status = Literal["scored", "missing", "unparsable"]

OVERLAP = "overlap"
"""The breakdown by bins of the column `overlap_s`."""

OVERLAP_EDGES_S = (0.4, 0.5, 0.6)
"""Bins around the reference offset of -0.5 s, standard deviation 0.1 s."""


@dataclass(frozen=True, slots=True)
class RowScore:
    """A row's score under the policies; None where it is left out of the mean."""

    row_id: str
    score: float | None
    status: Status


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """A mean over `n` rows with its interval (None where n is 0), and what became of the rows of the bench.

    `n_rows` rows are `n_scored` with a verdict + `n_missing` without a prediction + `n_unparsable` whose verdict could
    not be read; `n` counts those that went into the mean.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    n_rows: int
    n_scored: int
    n_missing: int
    n_unparsable: int


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """A score over all rows, and by group: `groups[key][value]` for each key asked for."""

    definition: ScoreDefinition
    overall: ScoreSummary
    groups: dict[str, dict[str, ScoreSummary]]


def resolve_scores(
    rows: Sequence[Mapping[str, Any]],
    verdicts: Mapping[str, float | None],
    definition: ScoreDefinition,
    *,
    missing: MissingPolicy = "error",
    unparsable: UnparsablePolicy = "error",
) -> list[RowScore]:
    """Return the score of each row of the bench, in their order.

    Args:
        rows: the rows of one bench set; `id` is read.
        verdicts: row id to score; None: the judge's verdict could not be read; absent: there was no prediction.
        definition: the score, whose `worst` is RSF 0 and OH 1 on TPI-Test, RSF 1 and OH 1 on Janus-Test.
        missing: `error`, or `worst`: the row counts with the worst score.
        unparsable: the same, or `omit`: the row is counted and left out of the mean. Nothing is scored by chance.

    Raises:
        InputError: a bench row stands there twice, a verdict belongs to no row or is off the scale, or rows are missing
            or unparsable under the policy `error`; the message lists the ids.
    """
    doubled = [row_id for row_id, count in Counter(row["id"] for row in rows).items() if count > 1]
    if doubled:
        raise InputError(f"bench rows stand there twice: {list_ids(doubled)}")
    unknown = sorted(verdicts.keys() - {row["id"] for row in rows})
    if unknown:
        raise InputError(f"{definition.key}: verdicts of rows that the bench does not have: {list_ids(unknown)}")
    for row_id, score in verdicts.items():
        if score is not None and not definition.accepts(score):
            scale = f"{definition.lowest:g} to {definition.highest:g}"
            raise InputError(f"{definition.key}, row {row_id}: {score} is not on the scale of {scale}")
    absent = [row["id"] for row in rows if row["id"] not in verdicts]
    if absent and missing == "error":
        raise InputError(
            f"{definition.key}: {len(absent)} rows have no prediction: {list_ids(absent)}; "
            "add them, or allow missing ones, which then count against the model"
        )
    unread = [row["id"] for row in rows if row["id"] in verdicts and verdicts[row["id"]] is None]
    if unread and unparsable == "error":
        raise InputError(f"{definition.key}: {len(unread)} verdicts could not be read: {list_ids(unread)}; judge again")
    return [_resolve_score(row["id"], verdicts, definition, unparsable) for row in rows]


def summarise_scores(
    rows: Sequence[Mapping[str, Any]],
    verdicts: Mapping[str, float | None],
    definition: ScoreDefinition,
    *,
    seed: int,
    by: Sequence[str] = (),
    missing: MissingPolicy = "error",
    unparsable: UnparsablePolicy = "error",
    cluster_by: str | None = None,
    overlap_edges_s: Sequence[float] = OVERLAP_EDGES_S,
    level: float = LEVEL,
    n_resamples: int = RESAMPLES,
) -> ScoreReport:
    """Return the mean verdict over the rows, and over the groups that each key of `by` makes of them.

    Groups are ordered by name, overlap bins by length. A group's interval depends on its own rows alone, not on
    which other breakdowns are asked for. Arguments and errors are those of `resolve_scores`, and:

    Args:
        seed: the evaluation's seed; each interval derives its own from it.
        by: columns such as scenario, category, label, timing; `overlap` stands for bins of `overlap_s`.
        cluster_by: a column whose rows belong together when resampling (say query_id).
        overlap_edges_s: inner edges of the overlap bins, in seconds, rising, above 0.
        level: probability that the intervals cover, in (0, 1).
        n_resamples: number of bootstrap samples.

    Raises:
        InputError: as `resolve_scores`, and where a row lacks a column asked for.
    """
    scores = resolve_scores(rows, verdicts, definition, missing=missing, unparsable=unparsable)
    names = ["overlap_s" if name == OVERLAP else name for name in by] + ([cluster_by] if cluster_by else [])
    for row in rows:
        lacking = [name for name in names if name not in row]
        if lacking:
            raise InputError(f"row {row['id']} has no column {', '.join(lacking)}; take another breakdown")

    def summarise(members: Sequence[int], *name: str) -> ScoreSummary:
        return _summarise(
            [scores[number] for number in members],
            [rows[number][cluster_by] if cluster_by else number for number in members],
            derive_seed(seed, definition.key, "bootstrap", *name),
            level,
            n_resamples,
        )

    groups: dict[str, dict[str, ScoreSummary]] = {}
    for key in by:
        members: defaultdict[tuple[float, str], list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            members[_name_group(row, key, overlap_edges_s)].append(number)
        groups[key] = {value: summarise(members[order, value], key, value) for order, value in sorted(members)}
    return ScoreReport(definition, summarise(range(len(rows))), groups)


def name_overlap_bin(overlap_s: float | None, edges_s: Sequence[float] = OVERLAP_EDGES_S) -> str:
    """Return the bin of an overlap in seconds: above one edge, up to and with the next; None is one speaker."""
    return _name_overlap(overlap_s, edges_s)[1]


def _name_overlap(overlap_s: float | None, edges_s: Sequence[float]) -> tuple[float, str]:
    if overlap_s is None or math.isnan(overlap_s):
        return -2, "one speaker"
    if overlap_s <= 0:
        return -1, "no overlap"
    lower = 0.0
    for number, edge in enumerate(edges_s):
        if overlap_s <= edge:
            return number, f"{lower:g} to {edge:g} s"
        lower = edge
    return len(edges_s), f"over {lower:g} s"


def _name_group(row: Mapping[str, Any], key: str, edges_s: Sequence[float]) -> tuple[float, str]:
    if key == OVERLAP:
        return _name_overlap(row["overlap_s"], edges_s)
    return 0, "none" if row[key] is None else str(row[key])


def _resolve_score(
    row_id: str, verdicts: Mapping[str, float | None], definition: ScoreDefinition, unparsable: UnparsablePolicy
) -> RowScore:
    if row_id not in verdicts:
        return RowScore(row_id, definition.worst, "missing")
    score = verdicts[row_id]
    if score is None:
        return RowScore(row_id, definition.worst if unparsable == "worst" else None, "unparsable")
    return RowScore(row_id, float(score), "scored")


def _summarise(
    scores: Sequence[RowScore], clusters: Sequence[Any], seed: int, level: float, n_resamples: int
) -> ScoreSummary:
    counted = [(s.score, cluster) for s, cluster in zip(scores, clusters, strict=True) if s.score is not None]
    estimate = estimate_mean(
        [score for score, _ in counted],
        seed=seed,
        clusters=[cluster for _, cluster in counted],
        level=level,
        n_resamples=n_resamples,
    )
    status = Counter(score.status for score in scores)
    return ScoreSummary(
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        n_rows=len(scores),
        n_scored=status["scored"],
        n_missing=status["missing"],
        n_unparsable=status["unparsable"],
    )
