"""The recurrent detector: what it hears, that it hears no future, and that what is exported is what was trained."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.detector_configs import KConsecutiveConfig, RecurrentDetectorConfig, parse_detectors
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import make_rng
from bystander.schemas.train_sid_config import Augmentation, CropSettings, RecurrentConfig, TrainSidConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.detector_registry import computes_elsewhere, open_detector
from bystander.tasks.engines.log_mel_steps import (
    SAMPLING_RATE,
    STEP_S,
    STEP_SAMPLES,
    LogMelSteps,
    make_mel_filters,
    measure_log_mel,
)
from bystander.tasks.engines.model_revision import read_revision
from bystander.tasks.engines.recurrent_detector import RecurrentDetector
from bystander.tasks.engines.step_features import RecogniserFeatures
from bystander.tasks.engines.trained_rules import remark_other_k
from bystander.tasks.training.clip_augmentation import augment_clip
from bystander.tasks.training.crops import draw_ends, label_ends
from bystander.tasks.training.cross_fitting import ExampleSlice, measure_held_out
from bystander.tasks.training.pick_threshold import measure_samples
from bystander.tasks.training.recurrent_examples import (
    MakeSpokenClip,
    RecurrentExamples,
    SpokenClip,
    collate_examples,
    join_clips,
    weigh_crops,
)
from bystander.tasks.training.recurrent_export import save_recurrent
from bystander.tasks.training.recurrent_model import RecurrentNetwork, score_steps

BANDS = 16
MODEL = RecurrentConfig(mel_bands=BANDS, hidden=12, layers=2, dropout=0.0)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def make_noise(seconds: float, seed: int = 0, level: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (level * rng.standard_normal(round(seconds * SAMPLING_RATE))).astype(np.float32)


def make_tone(hertz: float, seconds: float, level: float = 0.1) -> np.ndarray:
    times = np.arange(round(seconds * SAMPLING_RATE)) / SAMPLING_RATE
    return (level * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4000), min_size=1, max_size=12), st.integers(0, 5))
def test_features_of_pieces_are_those_of_the_whole(sizes: list[int], seed: int) -> None:
    samples = make_noise(1.1, seed) * np.linspace(0, 1, round(1.1 * SAMPLING_RATE), dtype=np.float32)
    stream, heard, at = LogMelSteps(BANDS), [], 0
    for size in [*sizes, len(samples)]:
        heard.append(stream.accept(samples[at : at + size]))
        at += size
    np.testing.assert_array_equal(np.concatenate(heard), measure_log_mel(samples, BANDS))


def test_features_know_no_future() -> None:
    samples = make_noise(1.0)
    changed = np.concatenate([samples[: 10 * STEP_SAMPLES], 5 * make_noise(0.6, 1)])
    np.testing.assert_array_equal(measure_log_mel(samples, BANDS)[:10], measure_log_mel(changed, BANDS)[:10])


def test_features_find_the_band_of_a_tone_at_any_level() -> None:
    samples = make_tone(1000, 1.0, 0.5) + make_noise(1.0, level=0.02)
    quiet, loud = (measure_log_mel(samples * np.float32(gain), BANDS) for gain in (0.05, 1.0))
    np.testing.assert_allclose(quiet[5:], loud[5:], atol=1e-3)
    centre = int(make_mel_filters(BANDS)[round(1000 / SAMPLING_RATE * 512)].argmax())
    assert set(loud[5:].argmax(axis=2).ravel().tolist()) == {centre}
    assert loud.max() == pytest.approx(1.0)


def test_what_is_quieter_than_any_room_stays_low() -> None:
    assert measure_log_mel(make_noise(1.0, level=1e-5), BANDS).max() < -0.5


def test_network_knows_no_future(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = RecurrentNetwork(MODEL).eval()
    steps = torch.from_numpy(measure_log_mel(make_noise(2.0), BANDS))
    changed = steps.clone()
    changed[30:] += 1
    before, after = score_steps(network, steps), score_steps(network, changed)
    torch.testing.assert_close(before[:30], after[:30], rtol=0, atol=0)
    assert (before[30:] - after[30:]).abs().max() > 1e-4


@pytest.mark.parametrize("layers", [1, 2])
def test_graph_says_what_torch_says_chunk_by_chunk(tmp_path: Path, layers: int) -> None:
    model = MODEL.model_copy(update={"layers": layers, "context_steps": 2})
    torch.manual_seed(1)
    network = RecurrentNetwork(model)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(3)  # so that gates and states are far from their middle
    save_recurrent([network], TrainSidConfig(model=model, chunk_s=0.08, k=2), 0.625, tmp_path / "run" / "model")
    detector = open_detector(RecurrentDetectorConfig(model=str(tmp_path / "run")), Path)
    assert not computes_elsewhere(RecurrentDetectorConfig(model=str(tmp_path / "run")))
    assert isinstance(detector, RecurrentDetector)
    assert (detector.threshold, detector.chunk_samples, detector.sampling_rate) == (0.625, 1280, 16000)
    samples = make_noise(2.37, 3) * np.abs(make_tone(2, 2.37, 1.0))
    expected = score_steps(network, torch.from_numpy(measure_log_mel(samples, BANDS))).numpy()
    stream = detector.open_stream()
    chunks = [samples[at : at + 1280] for at in range(0, len(samples), 1280)]
    heard = [stream.measure(chunk) for chunk in chunks]
    assert expected.std() > 0.02
    whole = len(expected) // 2
    np.testing.assert_allclose(heard[:whole], expected[1::2][:whole], atol=1e-4)
    again = detector.open_stream()
    np.testing.assert_allclose(np.concatenate([again.measure_steps(chunk) for chunk in chunks]), expected, atol=1e-4)


def test_graph_of_several_networks_says_their_mean(tmp_path: Path) -> None:
    networks = []
    for seed in range(3):
        torch.manual_seed(seed)
        networks.append(RecurrentNetwork(MODEL))
        with torch.no_grad():
            for weight in networks[-1].parameters():
                weight.mul_(3)
    save_recurrent(networks, TrainSidConfig(model=MODEL, chunk_s=0.04, k=1), 0.5, tmp_path)
    detector = open_detector(RecurrentDetectorConfig(model=str(tmp_path)), Path)
    assert isinstance(detector, RecurrentDetector)
    samples = make_noise(1.5, 3) * np.abs(make_tone(2, 1.5, 1.0))
    steps = torch.from_numpy(measure_log_mel(samples, BANDS))
    each = np.stack([score_steps(network, steps).numpy() for network in networks])
    assert each.std(axis=0).max() > 0.02
    stream = detector.open_stream()
    heard = [stream.measure(samples[at : at + 640]) for at in range(0, len(samples), 640)]
    np.testing.assert_allclose(heard[: len(steps)], each.mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("chunk_s", [0.04, 0.1, 0.16])
def test_held_out_clips_are_measured_as_a_stream_hears_them(tmp_path: Path, chunk_s: float) -> None:
    config = TrainSidConfig(model=MODEL, crops=CropSettings(shift_words=0, min_s=0.04), chunk_s=chunk_s)
    torch.manual_seed(4)
    network = RecurrentNetwork(MODEL).eval()
    rows = Rows([make_row("a", 1.2), make_row("b", None)])
    examples = RecurrentExamples(rows, config, varies=True)
    as_is, again, varied, other_varied = measure_held_out(network, examples, [0], 2, chunk_s)
    save_recurrent([network], config, 0.5, tmp_path)
    detector = open_detector(RecurrentDetectorConfig(model=str(tmp_path)), Path)
    assert isinstance(detector, RecurrentDetector)
    (clip,) = rows.read([0], 0)
    expected = measure_samples(clip.samples, 2.0, 1.2, detector)
    np.testing.assert_allclose(as_is.heard_s, expected.heard_s)
    np.testing.assert_allclose(as_is.probabilities, expected.probabilities, atol=2e-3)  # features are kept in 16 bits
    assert (as_is.duration_s, as_is.break_s) == (2.0, 1.2)
    assert again is as_is
    assert varied.break_s != other_varied.break_s
    assert varied.duration_s == pytest.approx(varied.heard_s[-1])


def test_clips_are_joined_within_a_fold() -> None:
    model = MODEL.model_copy(update={"augmentation": Augmentation(versions=2, joined_share=1.0)})
    config = TrainSidConfig(model=model, crops=CropSettings(shift_words=0, min_s=0.04))
    rows = Rows([make_row("a", 1.0), make_row("b", None)])
    together, apart = (
        [
            RecurrentExamples(rows, config, varies=True, folds=np.array(folds)).hear(0, version)
            for version in range(1, 9)
        ]
        for folds in ([0, 0], [0, 1])
    )
    assert max(clip.duration_s for clip in together) > 2.8 / 0.85 > max(clip.duration_s for clip in apart)


def test_what_is_heard_ahead_is_what_epochs_would_hear() -> None:
    model = MODEL.model_copy(update={"augmentation": Augmentation(versions=3)})
    config = TrainSidConfig(model=model, crops=CropSettings(min_s=0.04, shift_words=0))
    features = TwiceFeatures()
    rows = Rows([make_row("a", 1.2), make_row("bb", 0.8), make_row("ccc", None)])
    ahead, plain = (RecurrentExamples(rows, config, varies=True, features=TwiceFeatures()) for _ in range(2))
    ahead._features = features
    assert ahead.hear_ahead(3) == features.heard == 9
    for epoch in range(6):
        for made, expected in zip(ahead.read([0, 1, 2], epoch), plain.read([0, 1, 2], epoch), strict=True):
            np.testing.assert_array_equal(made.steps, expected.steps)
            np.testing.assert_array_equal(made.targets, expected.targets)
    assert features.heard == 9
    endless = config.model_copy(update={"model": MODEL})
    assert RecurrentExamples(rows, endless, varies=True).hear_ahead(2) == 0


def test_slice_reads_its_own_examples_and_has_a_digest_of_its_own() -> None:
    config = TrainSidConfig(model=MODEL, crops=CropSettings(shift_words=0, min_s=0.04))
    rows = [make_row("a" * (number + 1), 0.5 + 0.2 * number) for number in range(4)]
    plain = RecurrentExamples(Rows(rows), config, varies=True).as_they_are()
    part = ExampleSlice(plain, np.array([3, 1]))
    (last,) = part.read([0], 5)
    np.testing.assert_array_equal(last.targets, plain.read([3], 0)[0].targets)
    assert len(part) == len(part.lengths) == len(part.groups) == 2
    assert part.digest != ExampleSlice(plain, np.array([1, 3])).digest


def test_folds_want_no_held_out_share_and_no_shift() -> None:
    model = {"architecture": "recurrent", "folds": 3}
    crops = {"shift_words": 0}
    assert TrainSidConfig.model_validate(
        {"model": model, "crops": crops, "held_out": {"share": 0}}
    ).model == RecurrentConfig(folds=3)
    with pytest.raises(ValueError, match=r"held_out\.share: with model\.folds each row is held out once; set it to 0"):
        TrainSidConfig.model_validate({"model": model, "crops": crops, "held_out": {"share": 0.2}})
    with pytest.raises(ValueError, match=r"crops\.shift_words: with model\.folds"):
        TrainSidConfig.model_validate({"model": model, "held_out": {"share": 0}})


def test_folder_without_a_detector_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineSetupError, match="of a trained detector; name a folder"):
        open_detector(RecurrentDetectorConfig(model=str(tmp_path)), Path)
    (tmp_path / "config.json").write_text('{"architecture": "sid_lm"}')
    with pytest.raises(EngineSetupError, match="none of a recurrent detector"):
        open_detector(RecurrentDetectorConfig(model=str(tmp_path)), Path)


def test_missing_and_damaged_detectors_are_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EngineSetupError, match="missing: there is no such folder; name one that `bystander train sid`"):
        open_detector(RecurrentDetectorConfig(model=str(tmp_path / "missing")), Path)
    save_recurrent([RecurrentNetwork(MODEL)], TrainSidConfig(model=MODEL), 0.5, tmp_path)
    graph = tmp_path / "detector.onnx"
    graph.write_bytes(graph.read_bytes()[:500])
    stream = open_detector(RecurrentDetectorConfig(model=str(tmp_path)), Path).open_stream()
    with pytest.raises(EngineSetupError, match=r"it is damaged or something else: fetch or make it again$"):
        stream.accept(make_noise(0.2))


class TwiceFeatures:
    """Features of 80 ms: the mean level of each quarter, twice."""

    bands, step_s, empty = 2, 0.08, 0.0

    def __init__(self) -> None:
        self._opened: list[None] = []  # appending is safe among threads, counting up is not

    @property
    def heard(self) -> int:
        """Clips so far."""
        return len(self._opened)

    def open_stream(self) -> TwiceFeatures:
        self._opened.append(None)
        return self

    def accept(self, samples: np.ndarray) -> np.ndarray:
        steps = len(samples) // 1280
        levels = np.abs(samples[: steps * 1280]).reshape(steps, 4, 320).mean(axis=2)
        return np.repeat(levels[:, :, np.newaxis], 2, axis=2).astype(np.float32)

    def close(self) -> None: ...


def test_steps_may_be_longer_and_versions_come_again() -> None:
    model = MODEL.model_copy(update={"augmentation": Augmentation(versions=3)})
    config = TrainSidConfig(model=model, crops=CropSettings(min_s=0.04, shift_words=0))
    features = TwiceFeatures()
    source = RecurrentExamples(Rows([make_row("a", 1.2)]), config, varies=True, features=features)
    heard = [source.read([0], epoch)[0] for epoch in range(30)]
    assert features.heard == len({example.steps.tobytes() for example in heard}) == 3
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(again.read([0], 7)[0].steps, heard[7].steps)
    plain = RecurrentExamples(Rows([make_row("a", 1.2)]), config, varies=False, features=features).read([0], 0)[0]
    assert any(np.array_equal(plain.steps, example.steps) for example in heard)  # the first version is the clip itself
    assert plain.targets.tolist() == [0.0] * 15 + [1.0] * 10
    assert plain.weights.sum() == pytest.approx(1.0)


def test_network_hears_through_a_recogniser_as_it_was_trained(tmp_path: Path) -> None:
    name = "whisper-tiny.en-ct2"
    path = ModelStore().resolve(name)
    features = RecogniserFeatures(path)
    model = RecurrentConfig(features="recogniser", recogniser=name, hidden=8, context_steps=0)
    torch.manual_seed(2)
    network = RecurrentNetwork(model, features.bands, features.empty)
    config = TrainSidConfig(model=model, chunk_s=0.16, k=1)
    save_recurrent([network], config, 0.5, tmp_path, read_revision(name, path))
    written = RecurrentDetectorConfig(model=str(tmp_path))
    assert computes_elsewhere(KConsecutiveConfig(k=2, of=written))  # the encoder has threads of its own
    detector = open_detector(written, ModelStore().resolve)
    assert isinstance(detector, RecurrentDetector)
    samples = make_noise(1.2, 3) * np.abs(make_tone(2, 1.2, 1.0))
    expected = score_steps(network, torch.from_numpy(features.open_stream().accept(samples))).numpy()
    stream = detector.open_stream()
    heard = [stream.measure(samples[at : at + 2560]) for at in range(0, len(samples), 2560)]
    np.testing.assert_allclose(heard[:7], expected[1::2][:7], atol=2e-3)
    detector.close()
    save_recurrent([network], config, 0.5, tmp_path, "another")
    with pytest.raises(EngineSetupError, match="was trained on another revision of the recogniser whisper"):
        open_detector(RecurrentDetectorConfig(model=str(tmp_path)), ModelStore().resolve)


@pytest.mark.parametrize(
    ("written", "remark"),
    [
        ("k2:recurrent", None),
        (
            "recurrent",
            "stops after the first positive chunk, but its threshold was chosen for 2; .* k2:recurrent:model=",
        ),
        ("k3:recurrent", "stops after 3 positive chunks in a row, but its threshold was chosen for 2"),
        ("k3:recurrent:threshold=0.4", None),
        ("silero_vad", None),
    ],
)
def test_another_k_than_trained_for_is_remarked(tmp_path: Path, written: str, remark: str | None) -> None:
    save_recurrent([RecurrentNetwork(MODEL)], TrainSidConfig(model=MODEL, k=2), 0.5, tmp_path / "model")
    text = written if written == "silero_vad" else f"{written}:model={tmp_path}"
    (config,) = parse_detectors(text).values()
    found = remark_other_k(config)
    assert found is None if remark is None else found is not None and re.search(remark, found)


def test_weights_are_the_expectation_over_drawn_crops() -> None:
    crops = CropSettings(an_utterance=1000, near_share=0.5, near_width_s=0.2, min_s=0.04)
    break_s = 1.2
    example = weigh_crops(np.zeros((75, 4, BANDS), np.float32), break_s, crops)
    assert example.weights.sum() == pytest.approx(1.0)
    ends = np.concatenate([draw_ends(make_rng(0, "row", "draw", i), 75 * STEP_S, break_s, crops) for i in range(8)])
    drawn, _ = np.histogram(ends, np.arange(76) * STEP_S)
    for part in (slice(0, 20), slice(20, 30), slice(30, 40), slice(40, 75)):
        assert example.weights[part].sum() == pytest.approx(drawn[part].sum() / len(ends), abs=0.02)
    ends_s = (np.arange(75) + 1) * STEP_S
    np.testing.assert_array_equal(example.targets, label_ends(ends_s, break_s))


def make_row(row_id: str, break_s: float | None) -> dict[str, object]:
    """Return a hum, and from its break on a higher one."""
    samples = make_tone(200, 2.0) + make_noise(2.0, len(row_id), 0.003)
    words = [{"word": "mm", "start_s": 0.3, "end_s": 0.6}]
    if break_s is not None:
        samples[round(break_s * SAMPLING_RATE) :] += make_tone(2000, 2.0)[
            : len(samples) - round(break_s * SAMPLING_RATE)
        ]
        words += [{"word": "go", "start_s": break_s, "end_s": 1.8}]
    index = None if break_s is None else 1
    return {
        "id": row_id,
        "samples": samples,
        "duration_s": 2.0,
        "words": words,
        "total_nonbreak": break_s is None,
        "break_time_s": 2.0 if break_s is None else break_s,
        "break_word_index": index,
        "language": "en",
    }


class Rows:
    """A source of clips in memory."""

    def __init__(self, rows: list[dict[str, object]], shift_words: int = 0) -> None:
        self._clips = [MakeSpokenClip(shift_words)(row, make_rng(0, "", "")) for row in rows]

    def __len__(self) -> int:
        return len(self._clips)

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(clip.samples) / SAMPLING_RATE for clip in self._clips])

    @property
    def groups(self) -> np.ndarray:
        return np.zeros(len(self), np.int64)

    def read(self, numbers: Sequence[int], epoch: int) -> list[SpokenClip]:
        return [self._clips[number] for number in numbers]


def test_example_is_shifted_by_a_word_and_varies_by_epoch() -> None:
    row = make_row("a", 1.0)
    config = TrainSidConfig(model=MODEL, crops=CropSettings(min_s=0.04))
    (held_out,) = RecurrentExamples(Rows([row], 0), config, varies=False).read([0], 3)
    assert held_out.targets.tolist() == [0.0] * 25 + [1.0] * 25
    (late,) = RecurrentExamples(Rows([row], 1), config, varies=False).read([0], 3)
    assert late.targets.sum() == 5  # the break word is the last: from its end at 1.8 s on
    source = RecurrentExamples(Rows([make_row("b", None), row]), config, varies=True)
    first, other = (source.read([1], epoch)[0] for epoch in (0, 1))
    again = pickle.loads(pickle.dumps(source)).read([0, 1], 0)[1]
    np.testing.assert_array_equal(first.steps, again.steps)
    assert first.steps.shape != other.steps.shape
    batch = collate_examples([first, other])
    assert batch["steps"].shape[:2] == batch["weights"].shape
    assert batch["weights"].sum(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


def test_joined_clips_keep_their_words_and_their_pause() -> None:
    before, clip = Rows([make_row("b", None), make_row("a", 1.0)]).read([0, 1], 0)
    joined = join_clips(before, clip, 0.25)
    # The first ends at 0.6 s, the second begins at 0.3 s of its own: at 0.85 s now. Its break is 0.7 s later.
    assert joined.speech_s == pytest.approx((0.3, 0.85 + 1.5))
    assert joined.break_s == pytest.approx(1.55)
    at = round(1.55 * SAMPLING_RATE)
    np.testing.assert_array_equal(joined.samples[at : at + 8000], clip.samples[16000:24000])
    np.testing.assert_array_equal(joined.samples[:9600], before.samples[:9600])


def test_break_moves_with_the_sound() -> None:
    samples = np.zeros(2 * SAMPLING_RATE, np.float32)
    samples[SAMPLING_RATE:] = make_tone(500, 1.0, 0.3)
    for epoch in range(12):
        varied, break_s = augment_clip(samples, SAMPLING_RATE, 1.0, Augmentation(), make_rng(0, "a", "x", epoch))
        assert break_s is not None
        assert np.abs(varied).max() <= 1
        at = round(break_s * SAMPLING_RATE)
        around = np.sqrt([np.mean(part**2) for part in (varied[at - 800 : at], varied[at : at + 800])])
        assert around[1] > 1.5 * around[0]


def test_small_network_learns_where_the_second_sound_begins() -> None:
    config = TrainSidConfig(model=MODEL, crops=CropSettings(shift_words=0, min_s=0.04))
    rows = [make_row("x" * (i + 1), None if i % 3 == 0 else 0.6 + 0.1 * i) for i in range(6)]
    source = RecurrentExamples(Rows(rows), config, varies=True)
    torch.manual_seed(0)
    network = RecurrentNetwork(MODEL)
    optimiser = torch.optim.AdamW(network.parameters(), 0.01)
    losses = []
    for epoch in range(30):
        batch = collate_examples(source.read(range(len(rows)), epoch))
        loss = network(**batch)["loss"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(0.69, abs=0.1)
    assert np.mean(losses[-5:]) < 0.25
    (heard,) = RecurrentExamples(Rows([make_row("y", 1.0)]), config, varies=False).read([0], 0)
    probabilities = score_steps(network, torch.from_numpy(heard.steps)).numpy()
    assert probabilities[5:24].max() < 0.5 < probabilities[30:].min()
