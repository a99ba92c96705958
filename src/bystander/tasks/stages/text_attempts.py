"""The loop of the writing stages: ask for all rows at once, ask again for those that fail, then give up on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bystander.schemas.engines import RowFault, TextEngine, TextReply, TextRequest

Row = Mapping[str, Any]
MakeRequest = Callable[[Row, int], TextRequest]
"""(row, number of the try from 0) to a request; the number goes into its seed."""
AcceptReply = Callable[[Row, TextReply], Mapping[str, Any] | RowFault]


@dataclass(frozen=True, slots=True)
class Attempted:
    """The last outcome of a row, and how many texts were asked for."""

    outcome: Mapping[str, Any] | RowFault
    attempts: int


def attempt_rows(
    rows: Sequence[Row],
    engine: TextEngine,
    make_request: MakeRequest,
    accept: AcceptReply,
    max_attempts: int,
    candidates: int = 1,
    order: Callable[[Row], Any] | None = None,
) -> list[Attempted]:
    """Write a text for each row.

    Args:
        rows: one mapping a row.
        engine: asked for `candidates` texts a row in a first call, then once a call for every row still failing.
        make_request: builds the request of a try.
        accept: returns what a good reply gives the row, or why it is not good.
        max_attempts: calls before a row is given up, the first included.
        candidates: texts a row in the first call; the first good one is taken.
        order: sorts the requests of a call, so that those with a common beginning stand together.

    Returns:
        One outcome a row, in order: of the first good text, else of the last one tried, with the raw output.
    """
    done: dict[int, Attempted] = {}
    tries = [0] * len(rows)
    ranked = sorted(range(len(rows)), key=(lambda i: order(rows[i])) if order else lambda i: i)
    for call in range(max_attempts):
        open_rows = [i for i in ranked if i not in done or isinstance(done[i].outcome, RowFault)]
        if not open_rows:
            break
        asked = [(i, tries[i] + n) for i in open_rows for n in range(candidates if call == 0 else 1)]
        replies = engine.generate([make_request(rows[i], number) for i, number in asked])
        for (i, _), reply in zip(asked, replies, strict=True):
            tries[i] += 1
            if i in done and not isinstance(done[i].outcome, RowFault):
                continue
            outcome = reply if isinstance(reply, RowFault) else _judge(rows[i], reply, accept)
            done[i] = Attempted(outcome, tries[i])
    return [Attempted(done[i].outcome, tries[i]) for i in range(len(rows))]


def _judge(row: Row, reply: TextReply, accept: AcceptReply) -> Mapping[str, Any] | RowFault:
    outcome = accept(row, reply)
    if isinstance(outcome, RowFault) and outcome.raw_output is None:
        return RowFault(outcome.reason, outcome.detail, reply.text)
    return outcome
