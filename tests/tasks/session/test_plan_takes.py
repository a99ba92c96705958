"""Takes are dealt out evenly, the same for the same seed, and say when to cut in."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.recording_session import SessionPlan, read_session_settings
from bystander.storage.filesystem import open_store
from bystander.storage.session_files import read_session
from bystander.tasks.session.make_sheet import make_sheet as make_build_sheet
from bystander.tasks.session.plan_takes import find_cue_word
from final_rows import make_bench_rows, write_build
from session_samples import make_rows, make_sheet, write_sheet


@given(
    speakers=st.integers(2, 7), rooms=st.integers(1, 4), takes=st.integers(1, 40), rows=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_takes_are_balanced_and_repeatable(speakers: int, rooms: int, takes: int, rows: int, seed: int) -> None:
    plan = {
        "speakers": tuple(f"s{at}" for at in range(speakers)),
        "rooms": tuple(f"r{at}" for at in range(rooms)),
        "takes": takes,
        "seed": seed,
    }
    made = make_sheet(make_rows(rows), **plan)
    sheet = made.takes
    assert made == make_sheet(make_rows(rows)[::-1], **plan)  # the order in which rows are read has no part in it
    assert len(sheet) == min(takes, rows)
    assert len({take.row["id"] for take in sheet}) == len(sheet)
    assert [take.number for take in sheet] == list(range(1, len(sheet) + 1))
    assert all(take.primary != take.third_party for take in sheet)
    for role in ("primary", "third_party"):
        counts = Counter(getattr(take, role) for take in sheet)
        assert max(counts.values()) - min(counts.get(name, 0) for name in plan["speakers"]) <= 1
    used = Counter(take.room for take in sheet)
    assert max(used.values()) - min(used.get(room, 0) for room in plan["rooms"]) <= 2


@given(st.lists(st.text("abcde", min_size=1, max_size=9), min_size=1, max_size=12), st.floats(0.3, 9), st.floats(0, 9))
def test_more_overlap_is_an_earlier_word(words: list[str], duration_s: float, overlap_s: float) -> None:
    place = find_cue_word(words, duration_s, overlap_s)
    assert 0 <= place < len(words)
    assert place <= find_cue_word(words, duration_s, overlap_s / 2)
    assert find_cue_word(words, duration_s, 0.0) == len(words) - 1
    assert find_cue_word(words, duration_s, duration_s) == 0


def test_words_last_as_long_as_their_letters() -> None:
    # 1 + 4 + 5 letters in 2 s: the last second is "fives".
    assert find_cue_word(["a", "four", "fives"], 2.0, 0.9) == 2
    assert find_cue_word(["a", "four", "fives"], 2.0, 1.1) == 1


def test_offsets_may_be_pauses_and_are_limited() -> None:
    rows = make_rows(4)
    for row, offset in zip(rows, (-0.4, 0.3, None, 7.0), strict=True):
        row["offset_asked_s"] = offset
    takes = {take.row["id"]: take for take in make_sheet(rows).takes}
    assert [takes[row["id"]].offset_s for row in rows] == [-0.4, 0.3, -0.5, 2.0]
    paused = takes[rows[1]["id"]]
    assert (paused.pause_s, paused.overlap_s) == (0.3, 0.0)
    assert paused.cue_word == len(paused.primary_words) - 1
    assert {take.offset_s for take in make_sheet(rows, overlap_s=0.7).takes} == {-0.7}


def test_sheets_survive_their_file_and_tables_and_pages_say_the_same(tmp_path: Path) -> None:
    rows = make_rows(4)
    rows[0] |= {"third_party_text": "=HYPERLINK(1) <script>alert(1)</script>", "timing": "within_sentence"}
    rows[0] |= {"primary_text": "Give me directions to...", "offset_asked_s": 0.5}
    sheet = make_sheet(rows, scenarios=("priority_alert", "simple_correction_with_alternative"))
    store = open_store(str(write_sheet(tmp_path, sheet)))
    assert read_session(store) == sheet
    table = list(csv.DictReader(io.StringIO((tmp_path / "sheet.csv").read_text())))
    assert [line["slate"] for line in table] == [f"Take {at}" for at in (1, 2, 3, 4)]
    assert [line["code"] for line in table] == [take.code for take in sheet.takes]
    (hostile,) = [line for line in table if line["row_id"] == rows[0]["id"]]
    assert hostile["line_b"].startswith("'=")
    assert (hostile["pause_s"], hostile["b_begins_at"]) == ("0.50", "to...")
    page = (tmp_path / "sheet.html").read_text()
    assert "<script>alert" not in page
    assert "default-src 'none'" in page
    assert not re.findall(r"(?:src|href)=.?https?:", page)
    assert page.count("<article") == 4
    assert "say “Take 3”" in page
    assert "0.5 s after “to”" in page


def test_sheets_are_made_of_builds_and_of_some_scenarios(tmp_path: Path) -> None:
    build = tmp_path / "store" / "tpi-bench" / "demo"
    write_build(build, make_bench_rows(6, 2, 1), by_split=True, kind="tpi_bench", dataset="tpi-bench", build="demo")
    plan = SessionPlan(speakers=("ann", "ben"), scenarios=("priority_alert",))
    sheet = make_build_sheet(str(build), str(tmp_path / "a"), plan)
    assert {take.row["scenario"] for take in sheet.takes} == {"priority_alert"}
    make_build_sheet(str(build), str(tmp_path / "b"), plan)
    for name in ("session.json", "sheet.csv", "sheet.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with pytest.raises(InputError, match=r"no two-speaker row of the scenario gossip; it has .*priority_alert"):
        make_build_sheet(str(build), str(tmp_path / "c"), plan.model_copy(update={"scenarios": ("gossip",)}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"speakers": ("ann",)}, "speakers"),
        ({"speakers": ("ann", "ann")}, "speakers: a name occurs twice"),
        ({"speakers": ("ann", " ")}, "speakers: a name is empty"),
        ({"speakers": ("ann", "ben"), "rooms": ("a", "a")}, "rooms: a name occurs twice"),
    ],
)
def test_wrong_plans_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_session_settings(SessionPlan, fields)


def test_other_files_are_no_session(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"session.json: is missing; name the folder"):
        read_session(open_store(str(tmp_path)))
    (tmp_path / "session.json").write_text("{}")
    with pytest.raises(InputError, match="is no session of this version"):
        read_session(open_store(str(tmp_path)))
