"""Speakers of folders, in all the ways that corpora lie on disks."""

from collections import Counter

import pytest

from bystander.schemas.errors import InputError
from bystander.schemas.voice_bank_config import VoiceSourceConfig
from bystander.storage.filesystem import open_store
from bystander.storage.voice_folders import list_folder_clips, list_folder_speakers


def touch(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def list_speakers(root, **fields):
    return list_folder_speakers(VoiceSourceConfig(path=str(root), **fields))


def list_names(speaker):
    return [clip.name for clip in list_folder_clips(speaker)[0]]


def test_one_folder_a_speaker(tmp_path):
    root = touch(tmp_path / "corpus", "ann/1.wav", "ann/b/2.flac", "ann/notes.txt", "bob/1.MP3", "README", ".DS_Store")
    found = list_speakers(root)
    assert (found.layout, found.name, found.language, found.licence) == ("folders", "corpus", "en", "")
    assert [speaker.voice for speaker in found.speakers] == ["ann", "bob"]
    clips, ignored = list_folder_clips(found.speakers[0])
    assert [clip.name for clip in clips] == ["ann/1.wav", "ann/b/2.flac"]
    assert (ignored, found.ignored) == ({".txt": 1}, Counter({"without ending": 1}))


def test_a_stray_file_beside_speakers_is_rejected(tmp_path):
    found = list_speakers(touch(tmp_path, "ann/1.wav", "stray.wav"))
    (reject,) = found.rejects
    assert (reject["clip"], reject["reject_reason"]) == ("stray.wav", "outside_speaker_folder")


def test_one_file_a_voice(tmp_path):
    found = list_speakers(touch(tmp_path, "ann.wav", "bob.wav", "bob.flac", "notes.txt"))
    assert found.layout == "files"
    assert [speaker.voice for speaker in found.speakers] == ["ann", "bob.flac", "bob.wav"]
    assert [list_names(speaker) for speaker in found.speakers] == [["ann.wav"], ["bob.flac"], ["bob.wav"]]


def test_files_in_folders_are_voices_where_that_is_asked_for(tmp_path):
    root = touch(tmp_path, "a/spk1.wav", "b/spk1.wav", "spk2.wav")
    found = list_speakers(root, layout="files", id_prefix="x-")
    assert [speaker.voice for speaker in found.speakers] == ["x-a/spk1", "x-b/spk1", "x-spk2"]


def test_equal_speakers_of_several_subsets_are_different_people(tmp_path):
    root = touch(tmp_path, "train/s1/1.wav", "test/s1/1.wav", "dev-clean/wavs/s2/1.wav")
    found = list_speakers(root)
    assert [speaker.voice for speaker in found.speakers] == ["dev-clean/s2", "test/s1", "train/s1"]
    merged = list_speakers(root, merge_subsets=True)
    assert [speaker.voice for speaker in merged.speakers] == ["s1", "s2"]
    assert list_names(merged.speakers[0]) == ["test/s1/1.wav", "train/s1/1.wav"]


def test_names_that_differ_only_in_their_slash_are_different_voices(tmp_path):
    root = touch(tmp_path, "train/spk1/utt1.wav", "train__spk1/utt1.wav", "spk1/utt1.wav", "spk1__utt1/utt1.wav")
    found = list_speakers(root)
    assert [speaker.voice for speaker in found.speakers] == ["spk1", "spk1__utt1", "train/spk1", "train__spk1"]


def test_librispeech_lies_as_it_is_published(tmp_path):
    root = touch(tmp_path / "LibriSpeech", "train-clean-100/19/198/19-198-0000.flac", "dev-clean/84/1/84-1-0000.flac")
    (root / "SPEAKERS.TXT").write_text(";ID |SEX| SUBSET\n19 | F | train-clean-100\n")
    found = list_speakers(root, merge_subsets=True)
    assert [(speaker.voice, speaker.gender) for speaker in found.speakers] == [("19", "female"), ("84", None)]
    assert list_names(found.speakers[0]) == ["19/198/19-198-0000.flac"]


def test_mls_is_known_by_its_table(tmp_path):
    root = touch(
        tmp_path / "mls_german_opus",
        "train/audio/12/7/12_7_000001.opus",
        "train/limited_supervision/9hr/handles.txt",
        "dev/audio/99/7/99_7_000001.opus",
        "test/audio/12/8/12_8_000002.opus",
        "train/transcripts.txt",
    )
    (root / "metainfo.txt").write_text("SPEAKER | GENDER | PARTITION\n12 | F | train\n")
    found = list_speakers(root)
    assert (found.layout, found.language, found.licence) == ("mls", "de", "CC BY 4.0")
    assert [(speaker.voice, speaker.subsets) for speaker in found.speakers] == [
        ("12", ("test", "train")),
        ("99", ("dev",)),
    ]
    assert list_names(found.speakers[0]) == ["test/12/8/12_8_000002.opus", "train/12/7/12_7_000001.opus"]
    assert found.speakers[0].gender == "female"
    part = list_speakers(root / "train")  # the table lies above
    assert [(speaker.voice, speaker.gender) for speaker in part.speakers] == [("12", "female")]


def test_any_filesystem_will_do():
    store = open_store("memory://voices-corpus")
    store.write_bytes("train/s1/1.wav", b"x")
    found = list_speakers("memory://voices-corpus")
    assert [speaker.voice for speaker in found.speakers] == ["train/s1"]
    (clip,) = list_folder_clips(found.speakers[0])[0]
    assert (clip.path, clip.size) == ("memory:///voices-corpus/train/s1/1.wav", 1)
    store.remove("", recursive=True)


@pytest.mark.parametrize(
    ("names", "message"), [((), "no such folder"), (("notes.txt",), "holds no sound file; see --layout")]
)
def test_a_folder_without_speech_is_said(tmp_path, names, message):
    root = touch(tmp_path / "corpus", *names)
    with pytest.raises(InputError, match=message):
        list_speakers(root)
