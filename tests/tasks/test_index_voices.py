"""Banks made of whole sources: nothing is lost, nothing is done twice, and workers change nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.voice_bank import BANK_REJECT, VoiceBank
from bystander.storage.filesystem import open_store
from bystander.storage.voice_bank import open_voice_bank, verify_voice_bank
from bystander.tasks import voice_workers
from bystander.tasks.describe_voices import describe_voices
from bystander.tasks.index_voices import index_voices
from shared_data import find_shared
from voice_corpora import make_clip, make_config, write_clip, write_folders, write_mls, write_table


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Four good speakers, one of two people, one without speech, one empty, and files that are none's."""
    root = write_folders(tmp_path_factory.mktemp("corpus"), {"ann": 1, "bob": 5, "cat": 9, "dan": 13})
    write_clip(root / "two/1.flac", make_clip(1, 901))
    write_clip(root / "two/2.flac", make_clip(17, 902))
    (root / "bad").mkdir()
    (root / "bad/1.wav").write_bytes(b"nothing")
    (root / "bad/notes.txt").write_bytes(b"nothing")
    (root / "none").mkdir()
    write_clip(root / "stray.flac", make_clip(3, 903))
    return root


def read_rejects(bank):
    return pq.read_table(bank / "rejects/voices.parquet").to_pylist()


def test_a_bank_accounts_for_every_speaker_and_clip(corpus, tmp_path):
    bank = tmp_path / "bank"
    told = []
    outcome = index_voices(make_config(corpus, source__licence="CC0"), str(bank), lambda *args: told.append(args))
    counts = outcome.manifest.counts
    assert (counts.speakers, counts.voices) == (7, 4)
    assert counts.speaker_reasons == {"inconsistent_speaker": 1, "no_clip": 1, "no_usable_clip": 1}
    assert counts.clip_reasons == {"not_audio": 1, "outside_speaker_folder": 1}
    assert (counts.clips, counts.clips_read, counts.clips_usable) == (16, 15, 14)
    assert outcome.manifest.source.ignored == {".txt": 1}
    assert told[-1] == (7, 7, 4, False)
    assert {(reject["speaker"], reject["reject_reason"]) for reject in read_rejects(bank)} == {
        ("two", "inconsistent_speaker"),
        ("none", "no_clip"),
        ("bad", "no_usable_clip"),
        ("bad", "not_audio"),
        (None, "outside_speaker_folder"),
    }
    assert pq.read_schema(bank / "rejects/voices.parquet").names == BANK_REJECT.names
    assert verify_voice_bank(str(bank)) == []
    assert not (bank / "work").exists()
    assert "4 voices of 7 speakers (folders)" in outcome.summary[0]
    opened = open_voice_bank(str(bank))
    assert isinstance(opened, VoiceBank)
    assert [voice.id for voice in opened.voices] == ["ann", "bob", "cat", "dan"]
    assert {(voice.language, voice.licence, voice.source) for voice in opened.voices} == {("en", "CC0", corpus.name)}
    samples, rate = opened.read_reference("cat")
    assert (samples.dtype, rate) == (np.float32, 24000)
    assert 6 <= len(samples) / rate <= 12


def test_an_unchanged_source_is_not_indexed_again(corpus, tmp_path, monkeypatch):
    bank = str(tmp_path / "bank")
    first = index_voices(make_config(corpus), bank)
    monkeypatch.setattr(voice_workers, "index_speaker", forbid)
    again = index_voices(make_config(corpus, workers=2), bank)
    assert (again.unchanged, again.manifest) == (True, first.manifest)


def test_other_settings_make_another_bank(corpus, tmp_path):
    bank = str(tmp_path / "bank")
    first = index_voices(make_config(corpus), bank).manifest
    other = make_config(corpus, index__max_duration_s=7.0)
    with pytest.raises(InputError, match=r"is finished, and was made of another source.*or replace it with --replace"):
        index_voices(other, bank)
    assert verify_voice_bank(bank) == []
    second = index_voices(other, bank, replace_bank=True)
    assert not second.unchanged
    assert second.manifest.digest != first.digest
    assert verify_voice_bank(bank) == []


def test_speakers_that_are_done_stay_done(corpus, tmp_path, monkeypatch):
    bank = tmp_path / "bank"
    whole = index_voices(make_config(corpus), str(tmp_path / "other"))
    index, seen = voice_workers.index_speaker, []

    def break_off(speaker, *args):
        seen.append(speaker.voice)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return index(speaker, *args)

    monkeypatch.setattr(voice_workers, "index_speaker", break_off)
    with pytest.raises(KeyboardInterrupt):
        index_voices(make_config(corpus), str(bank))
    assert not (bank / "manifest.json").exists()
    damaged = sorted(bank.rglob("work/speakers/*/*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    seen.append("broke off")
    outcome = index_voices(make_config(corpus), str(bank))
    after = seen[seen.index("broke off") + 1 :]
    assert len(after) == 5  # four that were not done, and the damaged one
    assert outcome.manifest.digest == whole.manifest.digest
    assert outcome.manifest.shards == whole.manifest.shards


def test_a_changed_file_is_read_again(tmp_path):
    root = write_folders(tmp_path / "corpus", {"ann": 1, "bob": 5}, clips=1)
    bank = str(tmp_path / "bank")
    first = index_voices(make_config(root), bank).manifest
    write_clip(root / "ann/0.flac", make_clip(1, 77, 9.0))
    second = index_voices(make_config(root), bank)
    assert not second.unchanged
    assert second.manifest.digest != first.digest


def test_workers_change_nothing(corpus, tmp_path):
    one = index_voices(make_config(corpus), str(tmp_path / "one")).manifest
    two = index_voices(make_config(corpus, workers=2), str(tmp_path / "two")).manifest
    assert one.shards == two.shards
    assert one.rejects == two.rejects


def test_a_killed_run_goes_on_and_leaves_no_worker(corpus, tmp_path):
    bank = tmp_path / "bank"
    command = [sys.executable, "-m", "bystander.cli.main", "voices", "index", str(corpus), "--to", str(bank)]
    command += ["--workers", "2", "--set", "verifier.engine=fake_verifier"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    while not list(bank.rglob("work/speakers/*/*.parquet")):
        assert run.poll() is None
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert run.stderr is not None
    run.stderr.read()  # until the last process that holds it has ended: the workers follow
    run.stderr.close()
    before = {path.name for path in bank.rglob("work/speakers/*/*.parquet")}
    assert before
    outcome = index_voices(make_config(corpus, workers=2), str(bank))
    assert outcome.manifest.counts.voices == 4
    assert verify_voice_bank(str(bank)) == []


def test_mls_gives_genders_and_merges_its_subsets(tmp_path):
    speakers = {"101": ("train", 1), "102": ("train", 4), "103": ("dev", 9)}
    root = write_mls(tmp_path / "mls_english", speakers)
    write_clip(root / "test/audio/101/1003/101_1003_000001.flac", make_clip(1, 55, 14.0))
    outcome = index_voices(make_config(root, index__candidates=3), str(tmp_path / "bank"))
    rows = {row["voice"]: row for row in open_voice_bank(str(tmp_path / "bank")).list_rows()}
    assert {voice: (row["gender"], row["subset"]) for voice, row in rows.items()} == {
        "101": ("female", "test,train"),
        "102": ("male", "train"),
        "103": ("female", "dev"),
    }
    assert (outcome.manifest.source.layout, outcome.manifest.source.licence) == ("mls", "CC BY 4.0")
    assert outcome.manifest.source.ignored == {".txt": 5}


def test_one_id_for_two_people_of_two_subsets_is_found(tmp_path):
    root = write_mls(tmp_path / "mls_english", {"101": ("train", 1), "102": ("train", 4)})
    for book in ("1001", "1002"):
        write_clip(root / f"dev/audio/101/{book}/101_{book}_9.flac", make_clip(21, int(book), 14.0))
    index_voices(make_config(root), str(tmp_path / "bank"))
    (reject,) = read_rejects(tmp_path / "bank")
    assert (reject["speaker"], reject["reject_reason"]) == ("101", "inconsistent_speaker")
    assert "of the sub-sets dev, train" in reject["reject_detail"]


def test_tables_give_the_bank_that_folders_give(corpus, tmp_path):
    rows = [
        {
            "audio": {"bytes": path.read_bytes(), "path": path.name},
            "speaker_id": path.parent.name,
            "gender": "F" if path.parent.name == "ann" else None,
        }
        for path in sorted(corpus.glob("*/*.flac"))
    ]
    rows.append({"audio": None, "speaker_id": "ann", "gender": None})
    write_table(tmp_path / "hub/data/train-00000-of-00002.parquet", rows[::2])
    write_table(tmp_path / "hub/data/train-00001-of-00002.parquet", rows[1::2])
    outcome = index_voices(make_config(tmp_path / "hub"), str(tmp_path / "bank"))
    counts = outcome.manifest.counts
    assert outcome.manifest.source.layout == "parquet"
    assert (counts.speakers, counts.voices, counts.clips) == (5, 4, len(rows))
    assert counts.speaker_reasons == {"inconsistent_speaker": 1}
    assert counts.clip_reasons == {"no_audio": 1}
    opened = open_voice_bank(str(tmp_path / "bank"))
    assert [(voice.id, voice.gender) for voice in opened.voices][:2] == [("ann", "female"), ("bob", None)]
    assert index_voices(make_config(tmp_path / "hub", workers=2), str(tmp_path / "bank")).unchanged


def test_tables_are_gone_on_with_too(corpus, tmp_path, monkeypatch):
    rows = [
        {"audio": {"bytes": path.read_bytes(), "path": None}, "speaker": path.parent.name}
        for path in sorted(corpus.glob("*/*.flac"))
    ]
    table = write_table(tmp_path / "a.parquet", rows)
    index, seen = voice_workers.index_speaker, []

    def break_off(speaker, *args):
        seen.append(speaker.voice)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return index(speaker, *args)

    monkeypatch.setattr(voice_workers, "index_speaker", break_off)
    with pytest.raises(KeyboardInterrupt):
        index_voices(make_config(table), str(tmp_path / "bank"))
    index_voices(make_config(table), str(tmp_path / "bank"))
    assert len(seen) == 3 + 3


def test_the_same_recording_under_two_ids_is_one_voice(tmp_path):
    root = write_folders(tmp_path / "corpus", {"ann": 1, "bob": 5}, clips=1)
    (root / "zoe").mkdir()
    (root / "zoe/copy.flac").write_bytes((root / "ann/0.flac").read_bytes())
    index_voices(make_config(root), str(tmp_path / "bank"))
    (reject,) = read_rejects(tmp_path / "bank")
    assert (reject["speaker"], reject["reject_reason"]) == ("zoe", "same_audio_as_other")
    assert verify_voice_bank(str(tmp_path / "bank")) == []


def test_voices_that_differ_only_in_their_slash_keep_apart(tmp_path):
    voices = {"train/spk1": 1, "spk1": 5, "train__spk1/": 9}
    index_voices(make_config(write_folders(tmp_path / "corpus", voices, clips=1)), str(tmp_path / "bank"))
    (shard,) = (tmp_path / "bank/data").glob("*.parquet")
    rows = pq.read_table(shard, columns=["voice", "audio"]).to_pylist()
    assert [row["voice"] for row in rows] == ["spk1", "train/spk1", "train__spk1"]
    assert [row["audio"]["path"] for row in rows] == ["spk1.flac", "train%2Fspk1.flac", "train__spk1.flac"]


def test_a_source_without_a_voice_is_said_and_its_rejects_are_there(tmp_path):
    (tmp_path / "corpus/ann").mkdir(parents=True)
    (tmp_path / "corpus/ann/1.wav").write_bytes(b"nothing")
    with pytest.raises(
        InputError, match=r"of 1 speakers, none has speech that can be used \(no_usable_clip, not_audio\)"
    ):
        index_voices(make_config(tmp_path / "corpus"), str(tmp_path / "bank"))
    assert len(read_rejects(tmp_path / "bank")) == 2
    write_clip(tmp_path / "corpus/ann/1.wav", make_clip(1))
    assert index_voices(make_config(tmp_path / "corpus"), str(tmp_path / "bank")).manifest.counts.voices == 1


def test_a_finished_bank_stays_until_there_is_a_voice_to_replace_it_with(corpus, tmp_path):
    bank = tmp_path / "bank"
    first = index_voices(make_config(corpus), str(bank)).manifest
    rejects = (bank / "rejects/voices.parquet").read_bytes()
    (tmp_path / "empty/ann").mkdir(parents=True)
    (tmp_path / "empty/ann/1.wav").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"none has speech that can be used.*work/rejects/voices\.parquet says why"):
        index_voices(make_config(tmp_path / "empty"), str(bank), replace_bank=True)
    assert verify_voice_bank(str(bank)) == []
    assert (bank / "rejects/voices.parquet").read_bytes() == rejects
    assert open_voice_bank(str(bank)).digest == first.digest
    assert len(pq.read_table(bank / "work/rejects/voices.parquet")) == 2


def test_a_folder_of_something_else_is_left_alone(corpus, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mine.parquet").write_bytes(b"mine")
    with pytest.raises(InputError, match="holds other files; name a new one with --to"):
        index_voices(make_config(corpus), str(tmp_path))
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "bystander-build"}))
    with pytest.raises(BuildError, match="is not the manifest of a voice bank"):
        index_voices(make_config(corpus), str(tmp_path))
    assert (tmp_path / "data/mine.parquet").read_bytes() == b"mine"


def test_a_bank_lies_on_any_filesystem(corpus):
    uri = "memory://voice-bank-test"
    index_voices(make_config(corpus), uri)
    assert verify_voice_bank(uri) == []
    assert len(open_voice_bank(uri).voices) == 4
    open_store(uri).remove("", recursive=True)


def test_a_bank_in_words(corpus, tmp_path):
    root = write_folders(tmp_path / "corpus", {"ann": 1, "bob": 1, "cat": 9}, clips=2)
    index_voices(make_config(root), str(tmp_path / "bank"))
    lines = list(describe_voices(open_voice_bank(str(tmp_path / "bank")), 0.95, 0.25, 5))
    assert "gender: unknown 3" in lines
    assert any(line.startswith("1 of 3 pairs have a cosine of 0.95 or more") for line in lines)
    (pair,) = [line for line in lines if line.startswith("  - [ann, bob]")]
    assert "# 0.9" in pair or "# 1.0" in pair
    assert any(line.startswith("snr_db") for line in lines)
    assert "and 1 more" not in "".join(lines)


@pytest.mark.models
def test_real_speakers_are_told_apart(tmp_path):
    """The embedded verifier on clips of LibriVox readers, as they are and under a wrong name."""
    librivox, libri = find_shared("speech_transcribed", "pocketsphinx"), find_shared("speech_transcribed", "lhotse")
    root = tmp_path / "corpus"
    places = {
        "austen": sorted(librivox.glob("sense*.wav")),
        "2412": sorted(libri.glob("2412*.flac")),
        "1088": [libri / "libri-1088-134315-0000.wav"],
        "wrong": [next(iter(librivox.glob("sense*0870.wav"))), libri / "libri-1088-134315-0000.wav"],
        "lj": sorted(libri.glob("LJ*.wav")),
    }
    for speaker, paths in places.items():
        (root / speaker).mkdir(parents=True)
        for path in paths:
            (root / speaker / path.name).write_bytes(path.read_bytes())
    config = make_config(root, verifier__engine="onnx_verifier")
    index_voices(config, str(tmp_path / "bank"))
    opened = open_voice_bank(str(tmp_path / "bank"))
    assert [voice.id for voice in opened.voices] == ["1088", "2412", "austen"]
    rows = {row["voice"]: row for row in opened.list_rows()}
    assert rows["2412"]["consistency"] > 0.7
    assert rows["1088"]["consistency"] is None
    assert all(15 < row["snr_db"] < 45 for row in rows.values())
    vectors = np.array([row["embedding"] for row in rows.values()])
    assert (vectors @ vectors.T)[np.triu_indices(3, 1)].max() < 0.7
    reasons = {reject["speaker"]: reject["reject_reason"] for reject in read_rejects(tmp_path / "bank")}
    assert (reasons["wrong"], reasons["lj"]) == ("inconsistent_speaker", "too_little_speech")


def forbid(*_):
    raise AssertionError("a speaker is indexed again")
