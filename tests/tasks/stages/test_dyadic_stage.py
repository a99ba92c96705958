"""Dyadic rows: which two-speaker rows they come from, in which order, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.prompts.load import load_pack
from bystander.schemas.dyadic_config import BuildDyadic
from bystander.schemas.packs import PackClass
from bystander.schemas.tpi import VOICED
from bystander.tasks.stages.build_dyadic import STAGE
from bystander.tasks.stages.plan_dyadic import (
    Candidate,
    explain_passed_over,
    list_quiet_classes,
    plan_dyadic,
    take_wave,
)
from bystander.tasks.stages.synthesise_speech import plan_tracks
from four_class_pack import write_four_class_pack
from scripted_engines import make_context
from tpi_rows import make_rows

ROW = {
    "id": "row-1",
    "primary_complete": "Play some quiet jazz in the kitchen.",
    "primary_text": "Play some quiet...",
    "third_party_text": "No, rock!",
    "label": "ignorable",
    "reply": "Here is some jazz for the kitchen.",
    "primary_voice": "ann",
    "third_party_voice": "bob",
    "n_speakers": 2,
}


def make_class(key: str, mentions: bool, takes_up: bool | None) -> PackClass:
    return PackClass(key=key, criteria="c", policy="p", mentions_third_party=mentions, takes_up_remark=takes_up)


def make_plan_rows(*rows: tuple[str, str, int, str]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(("id", "query_id", "n_speakers", "label"), row, strict=True)) for row in rows]
    )


def test_classes_are_told_by_what_they_do_and_not_by_their_names(tmp_path: Path) -> None:
    assert list_quiet_classes(load_pack("reference").classes) == {"ignorable"}
    assert list_quiet_classes(load_pack(str(write_four_class_pack(tmp_path / "pack"))).classes) == {"ignorable"}
    classes = [
        make_class("ignorable", mentions=True, takes_up=None),
        make_class("polite", mentions=True, takes_up=False),
        make_class("deaf", mentions=False, takes_up=None),
    ]
    assert list_quiet_classes(classes) == {"polite", "deaf"}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2]), st.sampled_from(["ignorable", "actionable"]))),
    st.integers(0, 12),
    st.integers(0, 12),
    st.data(),
)
def test_each_request_is_used_or_passed_over_for_one_reason(
    drawn: list[tuple[int, int, str]], spoken: int, asked: int, data: st.DataObject
) -> None:
    classes = load_pack("reference").classes
    rows = make_plan_rows(*((f"r{at}", f"q{query}", *rest) for at, (query, *rest) in enumerate(drawn)))
    candidates = plan_dyadic(rows, classes, 1) if drawn else []
    tried = {one.row_id for one in candidates[:spoken]}
    finished = {one.query_id for one in candidates if one.row_id in tried and data.draw(st.booleans())}
    used = set(sorted(finished)[:asked])
    found = explain_passed_over(rows, classes, tried, finished, used) if drawn else {}
    assert sum(found.values()) + len(used) == len({query for query, *_ in drawn})
    by_query = {query: {(speakers, label) for q, speakers, label in drawn if q == query} for query, *_ in drawn}
    assert found.get("one_speaker_only", 0) == sum(all(one[0] == 1 for one in seen) for seen in by_query.values())
    refused = {one.query_id for one in candidates if one.row_id in tried} - finished
    assert found.get("speech_refused", 0) == len(refused)


def test_only_pairs_of_quiet_classes_are_planned() -> None:
    rows = make_plan_rows(
        ("a", "q1", 2, "ignorable"),
        ("b", "q2", 2, "actionable"),
        ("c", "q3", 1, "hard_negative"),
        ("d", "q1", 2, "ignorable"),
        ("e", "q4", 2, "ignorable"),
    )
    planned = plan_dyadic(rows, load_pack("reference").classes, seed=1)
    assert {one.row_id for one in planned} == {"a", "d", "e"}
    # Every request comes once before one comes again.
    assert [one.query_id for one in planned[2:]] == ["q1"]
    assert plan_dyadic(rows.take([4, 3, 2, 1, 0]), load_pack("reference").classes, seed=1) == planned


@given(
    queries=st.lists(st.integers(0, 5), min_size=1, max_size=20),
    count=st.integers(1, 6),
    refused=st.sets(st.integers(0, 19)),
)
def test_waves_give_each_request_one_row_whatever_is_refused(queries: list[int], count: int, refused: set[int]) -> None:
    candidates = [Candidate(f"row-{i}", f"q{query}") for i, query in enumerate(queries)]
    query_of = dict(candidates)
    tried: set[str] = set()
    finished: Counter[str] = Counter()
    while wave := take_wave(candidates, tried, finished.keys(), count):
        assert len(wave) <= count
        assert not tried & set(wave)
        assert len({query_of[row_id] for row_id in wave}) == len(wave)
        tried.update(wave)
        finished.update(query_of[row_id] for row_id in wave if int(row_id[4:]) not in refused)
    possible = {query_of[row_id] for row_id in query_of if int(row_id[4:]) not in refused}
    assert finished == dict.fromkeys(possible, 1)


@pytest.mark.parametrize(("voice", "speaks"), [("primary", "ann"), ("third_party", "bob")])
def test_the_whole_request_is_said_by_one_voice_and_the_reply_stays(voice: str, speaks: str) -> None:
    rows = make_rows(VOICED, [ROW])
    [row] = STAGE(rows, make_context(BuildDyadic(voice=voice))).kept.to_pylist()
    assert (row["label"], row["kind"], row["n_speakers"], row["twin_id"]) == ("dyadic", None, 1, "row-1")
    assert (row["primary_text"], row["third_party_text"]) == (ROW["primary_complete"], "")
    assert (row["primary_voice"], row["third_party_voice"]) == (speaks, None)
    assert row["reply"] == ROW["reply"]
    [track] = plan_tracks(0, row)
    assert (track.voice, track.text, track.spoken) == (speaks, ROW["primary_complete"], ROW["primary_complete"])


def test_voices_give_rows_of_their_own() -> None:
    rows = make_rows(VOICED, [ROW])
    ids = {
        STAGE(rows, make_context(BuildDyadic(voice=voice))).kept["id"][0].as_py()
        for voice in ("primary", "third_party")
    }
    assert len(ids) == 2
    assert "row-1" not in ids


def test_a_reply_that_speaks_of_somebody_else_is_refused() -> None:
    rows = make_rows(VOICED, [ROW, {**ROW, "id": "row-2", "reply": "Someone said rock, but here is jazz."}])
    output = STAGE(rows, make_context(BuildDyadic()))
    assert output.rejected["reject_reason"].to_pylist() == ["reply_mentions_speaker"]
    assert len(output.kept) == 1
