"""Chooses the rows that are read in a session, and deals them out to rooms and pairs of speakers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bystander.schemas.identity import digest_json, make_rng
from bystander.schemas.ordering import interleave
from bystander.schemas.recording_session import SessionPlan, Take

_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that a prefix is no word, and no Y."""
USUAL_OVERLAP_S = 0.5
"""Where a row asks for none: the mean of the paper's (appendix F)."""
_MOST_OFFSET_S = 2.0
"""Nobody reads more exactly by a sheet, and what is farther from the primary's end is no interruption of it."""


def choose_prefix(rows_digest: str, plan: SessionPlan) -> str:
    """Return the two letters that a sheet's codes begin with."""
    number = int(digest_json([rows_digest, plan.model_dump(mode="json")])[:8], 16)
    return _LETTERS[number // len(_LETTERS) % len(_LETTERS)] + _LETTERS[number % len(_LETTERS)]


def plan_takes(rows: Sequence[Mapping[str, Any]], plan: SessionPlan, prefix: str) -> list[Take]:
    """Return the takes of a session, in the order in which they are read: room by room, pair by pair.

    Scenarios take turns, and labels within a scenario, so that the numbers of any two scenarios differ by one at most
    while both have rows. Each scenario is dealt out to the rooms in turn. All ordered pairs of speakers take
    turns, in rounds in which everybody has each role once: over the session nobody has a role more than one round's
    share more often than anybody else.

    Args:
        rows: two-speaker rows of a build, without audio, in any order.
        plan: speakers, rooms, number of takes, seed.
        prefix: what the codes begin with.
    """
    chosen = _choose_rows(rows, plan)
    by_room = _deal_to_rooms(chosen, plan.rooms)
    pairs = _list_pairs(plan)
    dealt: list[tuple[str, int, Mapping[str, Any]]] = []
    begin = 0
    for room in plan.rooms:
        for place, row in enumerate(by_room[room]):
            dealt.append((room, (begin + place) % len(pairs), row))
        begin += len(by_room[room])
    dealt.sort(key=lambda one: (plan.rooms.index(one[0]), one[1]))
    takes = []
    for number, (room, pair, row) in enumerate(dealt, 1):
        offset = -plan.overlap_s if plan.overlap_s is not None else _find_offset(row)
        takes.append(
            Take(
                code=f"{prefix}{number:03d}",
                room=room,
                primary=pairs[pair][0],
                third_party=pairs[pair][1],
                cue_word=find_cue_word(str(row["primary_text"]).split(), _measure_primary(row), max(0.0, -offset)),
                offset_s=round(offset, 2) + 0.0,  # no -0
                row=dict(row),
            )
        )
    return takes


def find_cue_word(words: Sequence[str], duration_s: float, overlap_s: float) -> int:
    """Return the position of the word that is being said `overlap_s` seconds before the last one ends.

    Words are taken to last as long as their letters are many.
    """
    lengths = [max(1, sum(letter.isalnum() for letter in word)) for word in words]
    left = sum(lengths) * (1 - min(max(overlap_s / max(duration_s, 1e-3), 0.0), 1.0))
    for place, length in enumerate(lengths):
        left -= length
        if left < 0:
            return place
    return max(0, len(words) - 1)


def _choose_rows(rows: Sequence[Mapping[str, Any]], plan: SessionPlan) -> list[Mapping[str, Any]]:
    queues: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: str(row["id"])):
        if plan.scenarios and row["scenario"] not in plan.scenarios:
            continue
        queues[row["scenario"]][row["label"]].append(row)
    rng = make_rng(plan.seed, "session", "choose_rows")
    turns = []
    for at, scenario in enumerate(sorted(queues)):
        labels = [[queue[i] for i in rng.permutation(len(queue))] for _, queue in sorted(queues[scenario].items())]
        first = at % len(labels)  # each scenario begins with another label
        turns.append(interleave(labels[first:] + labels[:first]))
    order = rng.permutation(len(turns))
    return interleave([turns[i] for i in order])[: plan.takes]


def _deal_to_rooms(rows: Sequence[Mapping[str, Any]], rooms: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    """Give each row to a room that has the fewest of its scenario, of these to one with the fewest rows."""
    dealt: dict[str, list[Mapping[str, Any]]] = {room: [] for room in rooms}
    met: Counter[tuple[str, str]] = Counter()
    for row in rows:
        room = min(rooms, key=lambda one: (met[one, row["scenario"]], len(dealt[one])))
        met[room, row["scenario"]] += 1
        dealt[room].append(row)
    return dealt


def _list_pairs(plan: SessionPlan) -> list[tuple[str, str]]:
    """Return all ordered pairs of speakers, in rounds in which everybody has each role once."""
    rng = make_rng(plan.seed, "session", "pairs")
    speakers = [plan.speakers[i] for i in rng.permutation(len(plan.speakers))]
    count = len(speakers)
    return [(speakers[at], speakers[(at + step) % count]) for step in range(1, count) for at in range(count)]


def _find_offset(row: Mapping[str, Any]) -> float:
    offset = row.get("offset_asked_s")
    return -USUAL_OVERLAP_S if offset is None else max(-_MOST_OFFSET_S, min(float(offset), _MOST_OFFSET_S))


def _measure_primary(row: Mapping[str, Any]) -> float:
    """Return how long the primary speaks in the build's clip, in seconds; a usual pace where that is not known."""
    own = [s["end_s"] - s["start_s"] for s in row.get("segments") or () if s["speaker"] == "primary"]
    return sum(own) if own else 0.35 * len(str(row["primary_text"]).split())
