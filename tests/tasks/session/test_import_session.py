"""Sessions that Kokoro's voices spoke become rows by the real recogniser and aligner; what is wrong is named."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from bystander.schemas.errors import BuildError, ConfigError, InputError
from bystander.schemas.real_world import REAL_FINAL
from bystander.schemas.recording_session import ImportSettings, SessionSheet
from bystander.storage.build_manifest import read_manifest
from bystander.storage.filesystem import open_store
from bystander.tasks.engines.cached import CachedRecogniser
from bystander.tasks.session.import_session import import_session
from session_samples import LINES, RATE, Sound, add_room, make_quiet, make_sheet, say, say_take, write_sheet

OFFSETS = {0: -0.5, 1: -0.3, 2: -0.4}
PAUSE_S = 2.5


def find_line(sheet: SessionSheet, at: int) -> str:
    """Return the code of the take that reads line `at`."""
    return next(take.code for take in sheet.takes if take.row["primary_text"] == LINES[at][0])


def write_sound(path: Path, parts: list[Sound], rate: int = RATE, channels: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = add_room([make_quiet(0.6), *parts, make_quiet(0.6)])
    soundfile.write(path, whole if channels == 2 else whole.sum(axis=1), rate, subtype="PCM_16")
    return path


def run(folder: Path, audio: Path, name: str = "mine", **settings: Any) -> tuple[Any, list[dict[str, Any]]]:
    published = import_session(
        str(folder), [str(audio)], str(folder.parent / "store"), name, ImportSettings(**settings)
    )
    shards = sorted(Path(published.location).glob("data/*.parquet"))
    return published, [row for shard in shards for row in pq.read_table(shard, schema=REAL_FINAL).to_pylist()]


def read_outcomes(folder: Path, name: str = "mine") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in csv.DictReader((folder / f"import-{name}.csv").read_text().splitlines()):
        found.setdefault(line["code"], []).append(line["outcome"])
    return {code: sorted(outcomes) for code, outcomes in found.items()}


@pytest.fixture(scope="module")
def sheet() -> SessionSheet:
    return make_sheet()


@pytest.fixture
def folder(tmp_path: Path, sheet: SessionSheet) -> Path:
    return write_sheet(tmp_path / "sheet", sheet)


def test_a_long_recording_with_a_channel_a_speaker(folder: Path, sheet: SessionSheet) -> None:
    slate = np.stack([say("Take one.", "am_michael"), 0 * say("Take one.", "am_michael")], 1)
    wrong = say_take(LINES[2][0], LINES[0][1], -0.4)
    parts: list[Sound] = [slate, make_quiet(PAUSE_S)]
    for at, offset in ((0, -0.2), (1, OFFSETS[1]), (0, OFFSETS[0])):  # line 0 is read again at the end
        parts += [say_take(*LINES[at], offset)[:, :: -1 if at == 1 else 1], make_quiet(PAUSE_S)]
    published, rows = run(folder, write_sound(folder.parent / "long.flac", [*parts, wrong]))
    codes = [find_line(sheet, at) for at in range(4)]
    outcomes = read_outcomes(folder)
    assert outcomes[codes[0]] == ["misread", "repeated_take", "row"]  # the last one has the request of line 2
    assert outcomes[codes[1]] == ["row"]  # its channels are swapped
    assert outcomes[codes[3]] == ["missing_take"]
    assert "row" not in outcomes.get(codes[2], [])
    assert len(rows) == 2
    for row in rows:
        at = next(at for at, line in enumerate(LINES) if line[0] == row["primary_text"])
        assert row["overlap_s"] == pytest.approx(-OFFSETS[at], abs=0.15)  # of line 0, that of the last try
        first, second = row["segments"]
        assert (first["speaker"], second["speaker"]) == ("primary", "third_party")
        assert first["end_s"] - second["start_s"] == pytest.approx(row["overlap_s"])
        length = len(say_take(*LINES[at], OFFSETS[at])) / RATE
        assert second["end_s"] - first["start_s"] == pytest.approx(length, abs=0.15)
        take = next(take for take in sheet.takes if take.code == codes[at])
        assert (row["primary_speaker"], row["third_party_speaker"]) == (take.primary, take.third_party)
        assert row["corpus"] == "session_XD_hallway"
    words = [json.loads(line) for line in (folder / "import-mine.words.jsonl").read_text().splitlines()]
    assert {entry["code"] for entry in words} == {codes[0], codes[1]}
    for entry in words:
        said = [word["word"] for word in entry["words"]]
        take = next(take for take in sheet.takes if take.code == entry["code"])
        assert said == take.transcript.split()
        for role in ("primary", "third_party"):
            starts = [word["start_s"] for word in entry["words"] if word["speaker"] == role]
            assert starts == sorted(starts)
    assert f"2 of {len(sheet.takes)} takes became rows" in published.summary[0]
    card = (Path(published.location) / "README.md").read_text()
    assert "Lines that people read by a script sheet (session XD)" in card
    assert "A language model chose them" not in card


def test_a_file_a_take_of_any_rate_and_its_faults(folder: Path, sheet: SessionSheet) -> None:
    codes = [find_line(sheet, at) for at in range(4)]
    audio = folder.parent / "takes"
    good = say_take(*LINES[0], -0.4)
    write_sound(audio / f"{codes[0]}.wav", [good])
    flat = np.clip(say_take(*LINES[1], -0.4) * 20, -0.99, 0.99)
    write_sound(audio / f"{codes[1]}.wav", [flat])
    write_sound(audio / f"{codes[2]}.flac", [say_take(*LINES[2], 1.2)])
    write_sound(audio / f"{codes[3]}.wav", [say_take(*LINES[0], -0.4)])
    (audio / f"{codes[3]}-2.wav").write_bytes(b"RIFF, not really")
    (audio / "notes.txt").write_text("not audio")
    published, rows = run(folder, audio, licence="CC BY 4.0")
    outcomes = read_outcomes(folder)
    assert {code: outcomes[code] for code in codes[:3]} == {
        codes[0]: ["row"],
        codes[1]: ["clipped"],
        codes[2]: ["came_in_late"],
    }
    assert len(outcomes[codes[3]]) == 2
    assert "misread" in outcomes[codes[3]]
    table = (folder / "import-mine.csv").read_text()
    assert f"these are the lines of {codes[0]}: name the file so" in table
    assert "later than asked, at most 0.8 s: come in at" in table
    assert [row["licence"] for row in rows] == ["CC BY 4.0"]
    manifest = read_manifest(open_store(published.location))
    assert manifest.kind == "tpi_real"
    assert {stage.stage: stage.kept for stage in manifest.stages}["choose_takes"] == 1


def test_one_channel_is_enough_and_what_was_heard_is_remembered(
    folder: Path, sheet: SessionSheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[Sound] = []
    for at in (2, 3):
        parts += [say_take(*LINES[at], -0.2), make_quiet(PAUSE_S)]
    audio = write_sound(folder.parent / "long.wav", parts, channels=1)
    published, rows = run(folder, audio)
    assert {row["primary_text"] for row in rows} == {LINES[2][0], LINES[3][0]}
    assert all(row["overlap_s"] is None for row in rows)
    checksums = [shard.sha256 for shard in published.manifest.shards]
    opened: list[CachedRecogniser] = []
    monkeypatch.setattr(
        "bystander.tasks.session.import_session.CachedRecogniser",
        lambda *args: opened.append(CachedRecogniser(*args)) or opened[-1],
    )
    again, _ = run(folder, audio)
    assert [shard.sha256 for shard in again.manifest.shards] == checksums
    assert opened[0].misses == 0
    assert opened[0].hits > 0


def test_two_channels_that_hear_the_same_are_refused_or_mixed(folder: Path, sheet: SessionSheet) -> None:
    both = say_take(*LINES[0], -0.2)
    both = both + 0.8 * both[:, ::-1]
    audio = write_sound(folder.parent / f"{find_line(sheet, 0)}.wav", [both])
    with pytest.raises(InputError, match=r"no take became a row \(3 missing_take, 1 cross_talk\)"):
        run(folder, audio)
    _, rows = run(folder, audio, channels="mixed")
    assert [row["overlap_s"] for row in rows] == [None]


def test_wrong_files_end_with_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: there is no such file or folder"):
        run(folder, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no audio file; name files, a folder or a glob"):
        run(folder, tmp_path / "empty")
    silent = tmp_path / "silent.wav"
    soundfile.write(silent, np.zeros(2 * RATE), RATE)
    with pytest.raises(InputError, match=r"no take became a row \(4 missing_take, 1 no_speech\)"):
        run(folder, silent)
    with pytest.raises(InputError, match=r"session.json: is missing"):
        run(tmp_path / "empty", silent)


def test_names_of_builds_are_checked(folder: Path, sheet: SessionSheet) -> None:
    audio = write_sound(folder.parent / f"{find_line(sheet, 0)}.wav", [say_take(*LINES[0], -0.4)])
    with pytest.raises(ConfigError, match=r"--name '\.\./x'"):
        run(folder, audio, name="../x")
    run(folder, audio)
    takes = tuple(take.model_copy(update={"code": take.code.replace("XD", "QQ")}) for take in sheet.takes)
    other = write_sheet(folder.parent / "other", sheet.model_copy(update={"prefix": "QQ", "takes": takes}))
    with pytest.raises(BuildError, match="there is a build of other recordings"):
        run(other, write_sound(folder.parent / "q" / "long.wav", [say_take(*LINES[0], -0.4)]))
