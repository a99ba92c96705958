"""The script sheet of a recording session, to be printed: a page of instructions, then the takes room by room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from bystander.pages.page_templates import render_page
from bystander.schemas.recording_session import SessionSheet, Take


@dataclass(frozen=True, slots=True)
class _Pair:
    primary: str
    third_party: str
    takes: Sequence[Take]


@dataclass(frozen=True, slots=True)
class _Room:
    name: str
    pairs: Sequence[_Pair]

    @property
    def count(self) -> int:
        return sum(len(pair.takes) for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class _PageData:
    title: str
    facts: Sequence[tuple[str, str]]


def render_session_sheet(sheet: SessionSheet) -> str:
    """Return the page. It loads nothing from anywhere."""
    rooms = [
        _Room(room, [_Pair(*names, list(takes)) for names, takes in groupby(own, lambda t: (t.primary, t.third_party))])
        for room, own in ((room, list(own)) for room, own in groupby(sheet.takes, lambda take: take.room))
    ]
    roles = Counter((take.primary, "primary") for take in sheet.takes)
    roles.update((take.third_party, "third party") for take in sheet.takes)
    scenarios = Counter(take.row["scenario"] for take in sheet.takes)
    return render_page(
        "session_sheet.html.j2",
        ("session_sheet.css",),
        data=_PageData(
            f"Recording session {sheet.prefix}",
            [("build", sheet.build), ("seed", str(sheet.plan.seed)), ("codes", f"{sheet.prefix}001 and on")],
        ),
        tiles=[
            ("takes", str(len(sheet.takes))),
            ("speakers", str(len(sheet.plan.speakers))),
            ("rooms", str(len(rooms))),
            ("scenarios", str(len(scenarios))),
        ],
        sheet=sheet,
        rooms=rooms,
        roles=[(name, roles[name, "primary"], roles[name, "third party"]) for name in sheet.plan.speakers],
    )
