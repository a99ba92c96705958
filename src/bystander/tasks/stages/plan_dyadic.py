"""Which rows of a TPI build give a request with a reply that needs no remark, and in which order they are tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

import pyarrow as pa

from bystander.schemas.identity import derive_seed
from bystander.schemas.packs import PackClass, ReplyConduct
from bystander.tasks.stages.restore_rows import Origin, restore_voiced


class Candidate(NamedTuple):
    """A row whose request may be spoken."""

    row_id: str
    query_id: str


def list_quiet_classes(classes: Sequence[PackClass]) -> frozenset[str]:
    """Return the keys of the classes whose replies do not take up what the third party says."""
    return frozenset(item.key for item in classes if not ReplyConduct.decode(item.conduct).may_take_up)


def plan_dyadic(rows: pa.Table, classes: Sequence[PackClass], seed: int) -> list[Candidate]:
    """Return the rows that can be used: of every request one, then of every request that has several another one.

    Within each round they come in the order of a hash of seed and row, so that the first of them are a fair sample.

    Args:
        rows: columns id, query_id, n_speakers and label of the build.
        classes: those of its pack.
        seed: of the new build.
    """
    quiet = list_quiet_classes(classes)
    columns = (rows[name].to_pylist() for name in ("id", "query_id", "n_speakers", "label"))
    fit = [
        Candidate(row_id, query)
        for row_id, query, speakers, label in zip(*columns, strict=True)
        if speakers == 2 and label in quiet
    ]
    fit.sort(key=lambda one: (derive_seed(seed, one.row_id, "plan_dyadic"), one.row_id))
    seen: Counter[str] = Counter()
    rounds: list[list[Candidate]] = []
    for one in fit:
        if seen[one.query_id] == len(rounds):
            rounds.append([])
        rounds[seen[one.query_id]].append(one)
        seen[one.query_id] += 1
    return [one for candidates in rounds for one in candidates]


def take_wave(candidates: Sequence[Candidate], tried: Set[str], finished: Set[str], count: int) -> list[str]:
    """Return the ids of the next rows to speak, at most `count`: not one of a request that is finished, and no two of
    the same request.

    Args:
        candidates: those of `plan_dyadic`.
        tried: ids of rows that were spoken before.
        finished: requests that have their row.
        count: most rows.
    """
    chosen: dict[str, str] = {}
    for one in candidates:
        if len(chosen) >= count:
            break
        if one.row_id not in tried and one.query_id not in finished:
            chosen.setdefault(one.query_id, one.row_id)
    return list(chosen.values())


def explain_passed_over(
    rows: pa.Table, classes: Sequence[PackClass], tried: Set[str], finished: Set[str], used: Set[str]
) -> dict[str, int]:
    """Return how many requests of a build have no row in the new one, by reason, each request once.

    The reasons: `one_speaker_only` (no row of it has two speakers), `reply_takes_up_remark` (of those that do, every
    reply does), `not_needed` (as many rows as were asked for were there before it was its turn), `speech_refused` (each
    row of it that was tried was rejected by a stage).

    Args:
        rows: columns id, query_id, n_speakers and label of the build.
        classes: those of its pack.
        tried: ids of rows that were spoken.
        finished: requests of which a row passed all stages.
        used: requests whose row is taken.
    """
    quiet = list_quiet_classes(classes)
    paired: set[str] = set()
    usable: set[str] = set()
    spoken: set[str] = set()
    columns = (rows[name].to_pylist() for name in ("id", "query_id", "n_speakers", "label"))
    queries: set[str] = set()
    for row_id, query, speakers, label in zip(*columns, strict=True):
        queries.add(query)
        if speakers != 2:
            continue
        paired.add(query)
        if label in quiet:
            usable.add(query)
            if row_id in tried:
                spoken.add(query)
    reasons = {
        "one_speaker_only": queries - paired,
        "reply_takes_up_remark": paired - usable,
        "speech_refused": spoken - finished,
        "not_needed": (usable - spoken) | (finished - used),
    }
    return {reason: len(found) for reason, found in reasons.items() if found}


def take_sources(rows: pa.Table, ids: Sequence[str]) -> pa.Table:
    """Return the published rows of these ids, in this order, as VOICED rows. Draw and line of the request are not
    published and of no use here: they are 0."""
    at = {row_id: i for i, row_id in enumerate(rows["id"].to_pylist())}
    taken = rows.take(pa.array([at[row_id] for row_id in ids], pa.int64()))
    return restore_voiced(taken, {row_id: Origin(pair=row_id, draw=0, query_line=0) for row_id in ids})
