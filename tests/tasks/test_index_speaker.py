"""One speaker's clips: which are usable, whose they are, and which makes the reference."""

import io

import numpy as np
import pytest
import soundfile

from bystander.schemas.recogniser_configs import FakeVerifierConfig
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.schemas.voice_bank import CLIP_REASONS, SPEAKER_REASONS
from bystander.schemas.voice_bank_config import IndexVoices
from bystander.storage.voice_sources import SourceClip, SourceSpeaker
from bystander.tasks.engines.fake_speech import FakeVerifier
from bystander.tasks.engines.file_decoder import FileDecoder
from bystander.tasks.index_speaker import index_speaker
from voice_corpora import RATE, make_clip, write_clip

SPEAKER = SourceSpeaker("spk", "spk", gender="female")


def index(folder, clips, **fields):
    """Index clips given as samples, bytes or (samples, rate)."""
    listed = []
    for name, clip in clips.items():
        path = folder / name
        if isinstance(clip, bytes):
            path.write_bytes(clip)
        elif clip is not None:
            samples, rate = clip if isinstance(clip, tuple) else (clip, RATE)
            write_clip(path, samples, rate)
        listed.append(SourceClip(name, str(path) if clip is not None else "", 1))
    settings = IndexVoices(**fields)
    return index_speaker(
        SPEAKER, listed, settings, FileDecoder(FileDecoderConfig()), FakeVerifier(FakeVerifierConfig())
    )


def list_reasons(found):
    return {reject["clip"]: reject["reject_reason"] for reject in found.rejects}


def read_reference(found):
    return soundfile.read(io.BytesIO(found.row["audio"]["bytes"]), dtype="float32")


def test_the_cleanest_long_clip_is_the_reference(tmp_path):
    clips = {
        "noisy.flac": make_clip(1, 1, 9.0, noise=8e-3),
        "clean.flac": make_clip(1, 2, 9.0, noise=5e-4),
        "short.flac": make_clip(1, 3, 3.0, noise=1e-4),
    }
    found = index(tmp_path, clips)
    assert not found.rejects
    row = found.row
    assert (row["clips"], row["gender"], row["clips_found"], row["clips_read"]) == (["clean.flac"], "female", 3, 3)
    samples, rate = read_reference(found)
    assert rate == row["sampling_rate"] == RATE
    assert row["duration_s"] == pytest.approx(len(samples) / rate)
    assert 8 < row["duration_s"] < 9
    assert (row["consistency"], row["clips_compared"]) == (pytest.approx(1, abs=0.01), 2)
    assert np.linalg.norm(row["embedding"]) == pytest.approx(1, abs=1e-4)


def test_a_long_clip_is_cut_at_a_pause(tmp_path):
    found = index(tmp_path, {"long.flac": make_clip(1, 1, 30.0)})
    samples, rate = read_reference(found)
    assert 10 < len(samples) / rate <= 12
    assert np.sqrt(np.mean(samples[-rate // 50 :] ** 2)) < 5e-3
    assert found.row["consistency"] is None


def test_short_clips_are_joined_the_cleanest_first(tmp_path):
    clips = {f"{i}.flac": make_clip(1, i, 3.5, noise=(i + 1) * 1e-3) for i in range(4)}
    found = index(tmp_path, clips)
    assert found.row["clips"] == ["0.flac", "1.flac"]
    assert 6 <= found.row["duration_s"] <= 12
    assert found.row["clips_compared"] == 2
    assert list_reasons(index(tmp_path, clips, join_clips=False)) == {None: "too_little_speech"}
    one = index(tmp_path, {"0.flac": clips["0.flac"]})
    assert list_reasons(one) == {None: "too_little_speech"}
    assert "1 usable clips of 3." in one.rejects[0]["reject_detail"]


def test_clips_of_another_rate_are_joined_too(tmp_path):
    clips = {"0.flac": (make_clip(1, 0, 4.0), RATE), "1.flac": (make_clip(1, 1, 4.0, 2e-3)[::3], 8000)}
    found = index(tmp_path, clips, min_consistency=0.0)
    assert (found.row["clips"], found.row["sampling_rate"]) == (["0.flac", "1.flac"], RATE)
    high = index(tmp_path, {"high.wav": (np.repeat(make_clip(1), 2), 48000)})
    assert high.row["sampling_rate"] == 24000


def test_every_bad_clip_has_its_reason(tmp_path):
    good, other = make_clip(1, 1), make_clip(1, 2)
    stereo = np.stack([make_clip(1, 3), make_clip(2, 4)], axis=1)
    buffer = io.BytesIO()
    soundfile.write(buffer, good, RATE, format="WAV")
    whole = buffer.getvalue()
    clips = {
        "good.flac": good,
        "same.flac": good,
        "both.flac": np.stack([other, other], axis=1),
        "stereo.flac": stereo,
        "silent.flac": np.zeros(RATE * 3, np.float32),
        "short.flac": make_clip(1, 5, 1.2),
        "clipped.flac": np.clip(make_clip(1, 6) * 8, -1, 1),
        "quiet.flac": make_clip(1, 7, noise=0) * np.float32(0.01),
        "noisy.flac": make_clip(1, 8, noise=0.03),
        "text.wav": b"no audio at all",
        "empty.mp3": b"",
        "cut.wav": whole[: len(whole) // 3],
        "bare": None,
    }
    found = index(tmp_path, clips, candidates=20, max_read=20)
    assert list_reasons(found) == {
        "good.flac": "duplicate_clip",
        "stereo.flac": "channels_differ",
        "silent.flac": "silent",
        "short.flac": "too_short",
        "clipped.flac": "clipped",
        "quiet.flac": "too_quiet",
        "noisy.flac": "noisy",
        "text.wav": "not_audio",
        "empty.mp3": "empty_audio_file",
        "cut.wav": "audio_truncated",
        "bare": "no_audio",
    }
    assert set(list_reasons(found).values()) <= CLIP_REASONS
    assert all(reject["reject_detail"] for reject in found.rejects)
    assert found.row is not None
    assert found.clips_read == 13


def test_another_speakers_clip_is_put_aside_however_clean_it_is(tmp_path):
    clips = {f"{i}.flac": make_clip(1, i, noise=2e-3) for i in range(4)} | {"wrong.flac": make_clip(9, 5, noise=1e-4)}
    found = index(tmp_path, clips)
    assert list_reasons(found) == {"wrong.flac": "unlike_speaker"}
    assert found.row["clips"] != ["wrong.flac"]
    assert found.row["consistency"] > 0.9


@pytest.mark.parametrize("voices", [(1, 9), (1, 1, 9, 9), (1, 5, 9, 13)])
def test_clips_of_several_speakers_are_nobodys(tmp_path, voices):
    found = index(tmp_path, {f"{i}.flac": make_clip(voice, i) for i, voice in enumerate(voices)})
    assert found.row is None
    assert list_reasons(found) == {None: "inconsistent_speaker"}
    assert set(list_reasons(found).values()) <= SPEAKER_REASONS


def test_reading_ends_when_there_are_enough(tmp_path):
    clips = {f"{i}.flac": make_clip(1, i) for i in range(6)}
    found = index(tmp_path, clips, candidates=2)
    assert (found.clips_found, found.clips_read) == (6, 2)
    bad = {f"bad{i}.wav": b"nothing" for i in range(6)}
    found = index(tmp_path, bad, candidates=2, max_read=4)
    assert (found.clips_read, found.row) == (4, None)
    assert list_reasons(found)[None] == "no_usable_clip"


def test_the_order_of_clips_changes_nothing(tmp_path):
    clips = {f"{i}.flac": make_clip(1, i, 4.0) for i in range(5)}
    one = index(tmp_path, clips, candidates=3)
    other = index(tmp_path, dict(reversed(clips.items())), candidates=3)
    assert one.row == other.row


def test_too_few_clips_and_none_at_all(tmp_path):
    assert list_reasons(index(tmp_path, {})) == {None: "no_clip"}
    assert list_reasons(index(tmp_path, {"0.flac": make_clip(1)}, min_clips=2)) == {None: "too_few_clips"}


def test_a_file_of_hours_is_not_read_and_of_minutes_only_its_beginning(tmp_path):
    clips = {"0.flac": make_clip(1, 1, 40.0)}
    assert index(tmp_path, clips, examined_s=8.0).row["duration_s"] < 8.0
