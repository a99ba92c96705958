"""The published JSONL, read and written: what is right comes back, what is wrong is one line that names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.schemas.sid_evaluation import SidCase
from bystander.storage.sid_jsonl import format_predictions, format_references, read_predictions, read_references

SPEECH = {
    "audio": "a.wav",
    "total_nonbreak": False,
    "duration": 5.78,
    "break_time": 0.625,
    "text_with_break": "Mm, <break> what about the trains?",
}
NOISE = {"audio": "wind.wav", "total_nonbreak": True, "duration": 152.52, "break_time": 152.52, "text_with_break": None}
PREDICTION = {"audio": "a.wav", "total_nonbreak": False, "break_time": 0.64}


def write(path: Path, *lines: Any) -> str:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return str(path)


def test_reads_the_published_lines(tmp_path: Path) -> None:
    write(tmp_path / "en_test_lines.jsonl", SPEECH)
    write(tmp_path / "silence_noise_test.jsonl", NOISE, {**NOISE, "audio": "simulate_silecnce_7.wav"})
    text = {**SPEECH, "audio": "b.wav", "text_with_break": "<break> 我们走吧"}
    write(tmp_path / "zh_test_lines.jsonl", text, {**SPEECH, "audio": "sw1.wav"})
    (tmp_path / "en").mkdir()
    write(tmp_path / "en" / "other.jsonl", "not read: it is no file of the folder itself")
    found = read_references(str(tmp_path))
    assert [(case.id, case.category, case.language, case.group) for case in found.cases] == [
        ("a.wav", "middle", "en", "en"),
        ("wind.wav", "noise", None, "noise_silence"),
        ("simulate_silecnce_7.wav", "silence", None, "noise_silence"),
        ("b.wav", "beginning", "zh", "zh"),
        ("sw1.wav", "middle", "zh", "zh"),  # the file says more than the words
    ]
    first, noise = found.cases[:2]
    assert (first.break_time_s, first.duration_s, first.source) == (0.625, 5.78, "en_test_lines.jsonl")
    assert (noise.break_time_s, noise.total_nonbreak, noise.text_with_break) == (None, True, None)


def test_tells_what_lines_do_not_state(tmp_path: Path) -> None:
    backchannel = {**SPEECH, "audio": "b.wav", "total_nonbreak": True, "break_time": 5.78, "text_with_break": "嗯嗯"}
    stated = {**NOISE, "audio": "c.wav", "category": "silence", "recording_id": "r1", "source": "street"}
    found = read_references(write(tmp_path / "lines.jsonl", SPEECH, "", backchannel, stated)).cases
    assert [(case.category, case.language) for case in found] == [
        ("middle", "en"),
        ("uninterrupted", "zh"),
        ("silence", None),
    ]
    assert (found[2].recording_id, found[2].source) == ("r1", "street")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"total_nonbreak": "no"}, "line 1: total_nonbreak is 'no'; it must be true or false"),
        ({"duration": "5"}, "line 1: duration is '5'; it must be a number of seconds"),
        ({"duration": 0, "break_time": 0}, "line 1: duration is 0; give the seconds of the clip, above 0"),
        ({"duration": float("nan")}, "line 1: duration is nan; it must be a finite number"),
        ({"break_time": 10**400}, "line 1: break_time is .*; it must be a finite number"),
        ({"break_time": True}, "line 1: break_time is True; it must be a number of seconds"),
        ({"break_time": -0.1}, "line 1: break_time is -0.1; it must be from 0 to the duration 5.78"),
        ({"break_time": 6.5}, "line 1: break_time is 6.5; it must be from 0 to the duration 5.78"),
        ({"total_nonbreak": True}, "total_nonbreak is true, but break_time 0.625 is not the duration 5.78"),
        ({"text_with_break": 7}, "text_with_break is 7; it must be text, or null"),
        ({"text_with_break": None}, "which no clip of category noise has; without a text_with_break"),
        ({"category": "uninterrupted"}, "total_nonbreak is false, which no clip of category uninterrupted has"),
        ({"category": "music"}, "category is 'music'; there are beginning, middle"),
        ({"language": 3}, "language is 3; it must be text, or null"),
        ({"audio": ""}, "audio is ''; it must be the name"),
    ],
)
def test_wrong_references_are_named(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError, match=fault) as error:
        read_references(write(tmp_path / "lines.jsonl", {**SPEECH, **change}))
    assert str(error.value).startswith(f"references {tmp_path}/lines.jsonl, line 1: ")


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["{"], "line 1: is not JSON"),
        (["[1]"], "line 1: is no JSON object"),
        ([{"audio": "a"}], "line 1: has no field total_nonbreak and no field duration and no field break_time"),
        ([SPEECH, {**SPEECH, "duration": 6}], "line 2: a.wav is there already, otherwise, at .*line 1"),
        ([], "there is none in it; write one line a clip"),
    ],
)
def test_wrong_files_of_references_are_named(tmp_path: Path, lines: list[Any], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        read_references(write(tmp_path / "lines.jsonl", *lines))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"references .*lines.jsonl: is missing"):
        read_references(str(tmp_path / "lines.jsonl"))
    with pytest.raises(InputError, match=r"holds no file that ends in .jsonl"):
        read_predictions(str(tmp_path))


def test_equal_lines_count_once_and_are_counted(tmp_path: Path) -> None:
    assert read_references(write(tmp_path / "a.jsonl", SPEECH, NOISE, SPEECH)).doubled == 1
    predictions = read_predictions(write(tmp_path / "b.jsonl", PREDICTION, PREDICTION, PREDICTION))
    assert (dict(predictions.stops), predictions.doubled) == ({"a.wav": 0.64}, 2)


def test_reads_predictions(tmp_path: Path) -> None:
    never = {"audio": "b.wav", "total_nonbreak": True, "break_time": -1}
    null = {"audio": "c.wav", "total_nonbreak": True, "break_time": None}
    late = {"audio": "d.wav", "total_nonbreak": False, "break_time": 99}
    found = read_predictions(write(tmp_path / "mine.jsonl", PREDICTION, never, null, late))
    assert found.stops == {"a.wav": 0.64, "b.wav": None, "c.wav": None, "d.wav": 99.0}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"total_nonbreak": True}, "total_nonbreak is true, but break_time is 0.64; write -1 where the system never"),
        ({"break_time": -1}, "break_time is -1, though total_nonbreak is false; give the seconds"),
        ({"break_time": None}, "break_time is None; it must be a number of seconds"),
        ({"break_time": float("nan")}, "break_time is nan; it must be a finite number"),
        ({"break_time": float("inf")}, "break_time is inf; it must be a finite number"),
        ({"break_time": "0.5"}, "break_time is '0.5'; it must be a number of seconds"),
        ({"total_nonbreak": 0}, "total_nonbreak is 0; it must be true or false"),
        ({"audio": 7}, "audio is 7; it must be the name"),
    ],
)
def test_wrong_predictions_are_named(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError, match=fault) as error:
        read_predictions(write(tmp_path / "mine.jsonl", {**PREDICTION, **change}))
    assert str(error.value).startswith(f"predictions {tmp_path}/mine.jsonl, line 1: ")


def test_two_different_predictions_for_a_clip_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", PREDICTION, {**PREDICTION, "break_time": 0.9})
    with pytest.raises(InputError, match=r"line 2: a.wav is there already, otherwise, at .*line 1; keep one"):
        read_predictions(path)


TIMES = st.floats(0.1, 100)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def cases(draw: st.DrawFn) -> list[SidCase]:
    found = []
    for name in draw(st.lists(NAMES, unique=True, min_size=1, max_size=6)):
        duration = draw(TIMES)
        category = draw(st.sampled_from(["beginning", "middle", "uninterrupted", "silence", "noise"]))
        spoken, breaks = category not in ("silence", "noise"), category in ("beginning", "middle")
        time = draw(st.floats(0, duration)) if breaks else None
        text = draw(st.text(st.characters(exclude_categories=["Cs"]))) if spoken else None
        recording = draw(st.one_of(st.none(), NAMES))
        language = draw(st.sampled_from(["en", "zh"])) if spoken else None
        found.append(SidCase(name, name, duration, time, category, language, "x.jsonl", recording, text))
    return found


@settings(max_examples=30)
@given(found=cases())
def test_what_is_written_is_read_again(found: list[SidCase], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    path.write_text(format_references(found, details=True), "utf-8")
    assert list(read_references(str(path)).cases) == found
    stops = {case.audio: case.break_time_s for case in found}
    path.write_text(format_predictions(stops), "utf-8")
    assert read_predictions(str(path)).stops == stops


def test_the_published_fields_are_all_that_is_written_unless_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "en_test.jsonl", SPEECH, NOISE)
    assert [json.loads(line) for line in format_references(read_references(path).cases).splitlines()] == [SPEECH, NOISE]
