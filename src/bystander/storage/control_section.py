"""The section of a dataset card that says whether the rows need ears, and its place in a card that is written already.

A card is no part of a build's checksums, so it may gain this section after the build is finished.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bystander.schemas.evaluation_scores import Control

CONTROLS_NAME = "controls.json"
"""Beside a build whose controls were measured."""
TITLE = "Does it need ears?"
_HEADING = f"## {TITLE}"
_FOLLOWED_BY = "## How it was built"
_SECTION = re.compile(rf"^{re.escape(_HEADING)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def list_figures(controls: Sequence[Control]) -> list[tuple[str, str]]:
    """Return each control's name and its AUC with the interval, in the words of a tile or a cell."""
    return [(control.name, _format_auc(control)) for control in controls]


def render_controls(controls: Sequence[Control], confidence: float = 0.95) -> str:
    """Return the Markdown that stands under the heading; empty without controls.

    Args:
        controls: of an evaluation or of `measure_controls`.
        confidence: probability that their intervals cover.
    """
    if not controls:
        return ""
    lines = [
        "Each control tries to tell two-speaker rows from one-speaker rows: AUC, 0.5 is chance, 1 is never wrong. "
        "Twins are two rows of the same transcript, so whoever only reads is at 0.5 there; an AUC near 1 for one that "
        "hears says that the audio holds the answer.",
        "",
        f"| Control | Hears | AUC ({100 * confidence:g} % interval) | Twin pairs |",
        "| --- | --- | --- | --- |",
    ]
    for control, (name, figure) in zip(controls, list_figures(controls), strict=True):
        cells = (name, "yes" if control.hears else "no", figure, str(control.pairs))
        lines.append("| " + " | ".join(_escape(cell) for cell in cells) + " |")
    methods = dict.fromkeys(f"- {control.name.partition(', ')[0]}: {control.method}." for control in controls)
    notes = [f"- {control.name}: {control.note}." for control in controls if control.note]
    return "\n".join([*lines, "", *methods, *(["", "Notes:", "", *notes] if notes else [])])


def place_section(card: str, body: str) -> str:
    """Return a dataset card with `body` as its section, in place of an earlier one; an empty body takes it out.

    A new section goes before "How it was built", or to the end of a card that has no such heading.
    """
    section = f"{_HEADING}\n\n{body}\n\n" if body else ""
    if _SECTION.search(card):
        return _SECTION.sub(lambda _: section, card, count=1)
    if not section:
        return card
    start, heading, rest = card.partition(f"\n{_FOLLOWED_BY}\n")
    if heading:
        return f"{start}\n{section}{heading[1:]}{rest}"
    return f"{card.rstrip()}\n\n{section.rstrip()}\n"


def _format_auc(control: Control) -> str:
    if control.auc is None:
        return "not measured"
    if control.low is None or control.high is None:
        return f"{control.auc:.3f}"
    return f"{control.auc:.3f} ({control.low:.3f} to {control.high:.3f})"


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
