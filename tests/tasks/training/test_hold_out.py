"""The held-out slice of SID rows: other voices, other recordings, every category, the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from bystander.schemas.errors import ConfigError
from bystander.tasks.training.hold_out import deal_into_folds, hold_out_voices
from bystander.tasks.training.open_rows import open_sid_rows
from bystander.tasks.training.row_index import INDEX_ROW, RowIndex
from sid_rows import make_sid_rows, write_sid_train

Row = tuple[str, str | None, str | None, str, str]
"""Recording, voice, language, category, text."""


def index_rows(rows: Sequence[Row]) -> RowIndex:
    columns = {name: [] for name in INDEX_ROW.names}
    for number, (recording, voice, language, category, text) in enumerate(rows):
        given_ = {"id": f"row-{number}", "query_id": recording, "query_text": text, "part": category}
        given_ |= {"voice": voice, "language": language, "row": number}
        for name in INDEX_ROW.names:
            columns[name].append(given_.get(name, 0))
    return RowIndex((), (), pa.table(columns, schema=INDEX_ROW))


def make_rows(voices: int, each: int = 6, language: str = "en") -> list[Row]:
    """Return rows of voices, each in recordings of its own, whose categories and texts take turns."""
    names = ("beginning", "middle", "uninterrupted")
    return [
        (f"{language}-{voice}-{number}", f"v{voice}", language, names[number % 3], f"text {voice} {number}")
        for voice in range(voices)
        for number in range(each)
    ]


def make_silences(count: int, category: str = "silence") -> list[Row]:
    return [(f"{category}-{number}", None, None, category, "") for number in range(count)]


_ROWS = st.lists(
    st.tuples(
        st.integers(0, 12).map(lambda number: f"recording-{number}"),
        st.one_of(st.none(), st.integers(0, 6).map(lambda number: f"voice-{number}")),
        st.sampled_from(["en", "zh", None]),
        st.sampled_from(["beginning", "middle", "uninterrupted", "silence"]),
        st.sampled_from(["yes", "no", "wait"]),
    ),
    min_size=1,
    max_size=60,
)


@given(rows=_ROWS, seed=st.integers(0, 99), share=st.floats(0, 0.6))
def test_no_recording_is_on_both_sides_and_no_row_is_lost(rows: list[Row], seed: int, share: float) -> None:
    found = hold_out_voices(index_rows(rows), seed, share)
    assert np.array_equal(found.held, hold_out_voices(index_rows(rows), seed, share).held)
    assert not found.held.all()
    sides = [{row[0] for row, held in zip(rows, found.held, strict=True) if held is np.bool_(side)} for side in (0, 1)]
    assert not sides[0] & sides[1]
    if not any("not surely of other voices" in remark for remark in found.remarks):
        voices = [
            {row[1:3] for row, held in zip(rows, found.held, strict=True) if row[1] and held is np.bool_(side)}
            for side in (0, 1)
        ]
        assert not voices[0] & voices[1]


@given(seed=st.integers(0, 30))
def test_every_language_and_category_has_about_its_share(seed: int) -> None:
    rows = make_rows(20) + make_rows(5, 24, "zh") + make_silences(10) + make_silences(10, "noise")
    found = hold_out_voices(index_rows(rows), seed, 0.2)
    held = [row for row, one in zip(rows, found.held, strict=True) if one]
    assert len({row[1] for row in held if row[2] == "en"}) == 4
    assert len({row[1] for row in held if row[2] == "zh"}) == 1
    for language, each in (("en", 8), ("zh", 8)):
        for category in ("beginning", "middle", "uninterrupted"):
            assert sum(row[2:4] == (language, category) for row in held) == each
    assert sum(row[3] == "silence" for row in held) == sum(row[3] == "noise" for row in held) == 2
    assert found.remarks == ("Few rows are held out of some categories (noise 2, silence 2): their figures are rough.",)


def test_other_seeds_hold_other_voices_out_and_none_is_none() -> None:
    index = index_rows(make_rows(20))
    assert len({hold_out_voices(index, seed, 0.2).held.tobytes() for seed in range(8)}) > 4
    assert not hold_out_voices(index, 0, 0.0).held.any()


def test_voices_with_new_texts_are_preferred() -> None:
    rows = make_rows(10)
    rows = [(*row[:4], "said by all" if row[1] not in ("v2", "v7") else row[4]) for row in rows]
    held = hold_out_voices(index_rows(rows), 0, 0.2).held
    assert {row[1] for row, one in zip(rows, held, strict=True) if one} == {"v2", "v7"}


def test_a_recording_of_two_voices_stays_whole_with_both() -> None:
    rows = make_rows(8)
    rows += [("shared", "v0", "en", "middle", "a"), ("shared", "v1", "en", "middle", "b")]
    for seed in range(10):
        held = hold_out_voices(index_rows(rows), seed, 0.4).held
        assert len({bool(one) for row, one in zip(rows, held, strict=True) if row[1] in ("v0", "v1")}) == 1


def test_too_few_voices_are_told() -> None:
    found = hold_out_voices(index_rows(make_rows(1, 30)), 0, 0.2)
    assert found.held.sum() == 6
    assert "its 30 rows name 1 voice, none of which can be held out whole" in found.remarks[0]
    nameless = [(row[0], None, *row[2:]) for row in make_rows(4)]
    assert "name no voices" in hold_out_voices(index_rows(nameless), 0, 0.2).remarks[0]


def test_an_empty_slice_and_a_lacking_category_are_told() -> None:
    one = hold_out_voices(index_rows([("only", "v", "en", "middle", "a")] * 5), 0, 0.2)
    assert "there is but one recording" in one.remarks[-1]
    lacking = hold_out_voices(index_rows([*make_rows(20), *make_silences(1)]), 0, 0.2)
    assert lacking.remarks[0].startswith("No row of silence is held out")


def test_opened_rows_have_other_voices_and_their_remarks(tmp_path: Path) -> None:
    made = make_sid_rows(12)
    made = [row | {"speaker": row["speaker"] and f"voice-{at // 4}"} for at, row in enumerate(made)]
    write_sid_train(tmp_path / "sid", made)
    rows = open_sid_rows([str(tmp_path / "sid")], lambda row, _: row, ["speaker"], rate=None, seed=1, held_out=0.3)
    assert rows.held_out is not None
    train, held = ({row["speaker"] for row in one.read(range(len(one)), 0)} for one in (rows.train, rows.held_out))
    assert train & held <= {None}
    assert held - {None}
    assert any("Few rows" in remark for remark in rows.remarks)


@given(rows=_ROWS, seed=st.integers(0, 99), count=st.integers(2, 6))
def test_folds_keep_recordings_and_voices_whole_and_none_is_empty(rows: list[Row], seed: int, count: int) -> None:
    index = index_rows(rows)
    try:
        found = deal_into_folds(index, seed, count)
    except ConfigError:
        reject()
    assert np.array_equal(found.folds, deal_into_folds(index, seed, count).folds)
    assert set(found.folds.tolist()) == set(range(count))
    folds_of = {row[0]: set() for row in rows}
    for row, fold in zip(rows, found.folds.tolist(), strict=True):
        folds_of[row[0]].add(fold)
    assert all(len(folds) == 1 for folds in folds_of.values())
    if not found.remarks:
        voices = {(row[2], row[1]): set() for row in rows if row[1]}
        for row, fold in zip(rows, found.folds.tolist(), strict=True):
            if row[1]:
                voices[row[2], row[1]].add(fold)
        assert all(len(folds) == 1 for folds in voices.values())


def test_folds_have_about_as_much_of_each_language() -> None:
    rows = make_rows(20) + make_rows(10, 12, "zh") + make_silences(10)
    folds = deal_into_folds(index_rows(rows), 3, 5).folds
    for language, each in (("en", 24), ("zh", 24), (None, 2)):
        for fold in range(5):
            assert sum(row[2] == language and one == fold for row, one in zip(rows, folds, strict=True)) == each
    with pytest.raises(ConfigError, match="3 voices or recordings that stay whole, too few for 5 folds; lower it"):
        deal_into_folds(index_rows(make_rows(3)), 0, 5)
