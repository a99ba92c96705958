"""Rows for the two-input model whose words and sound follow a rule that is planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bystander.schemas.train_tpi_config import RowPart
from bystander.tasks.training.row_index import INDEX_ROW, RowIndex
from bystander.tasks.training.two_input_rows import TwoInputRow

WIDTH = 6
_REQUESTS = ("play some music", "set a timer", "read the news", "call the office", "find a recipe")
_REMARKS = {"actionable": ("try the other one", "we need the large one"), "ignorable": ("lovely rain", "what a day")}


def make_planted_row(number: int, part: RowPart, label: str = "none", prefix: str = "row") -> TwoInputRow:
    """Return a row: two speakers are two timbres in its frames; a remark is in the words of all but dyadic rows."""
    rng = np.random.default_rng([number, ["two_speaker", "dyadic", "hard_negative"].index(part)])
    frames = int(rng.integers(8, 14))
    voices = rng.standard_normal((2, WIDTH))
    timbre = np.repeat(voices[:1], frames, 0)
    if part == "two_speaker":
        timbre[frames // 2 :] = voices[1]
    remark = _REMARKS["ignorable" if label == "ignorable" else "actionable"][number % 2]
    words = _REQUESTS[number % len(_REQUESTS)] + ("" if part == "dyadic" else f" {remark}")
    return TwoInputRow(
        id=f"{prefix}-{part}-{number}",
        group=f"{prefix}-{number}",
        part=part,
        label=label,
        words=tuple(words.split()),
        frames=(timbre + 0.1 * rng.standard_normal((frames, WIDTH))).astype(np.float32),
        duration_s=frames / 5,
        levels_db=rng.normal(-20, 2, frames),
        twin_id=None,
        request_words=tuple(_REQUESTS[number % len(_REQUESTS)].split()),
    )


def make_planted_rows(requests: int, prefix: str = "row", first: int = 0) -> list[TwoInputRow]:
    """Return a two-speaker row, its one-speaker twin and a dyadic row of each of some requests."""
    rows = []
    for number in range(first, first + requests):
        label = ("actionable", "ignorable")[number // 2 % 2]
        pair = [
            make_planted_row(number, "two_speaker", label, prefix),
            make_planted_row(number, "hard_negative", prefix=prefix),
        ]
        twins = [replace(row, words=pair[0].words, twin_id=other.id) for row, other in (pair, pair[::-1])]
        rows += [*twins, make_planted_row(number, "dyadic", prefix=prefix)]
    return rows


def index_planted_rows(rows: Sequence[TwoInputRow]) -> RowIndex:
    """Return an index that has these rows in their order, of one row group."""
    count = len(rows)
    columns = {
        "id": [row.id for row in rows],
        "query_id": [row.group for row in rows],
        "query_text": [" ".join(row.words) for row in rows],
        "part": [row.part for row in rows],
        "duration_s": [row.duration_s for row in rows],
        "text_chars": [1] * count,
        "reply_chars": [1] * count,
        "file": [0] * count,
        "row_group": [0] * count,
        "row": list(range(count)),
        "voice": [None] * count,
        "language": [None] * count,
    }
    return RowIndex((), (), pa.table(columns, schema=INDEX_ROW))
