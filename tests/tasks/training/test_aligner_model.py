"""Training on a small corpus gives a model that the engine can use, and its file keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from buzz_speech import make_corpus

from bystander.schemas.alignment import AlignmentReply, AlignmentRequest
from bystander.schemas.engines import RowFault
from bystander.schemas.errors import EngineSetupError, InputError
from bystander.schemas.sid_engine_configs import KaldiGmmAlignerConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.kaldi_gmm.acoustic_model import load_model, save_model
from bystander.tasks.engines.kaldi_gmm_aligner import KaldiGmmAligner
from bystander.tasks.training.aligner_corpus import read_corpus
from bystander.tasks.training.aligner_model import FinishedModel, make_model
from bystander.tasks.training.aligner_training import AlignerTraining, TrainingClip
from bystander.tasks.training.room_noise import add_room_noise

SMALL = AlignerTraining(iterations=7, gaussians=200)


@pytest.fixture(scope="module")
def corpus() -> list[TrainingClip]:
    return make_corpus(clips=10, words=6, seed=1)


@pytest.fixture(scope="module")
def finished(corpus: list[TrainingClip], tmp_path_factory: pytest.TempPathFactory) -> FinishedModel:
    return make_model(corpus, "en", tmp_path_factory.mktemp("model"), SMALL)


def test_the_engine_aligns_new_clips_with_the_trained_model(finished: FinishedModel) -> None:
    engine = KaldiGmmAligner(KaldiGmmAlignerConfig(models={"en": str(finished.path.parent)}), ModelStore().resolve)
    clips = make_corpus(clips=3, words=6, seed=2)
    replies = engine.align([AlignmentRequest(c.id, c.samples, c.sampling_rate, c.words) for c in clips])
    errors = []
    for clip, reply in zip(clips, replies, strict=True):
        assert isinstance(reply, AlignmentReply)
        assert clip.times is not None
        errors += [word.start_s - start for word, (start, _) in zip(reply.words, clip.times, strict=True)]
    assert np.mean(np.abs(errors) < 0.03) >= 0.95
    wrong = engine.align(
        [
            AlignmentRequest(
                "x", clips[0].samples, 16000, tuple(w for w in clips[1].words if w not in clips[0].words) * 2
            )
        ]
    )
    assert isinstance(wrong[0], RowFault)


def test_the_report_says_how_it_went(finished: FinishedModel, corpus: list[TrainingClip]) -> None:
    report = json.loads((finished.path.parent / "training.json").read_text())
    assert report["used"] == len(corpus)
    assert report["left_out"] == {}
    assert report["log_likelihoods"] == sorted(report["log_likelihoods"])
    assert report["figures"]["rates"]["right_refused"] <= 0.1
    assert report["figures"]["word_starts"]["within_50_ms"] >= 0.95


def test_a_flat_start_serves_where_no_times_are_known(corpus: list[TrainingClip], tmp_path: Path) -> None:
    untimed = [replace(clip, times=None) for clip in corpus]
    made = make_model(untimed, "en", tmp_path, SMALL)
    assert made.report.failed_last <= 1
    assert made.model.info.calibration.bias_s == 0


def test_training_twice_gives_the_same_model(
    finished: FinishedModel, corpus: list[TrainingClip], tmp_path: Path
) -> None:
    again = make_model(corpus, "en", tmp_path, SMALL)
    for name in ("offsets", "weights", "means", "variances"):
        np.testing.assert_allclose(
            getattr(again.model.read_mixtures(), name), getattr(finished.model.read_mixtures(), name), rtol=1e-5
        )


def test_a_model_file_keeps_the_model(finished: FinishedModel, tmp_path: Path) -> None:
    loaded = load_model(finished.path)
    assert loaded.info == finished.model.info
    assert loaded.phones == finished.model.phones
    copy = tmp_path / "copy.npz"
    save_model(loaded, copy)
    assert copy.read_bytes() == finished.path.read_bytes()
    cut = tmp_path / "cut.npz"
    cut.write_bytes(finished.path.read_bytes()[:-2000])
    with pytest.raises(EngineSetupError, match=r"cut\.npz: not an alignment model, or damaged"):
        load_model(cut)
    with np.load(finished.path) as data:
        arrays = dict(data)
    arrays["means"] = arrays["means"][:-1]
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(EngineSetupError, match="Gaussians"):
        load_model(tmp_path / "odd.npz")


def test_clips_that_cannot_be_used_are_named(corpus: list[TrainingClip], tmp_path: Path) -> None:
    odd = [
        replace(corpus[0], id="foreign", words=("你好", "kettle"), times=None),
        replace(corpus[0], id="short", samples=corpus[0].samples[:800], times=None),
    ]
    made = make_model([*corpus[:4], *odd], "en", tmp_path, AlignerTraining(iterations=3, gaussians=150))
    assert set(made.report.left_out) == {"foreign", "short"}
    with pytest.raises(InputError, match="no clip can be used for training; the first, foreign"):
        make_model(odd, "en", tmp_path, SMALL)


def write_wav(path: Path, clip: TrainingClip) -> None:
    soundfile.write(path, clip.samples, clip.sampling_rate)


def test_a_corpus_is_read_from_a_folder_or_a_manifest(corpus: list[TrainingClip], tmp_path: Path) -> None:
    first, second = corpus[:2]
    assert first.times is not None
    for name, clip in (("a", first), ("b", second)):
        write_wav(tmp_path / f"{name}.wav", clip)
    (tmp_path / "a.txt").write_text(" ".join(first.words))
    lines = [
        f"b A {start:.3f} {end - start:.3f} {word}"
        for word, (start, end) in zip(second.words, second.times or (), strict=True)
    ]
    (tmp_path / "b.ctm").write_text("\n".join(lines) + "\n")
    clips = read_corpus(tmp_path)
    assert clips[0].words == first.words
    assert clips[0].times is None
    assert sum((clip.words for clip in clips[1:]), ()) == second.words
    assert all(clip.times is not None and clip.times[0][0] <= 0.26 for clip in clips[1:])

    record = {
        "audio": "a.wav",
        "words": [{"word": w, "start": s, "end": e} for w, (s, e) in zip(first.words, first.times, strict=True)],
    }
    (tmp_path / "m.jsonl").write_text(
        json.dumps(record) + "\n\n" + json.dumps({"audio": "b.wav", "text": "一个 kettle"}) + "\n"
    )
    clips = read_corpus(tmp_path / "m.jsonl")
    assert clips[0].times == first.times
    assert clips[1].words == ("一", "个", "kettle")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: is no JSON object"),
        ('{"text": "x"}', "line 1: needs the field `audio`"),
        ('{"audio": "no.wav", "text": "x"}', "no.wav is not there"),
        ('{"audio": "a.wav"}', "needs `text` or `words`"),
        ('{"audio": "a.wav", "text": "..."}', "the text is empty"),
        ('{"audio": "a.wav", "words": [{"word": "x"}]}', "word 1 needs"),
        ('{"audio": "a.wav", "words": [{"word": "x", "start": 2, "end": 1}]}', "word 1 has the times 2 to 1 s"),
        ('{"audio": "a.wav", "words": [{"word": "x", "start": 99, "end": 100}]}', "its words 100.00 s"),
        ('{"audio": "a.wav", "text": "x", "break_word": 3}', "break_word"),
        ('{"audio": "t.wav", "text": "x"}', "cannot be read as audio"),
    ],
)
def test_a_bad_line_of_a_manifest_is_named(corpus: list[TrainingClip], tmp_path: Path, line: str, message: str) -> None:
    write_wav(tmp_path / "a.wav", corpus[0])
    (tmp_path / "t.wav").write_text("no sound")
    (tmp_path / "m.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=message.replace(".", r"\.").replace("`", "`")):
        read_corpus(tmp_path / "m.jsonl")


def test_a_folder_without_transcripts_is_refused(corpus: list[TrainingClip], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no clip"):
        read_corpus(tmp_path)
    write_wav(tmp_path / "a.wav", corpus[0])
    with pytest.raises(InputError, match=r"a\.wav: has no transcript beside it"):
        read_corpus(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_corpus(tmp_path / "none")


def test_room_noise_is_the_clips_own_and_below_its_speech(corpus: list[TrainingClip]) -> None:
    clip = corpus[0]
    noisy = add_room_noise(clip.samples, clip.sampling_rate, clip.id)
    noise = noisy - clip.samples
    np.testing.assert_array_equal(noisy, add_room_noise(clip.samples, clip.sampling_rate, clip.id))
    assert not np.array_equal(noisy, add_room_noise(clip.samples, clip.sampling_rate, "another"))
    assert 0 < np.mean(noise**2) < np.mean(clip.samples**2)
    silent = np.zeros(1000, np.float32)
    np.testing.assert_array_equal(add_room_noise(silent, 16000, "x"), silent)
