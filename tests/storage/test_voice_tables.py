"""Speakers of Parquet files in the layout of Hugging Face."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import InputError
from bystander.schemas.voice_bank_config import VoiceSourceConfig
from bystander.storage.voice_tables import VoiceTables
from voice_corpora import write_table


def make_rows(*speakers, **more):
    return [
        {"audio": {"bytes": f"{speaker}-{i}".encode(), "path": f"{i}.flac"}, "speaker_id": speaker, **more}
        for i, speaker in enumerate(speakers)
    ]


def open_tables(path, **fields):
    return VoiceTables(VoiceSourceConfig(path=str(path), **fields))


def copy(tables, tmp_path, most=10):
    folder = tmp_path / "copied"
    folder.mkdir(exist_ok=True)
    wanted = {speaker.voice: tables.choose_rows(speaker, most) for speaker in tables.listing.speakers}
    return {
        voice: {
            clip.name: Path(clip.path).read_bytes() if clip.path.startswith(str(folder)) else clip.path
            for clip in clips
        }
        for voice, clips in tables.copy_clips(wanted, folder).items()
    }


def test_rows_of_a_speaker_may_lie_anywhere(tmp_path):
    write_table(tmp_path / "a.parquet", make_rows(7, 8, 7, 8, 9, 7))
    write_table(tmp_path / "data/b.parquet", make_rows(9, 7))
    tables = open_tables(tmp_path, id_prefix="x-")
    assert [speaker.voice for speaker in tables.listing.speakers] == ["x-7", "x-8", "x-9"]
    assert [tables.count_clips(speaker) for speaker in tables.listing.speakers] == [4, 2, 2]
    found = copy(tables, tmp_path)
    assert found["x-7"] == {
        "a.parquet#0": b"7-0",
        "a.parquet#2": b"7-2",
        "a.parquet#5": b"7-5",
        "data/b.parquet#1": b"7-1",
    }
    assert found["x-9"] == {"a.parquet#4": b"9-4", "data/b.parquet#0": b"9-0"}


def test_equal_file_names_in_rows_are_different_clips(tmp_path):
    rows = make_rows("a", "a")
    rows[1]["audio"]["path"] = rows[0]["audio"]["path"]
    write_table(tmp_path / "a.parquet", rows)
    assert copy(open_tables(tmp_path / "a.parquet"), tmp_path)["a"] == {"a.parquet#0": b"a-0", "a.parquet#1": b"a-1"}


def test_few_row_groups_are_read_for_a_speaker(tmp_path):
    write_table(tmp_path / "a.parquet", make_rows(*["a"] * 100), group_rows=10)
    tables = open_tables(tmp_path / "a.parquet")
    rows = tables.choose_rows(tables.listing.speakers[0], 8)
    assert len(set(rows)) == 8
    assert len({row // 10 for row in rows}) == 2
    assert len(set(tables.choose_rows(tables.listing.speakers[0], 90))) == 90


def test_the_choice_does_not_depend_on_the_other_rows(tmp_path):
    write_table(tmp_path / "a.parquet", make_rows(*["a"] * 12))
    write_table(tmp_path / "b.parquet", make_rows(*["a"] * 12) + make_rows("b", "b"))
    chosen = [open_tables(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    assert chosen[0].choose_rows(chosen[0].listing.speakers[0], 5) == chosen[1].choose_rows(
        chosen[1].listing.speakers[0], 5
    )


def test_a_glob_takes_the_files_that_it_names(tmp_path):
    for name in ("train-0", "train-1", "test-0"):
        write_table(tmp_path / f"{name}.parquet", make_rows(name))
    tables = open_tables(tmp_path / "train-*.parquet")
    assert [speaker.voice for speaker in tables.listing.speakers] == ["train-0", "train-1"]


def test_what_a_row_lacks_is_known(tmp_path):
    rows = [*make_rows("a", None, "a", "a"), {"audio": None, "speaker_id": "a"}]
    rows[2]["audio"] = {"bytes": None, "path": "clips/2.wav"}
    rows[3]["audio"] = {"bytes": b"", "path": None}
    tables = open_tables(write_table(tmp_path / "a.parquet", rows))
    (reject,) = tables.listing.rejects
    assert (reject["clip"], reject["reject_reason"]) == ("a.parquet#1", "no_speaker")
    found = copy(tables, tmp_path)["a"]
    assert found == {
        "a.parquet#0": b"a-0",
        "a.parquet#2": f"{tmp_path}/clips/2.wav",
        "a.parquet#3": "",
        "a.parquet#4": "",
    }


def test_genders_and_languages_are_taken_from_their_columns(tmp_path):
    rows = make_rows("a", "b", "c", "c", "d")
    for row, gender, locale in zip(
        rows, ("F", "male_masculine", "m", "f", ""), ("en-GB", "zh_CN", None, "de", ""), strict=True
    ):
        row |= {"gender": gender, "locale": locale}
    tables = open_tables(write_table(tmp_path / "a.parquet", rows), language=None)
    found = [(speaker.voice, speaker.gender, speaker.language) for speaker in tables.listing.speakers]
    assert found == [("a", "female", "en"), ("b", "male", "zh"), ("c", None, "de"), ("d", None, None)]


def test_columns_of_other_names_are_named(tmp_path):
    table = pa.table({"who": ["a"], "sound": pa.array([b"123"], pa.large_binary())})
    pq.write_table(table, tmp_path / "a.parquet")
    tables = open_tables(tmp_path / "a.parquet", speaker_column="who")
    assert copy(tables, tmp_path)["a"] == {"a.parquet#0": b"123"}
    with pytest.raises(
        InputError, match=r"none of its columns is a usual one for the speaker .* it has who, sound; name"
    ):
        open_tables(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="has no such column 'whom'; it has who, sound"):
        open_tables(tmp_path / "a.parquet", speaker_column="whom")
    with pytest.raises(InputError, match="has no such column 'who' of audio; it has sound"):
        open_tables(tmp_path / "a.parquet", speaker_column="who", audio_column="who")


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match=r"voices a\.parquet: cannot be read as Parquet"):
        open_tables(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="no such file or folder"):
        open_tables(tmp_path / "b.parquet")
