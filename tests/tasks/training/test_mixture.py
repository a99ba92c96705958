"""Mixtures: which rows, how often, what is held out, and what the record says of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import ConfigError
from bystander.schemas.train_tpi_config import DyadicSource, TrainTpiConfig
from bystander.schemas.training_config import HeldOutSlice
from bystander.schemas.training_data import PartRecord
from bystander.storage.filesystem import open_store
from bystander.storage.pinned_builds import pin_training
from bystander.storage.releases import move_latest
from bystander.tasks.training.mixture import split_held_out, tell_data
from bystander.tasks.training.open_rows import TrainingRows, open_sid_rows, open_tpi_rows
from bystander.tasks.training.row_draws import draw_rows
from sid_rows import make_sid_rows, write_sid_train
from training_rows import make_va_row, write_tpi, write_va


def name_row(row: dict[str, Any], rng: np.random.Generator) -> tuple[str, str, str]:
    del rng
    return row["id"], row["query_id"], row["part"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixtures")
    write_tpi(folder / "tpi", 24, 12)
    shared = [make_va_row(index, question=f"Book a table  for {index} at 7 tonight") for index in range(4)]
    write_va(folder / "va" / "one.parquet", [*shared, *(make_va_row(index) for index in range(4, 20))])
    return folder


def open_mixture(folder: Path, share: float = 0.25, **changes: Any) -> TrainingRows:
    values: dict[str, Any] = {
        "data": (str(folder / "tpi"),),
        "dyadic": (DyadicSource(path=str(folder / "va" / "*.parquet")),),
        "held_out": HeldOutSlice(share=share),
        "seed": 3,
        **changes,
    }
    return open_tpi_rows(TrainTpiConfig(**values), name_row, ["reply"], rate=None)


def list_rows(rows: TrainingRows) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    held = rows.held_out.read(range(len(rows.held_out)), 0) if rows.held_out is not None else []
    return rows.train.read(range(len(rows.train)), 0), held


@pytest.mark.parametrize(
    ("mixture", "parts"),
    [
        ("base", {"two_speaker": 24}),
        ("va", {"two_speaker": 24, "dyadic": 20}),
        ("full", {"two_speaker": 24, "dyadic": 20, "hard_negative": 12}),
    ],
)
def test_a_mixture_has_its_parts_and_says_so(folder: Path, mixture: str, parts: dict[str, int]) -> None:
    rows = open_mixture(folder, mixture=mixture)
    train, held = list_rows(rows)
    assert Counter(part for _, _, part in [*train, *held]) == parts
    for part, record in rows.record.parts.items():
        assert record.rows == record.an_epoch == sum(row[2] == part for row in train)
        assert record.held_out == sum(row[2] == part for row in held)
    assert list(rows.record.parts) == list(parts)
    assert (rows.record.sources[0].kind, rows.record.sources[0].rows) == ("tpi", 36)
    assert rows.record.mixture == mixture
    assert rows.record.seed == 3


def test_no_query_is_on_both_sides(folder: Path) -> None:
    train, held = list_rows(open_mixture(folder))
    trained, kept = {query for _, query, _ in train}, {query for _, query, _ in held}
    assert trained
    assert kept
    assert not trained & kept
    twins = {name.replace("hn-", "row-") for name, _, part in held if part == "hard_negative"}
    assert twins <= {name for name, _, _ in held}
    shared = {query for _, query, part in [*train, *held] if part == "dyadic" and query.startswith("query-")}
    assert {
        "query-0",
        "query-1",
        "query-2",
        "query-3",
    } <= shared  # the same request as the TPI rows', so the same query


def test_the_slice_hangs_on_the_seed_and_not_on_the_mixture(folder: Path) -> None:
    base = {name for name, _, _ in list_rows(open_mixture(folder, mixture="base"))[1]}
    full = {name for name, _, part in list_rows(open_mixture(folder))[1] if part == "two_speaker"}
    assert base == full != {name for name, _, _ in list_rows(open_mixture(folder, mixture="base", seed=4))[1]}
    assert open_mixture(folder, share=0.0).held_out is None
    one, two = open_mixture(folder).record, open_mixture(folder).record
    assert one == two
    assert one.train_digest != open_mixture(folder, seed=4).record.train_digest


@given(share=st.floats(0, 0.9), seed=st.integers(0, 99))
def test_about_the_share_of_queries_is_held_out(share: float, seed: int) -> None:
    held = split_held_out(pa.chunked_array([[f"query-{index // 2}" for index in range(2000)]]), seed, share)
    assert abs(held.mean() - share) < 0.07
    assert (held[::2] == held[1::2]).all()


def test_proportions_say_how_often_rows_come(folder: Path) -> None:
    rows = open_mixture(folder, proportions={"two_speaker": 2.0, "hard_negative": 0.5}, share=0.0)
    counts = Counter(rows.train.list_ids(0))
    assert {counts[f"row-{index:04d}"] for index in range(24)} == {2}
    halves = [{name for name in rows.train.list_ids(epoch) if name.startswith("hn")} for epoch in (0, 1, 2)]
    assert len(halves[0]) == len(halves[1]) == 6
    assert not halves[0] & halves[1]
    assert halves[0] == halves[2]
    assert rows.record.parts["two_speaker"].an_epoch == 48
    assert rows.record.parts["hard_negative"].an_epoch == 6
    other = open_mixture(folder, proportions={"two_speaker": 2.0, "hard_negative": 0.5}, share=0.0, seed=8)
    assert {name for name in other.train.list_ids(0) if name.startswith("hn")} != halves[0]
    assert not [part for *_, part in list_rows(open_mixture(folder, proportions={"dyadic": 0}))[0] if part == "dyadic"]


def test_a_part_that_is_not_trained_on_is_not_held_out_and_small_slices_are_told(folder: Path) -> None:
    rows = open_mixture(folder, proportions={"dyadic": 0})
    held = list_rows(rows)[1]
    assert {part for *_, part in held} == {"two_speaker", "hard_negative"}
    parts = rows.record.parts
    assert (parts["dyadic"].held_out, parts["dyadic"].an_epoch) == (0, 0)
    assert parts["two_speaker"].held_out == sum(part == "two_speaker" for *_, part in held)
    told = tell_data(rows.record)
    assert [line for line in told if "dyadic" in line] == []
    few = parts["hard_negative"].held_out
    assert 0 < few < 8
    assert f"Held out are {few} of 12 hard-negative rows: the held-out loss says little of them" in " ".join(told)
    assert tell_data(open_mixture(folder, share=0.0).record) == ()
    empty = rows.record.model_copy(
        update={
            "parts": {
                "two_speaker": PartRecord(rows=80, held_out=8, an_epoch=80),
                "dyadic": PartRecord(rows=9, held_out=0, an_epoch=9),
            },
            "left_out": {"duplicate": 3},
        }
    )
    assert tell_data(empty) == (
        "Held out are 0 of 9 dyadic rows: the held-out loss says nothing of them; raise held_out.share or build more.",
        "3 rows were there twice, and taken once.",
    )


@given(
    rows=st.integers(0, 200),
    proportion=st.one_of(st.floats(0, 4), st.sampled_from([0.5, 1.0, 0.25, 1 / 3])),
    seed=st.integers(0, 9),
)
def test_draws_see_all_rows_about_as_often(rows: int, proportion: float, seed: int) -> None:
    draws = draw_rows(np.arange(rows), proportion, seed, "part")
    assert abs(len(draws) - rows * proportion) <= 0.5 + 1e-9
    numbers = np.arange(len(draws))
    epochs = 60
    seen = np.bincount(np.concatenate([draws.pick(numbers, epoch) for epoch in range(epochs)]), minlength=rows)
    if len(draws) and proportion * rows >= 1:
        assert seen.min() >= 1 or proportion * epochs < 2
    for epoch in (0, 5):
        most = np.bincount(draws.pick(numbers, epoch), minlength=rows)
        assert not rows or most.max() <= int(np.ceil(proportion))
    assert np.allclose(draws.average(np.ones(rows)), 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": ()}, "no two-speaker row; name a finished TPI-Train build in `data`"),
        ({"dyadic": ()}, "mixture full: there is no dyadic row; name requests of one speaker .* in `dyadic`"),
        ({"mixture": "base", "proportions": {"dyadic": 1.0}}, "proportions.dyadic: the mixture base has no such part"),
        ({"proportions": {"dyadic": -1.0}}, "proportions.dyadic: is -1.0"),
        ({"proportions": {"dyadic": 0, "two_speaker": 0, "hard_negative": 0}}, "no row to train on"),
    ],
)
def test_what_cannot_be_mixed_is_said(folder: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_mixture(folder, **changes)


def test_a_mixture_without_hard_negatives_names_what_lacks(folder: Path, tmp_path: Path) -> None:
    write_tpi(tmp_path / "pairs", 4, 0)
    with pytest.raises(ConfigError, match="no hard-negative row; name a TPI-Train build in `data` that has hard neg"):
        open_mixture(folder, data=(str(tmp_path / "pairs"),))


def test_sid_rows_are_held_out_by_recording(tmp_path: Path) -> None:
    write_sid_train(tmp_path / "sid", make_sid_rows(8))
    rows = open_sid_rows([str(tmp_path / "sid")], name_row, ["words"], rate=None, seed=1, held_out=0.3)
    train, held = list_rows(rows)
    assert len(train) + len(held) == 64
    assert held
    assert not {query for _, query, _ in train} & {query for _, query, _ in held}
    assert set(rows.record.parts) == {"beginning", "middle", "uninterrupted", "silence", "noise"}
    with pytest.raises(ConfigError, match="name the folder of a finished build of SID rows"):
        open_sid_rows([], name_row, [], rate=None, seed=1, held_out=0.3)


def test_a_release_is_named_in_place_of_latest(tmp_path: Path) -> None:
    write_tpi(tmp_path / "tpi-train" / "one", 4, 0)
    config = TrainTpiConfig(
        data=(f"{tmp_path}/tpi-train/latest",), dyadic=(DyadicSource(path=f"{tmp_path}/va/latest", text_column="said"),)
    )
    with pytest.raises(ConfigError, match=r"data .*latest: nothing was released there yet"):
        pin_training(config)
    move_latest(open_store(tmp_path), "tpi-train", "one", "d" * 64)
    move_latest(open_store(tmp_path), "va", "two", "d" * 64)
    pinned = pin_training(config)
    assert pinned.data == (f"{tmp_path}/tpi-train/one",)
    assert pinned.dyadic == (DyadicSource(path=f"{tmp_path}/va/two", text_column="said"),)
    rows = open_tpi_rows(config.model_copy(update={"mixture": "base"}), name_row, [], rate=None)
    assert rows.record.sources[0].address == pinned.data[0]
