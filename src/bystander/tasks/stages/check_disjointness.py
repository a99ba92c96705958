"""Stage `check_disjointness`: no text that another build says already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.exclusions import Exclusions
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import WRITTEN

NAME = "check_disjointness"
_TEXTS = ("primary_complete", "primary_text", "third_party_text")


def check_disjointness(rows: pa.Table, context: StageContext) -> StageOutput:
    """Reject rows with a text that a build in `disjoint_from` says too. It comes before anything that is dear.

    Columns read: language, primary_complete, primary_text, third_party_text. Columns written: none.

    Reject reasons:
        text_in_other_build: the words of one of these texts, or of the whole transcript, are in another build.
    """
    outcomes: list[Mapping[str, Any] | RowFault] = []
    for row in rows.select(("language", *_TEXTS)).to_pylist():
        taken = find_taken_text(row, context.exclusions)
        detail = f"another build has the {taken}" if taken else ""
        outcomes.append(RowFault("text_in_other_build", detail) if taken else {})
    return split_rows(NAME, rows, outcomes, WRITTEN)


def find_taken_text(row: Mapping[str, Any], exclusions: Exclusions) -> str | None:
    """Return the first text of a row that other builds have, by name and wording, or None."""
    for name, text in list_texts(row).items():
        if exclusions.has_text(text, row["language"]):
            return f"{name} {text!r}"
    return None


def list_texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return, by name, all that is said in a row: each text, and the whole transcript as it is heard."""
    return {
        **{name: row[name] for name in _TEXTS},
        "transcript": f"{row['primary_text']} {row['third_party_text']}",
    }


STAGE = Stage(
    name=NAME,
    version=1,
    reads=WRITTEN,
    writes=WRITTEN,
    reasons=frozenset({"text_in_other_build"}),
    run=check_disjointness,
    uses=("language", *_TEXTS),
    uses_exclusions=True,
)
