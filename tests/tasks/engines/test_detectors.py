"""What is particular to one detector or another."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.detector_configs import (
    EnergyVadConfig,
    FakeDetectorConfig,
    FsmnVadConfig,
    KConsecutiveConfig,
    LexiconWordsConfig,
    SileroVadConfig,
    SmartTurnConfig,
    TenVadConfig,
    WebrtcVadConfig,
)
from bystander.schemas.engines import EngineIdentity, RecognitionReply, RowFault, Samples
from bystander.schemas.errors import EngineError, EngineSetupError, ModelStoreError
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines import detector_registry, smart_turn_detector, ten_vad_detector
from bystander.tasks.engines.energy_vad_detector import EnergyVadDetector
from bystander.tasks.engines.fake_detector import FakeDetector
from bystander.tasks.engines.fsmn_vad_detector import FsmnVadDetector
from bystander.tasks.engines.k_consecutive_detector import KConsecutiveDetector
from bystander.tasks.engines.lexicon_words_detector import LexiconWordsDetector
from bystander.tasks.engines.metered_detector import ComputeTotals, MeteredDetector
from bystander.tasks.engines.silero_vad_detector import SileroVadDetector
from bystander.tasks.engines.smart_turn_detector import SmartTurnDetector, compute_features
from bystander.tasks.engines.ten_vad_detector import TenVadDetector
from bystander.tasks.engines.webrtc_vad_detector import WebrtcVadDetector
from bystander.tasks.stages.detect_breaks import find_stop

RATE = 16000


def make_noise(seconds: float, level_dbfs: float, seed: int = 1) -> Samples:
    values = np.random.Generator(np.random.PCG64(seed)).normal(0, 10 ** (level_dbfs / 20), round(seconds * RATE))
    return values.astype(np.float32)


class ScriptedDetector:
    """Says of the n-th chunk of 1,600 samples what the n-th letter of its script says: `x` to stop."""

    identity = EngineIdentity("detector", "scripted", "script", "1")
    sampling_rate, chunk_samples = RATE, 1600

    def __init__(self, script: str) -> None:
        self.script = script
        self.closed = False

    def open_stream(self) -> Any:
        letters = iter(self.script)

        class Stream:
            def accept(self, chunk: Samples) -> bool:
                return next(letters) == "x"

        return Stream()

    def close(self) -> None:
        self.closed = True


def read_script(detector: Any, chunks: int) -> str:
    stream = detector.open_stream()
    return "".join("x" if stream.accept(np.full(1600, 0.1, np.float32)) else "." for _ in range(chunks))


# ---- energy --------------------------------------------------------------------------------------------------


def test_energy_stops_at_the_third_loud_frame() -> None:
    clip = np.concatenate([np.zeros(RATE, np.float32), make_noise(1, -20)])
    assert find_stop(clip, RATE, EnergyVadDetector(EnergyVadConfig())) == pytest.approx(1.06)
    five = EnergyVadDetector(EnergyVadConfig(frames_to_trigger=5, frame_ms=10))
    assert find_stop(clip, RATE, five) == pytest.approx(1.05)


def test_energy_takes_steady_noise_for_its_floor_and_hears_what_rises_above_it() -> None:
    detector = EnergyVadDetector(EnergyVadConfig())
    noise = make_noise(4, -38)
    assert find_stop(noise, RATE, detector) is None
    noise[2 * RATE : 3 * RATE] += make_noise(1, -22, seed=2)
    assert find_stop(noise, RATE, detector) == pytest.approx(2.06)


def test_energy_hears_a_clip_that_begins_with_speech() -> None:
    assert find_stop(make_noise(1, -20), RATE, EnergyVadDetector(EnergyVadConfig())) == pytest.approx(0.06)


@given(levels=st.lists(st.floats(-80, 0), min_size=1, max_size=60), window=st.integers(1, 8))
def test_energy_floor_is_the_lowest_level_of_the_window(levels: list[float], window: int) -> None:
    stream = EnergyVadDetector(EnergyVadConfig(floor_window_s=window * 0.02)).open_stream()
    floors = [stream._track_floor(level) for level in levels]
    assert floors == [min(levels[max(0, i - window + 1) : i + 1]) for i in range(len(levels))]


# ---- what is laid around detectors --------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "expected"), [(1, "x.xx.xxxx"), (2, "...x..xxx"), (3, ".......xx"), (5, ".........")])
def test_k_counts_positives_in_a_row(k: int, expected: str) -> None:
    inner = ScriptedDetector("x.xx.xxxx")
    detector = KConsecutiveDetector(KConsecutiveConfig(k=k, of=FakeDetectorConfig()), inner)
    assert read_script(detector, 9) == expected
    detector.close()
    assert inner.closed


def test_k_is_another_detector_for_another_k_or_inner_setting() -> None:
    digests = {
        KConsecutiveDetector(KConsecutiveConfig(k=k, of=of), FakeDetector(of)).identity.digest()
        for k in (2, 3)
        for of in (FakeDetectorConfig(), FakeDetectorConfig(level=0.3))
    }
    assert len(digests) == 4


def test_meter_changes_nothing_and_counts_on_every_thread() -> None:
    inner = ScriptedDetector("..x")
    metered = MeteredDetector(inner)
    assert metered.totals == ComputeTotals()
    assert metered.totals.real_time_factor is None
    assert metered.identity is inner.identity
    threads = [threading.Thread(target=read_script, args=(metered, 3)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_script(metered, 3) == "..x"
    assert metered.totals.clips == 5
    assert metered.totals.heard_s == pytest.approx(5 * 0.3)
    assert metered.totals.real_time_factor is not None


# ---- smart-turn ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def turn_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of smart-turn's interface that takes a turn for finished when the mean of its features is below 0."""
    from onnx import TensorProto, helper, save

    nodes = [
        helper.make_node("ReduceMean", ["input_features"], ["mean"], axes=[1, 2], keepdims=0),
        helper.make_node("Neg", ["mean"], ["negative"]),
        helper.make_node("Sigmoid", ["negative"], ["probability"]),
        helper.make_node("Unsqueeze", ["probability", "one"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "turn",
        [helper.make_tensor_value_info("input_features", TensorProto.FLOAT, ["s", 80, 800])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["s", 1])],
        [helper.make_tensor("one", TensorProto.INT64, [1], [1])],
    )
    path = tmp_path_factory.mktemp("turn") / "turn.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.mark.parametrize(("threshold", "expected"), [(0.01, ".....xx...xxx"), (0.99, "." * 13)])
def test_smart_turn_is_asked_once_a_pause_and_holds_until_the_next_speech(
    turn_model: Path, monkeypatch: pytest.MonkeyPatch, threshold: float, expected: str
) -> None:
    config = SmartTurnConfig(model=str(turn_model), pause_s=0.2, threshold=threshold)
    vad = ScriptedDetector("..xx...xx....")
    detector = SmartTurnDetector(config, Path, vad)
    heard: list[int] = []
    monkeypatch.setattr(
        smart_turn_detector, "compute_features", lambda audio: heard.append(len(audio)) or compute_features(audio)
    )
    assert read_script(detector, 13) == expected
    assert heard == [6 * 1600, 11 * 1600]  # all so far: the speech began less than half a second after the clip
    detector.close()
    assert vad.closed


def test_smart_turn_hears_half_a_second_before_the_speech_and_eight_in_all(
    turn_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    monkeypatch.setattr(
        smart_turn_detector, "compute_features", lambda audio: heard.append(len(audio)) or compute_features(audio)
    )
    script = "." * 20 + "x.." + "x" * 90 + ".."
    detector = SmartTurnDetector(SmartTurnConfig(model=str(turn_model)), Path, ScriptedDetector(script))
    read_script(detector, len(script))
    assert heard == [8000 + 3 * 1600, 8 * RATE]


def test_smart_turn_never_stops_before_speech(turn_model: Path) -> None:
    detector = SmartTurnDetector(SmartTurnConfig(model=str(turn_model)), Path, ScriptedDetector("." * 20))
    assert read_script(detector, 20) == "." * 20


def test_smart_turn_is_given_whispers_features_of_eight_seconds_that_end_now() -> None:
    tone = (0.5 * np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE)).astype(np.float32)
    features = compute_features(tone)
    assert features.shape == (80, 800)
    assert features.dtype == np.float32
    assert features.max() - features.min() == pytest.approx(2)  # 8 decades of power, a quarter each
    # 80 bands up to 8 kHz on Slaney's scale, where 1 kHz is 15 of 45.2 mel: band 81 * 15 / 45.2 - 1.
    assert features[:, 750].argmax() == 26
    np.testing.assert_allclose(features[:, :690], features[:, :1].repeat(690, axis=1), atol=1e-5)
    assert (features[26, 702:] > features[26, 0] + 1).all()
    np.testing.assert_allclose(compute_features(0.1 * tone), features, atol=1e-3)  # the level is normalised away


def test_smart_turn_needs_a_vad_of_its_rate(turn_model: Path) -> None:
    vad = ScriptedDetector("")
    vad.sampling_rate = 8000
    with pytest.raises(EngineSetupError, match="hears 8000 Hz"):
        SmartTurnDetector(SmartTurnConfig(model=str(turn_model)), Path, vad)


# ---- models --------------------------------------------------------------------------------------------------


@pytest.mark.models
@pytest.mark.parametrize("chunk_ms", [10, 60, 250])
def test_fsmn_says_the_same_of_a_frame_whatever_the_chunks(chunk_ms: int) -> None:
    clip = np.concatenate([make_noise(0.3, -60), make_noise(0.5, -15, seed=2), make_noise(0.2, -50, seed=3)])
    whole = FsmnVadDetector(FsmnVadConfig(), ModelStore().resolve).open_stream().measure(clip)
    detector = FsmnVadDetector(FsmnVadConfig(chunk_ms=chunk_ms), ModelStore().resolve)
    stream, size = detector.open_stream(), detector.chunk_samples
    parts = [stream.measure(clip[i : i + size]) for i in range(0, len(clip), size)]
    assert len(whole) == (len(clip) - 400) // 160 + 1 - 2  # the last two frames wait for what follows
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)


@pytest.mark.models
def test_fsmn_starts_where_enough_of_the_last_frames_are_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    detector = FsmnVadDetector(FsmnVadConfig(window_ms=50, speech_ms=30), ModelStore().resolve)
    stream = detector.open_stream()
    answers = iter([[0.1], [0.19, 0.21], [0.9, 0.0], [0.0], [0.9, 0.9, 0.9, 0.9]])
    monkeypatch.setattr(stream, "measure", lambda chunk: np.array(next(answers)))
    assert [stream.accept(np.zeros(960, np.float32)) for _ in range(5)] == [False, False, True, True, False]


def test_folders_that_hold_no_fsmn_vad_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EngineSetupError, match=r"config\.yaml: cannot be read"):
        FsmnVadDetector(FsmnVadConfig(model=str(tmp_path)), Path)
    (tmp_path / "config.yaml").write_text("encoder_conf: 3")
    with pytest.raises(EngineSetupError, match="no configuration of an FSMN-VAD"):
        FsmnVadDetector(FsmnVadConfig(model=str(tmp_path)), Path)
    (tmp_path / "config.yaml").write_text("encoder_conf: {fsmn_layers: 4, proj_dim: 128, lorder: 20}")
    (tmp_path / "am.mvn").write_text("<AddShift> 2 2\n<LearnRateCoef> 0 [ 1 2 ]\n")
    with pytest.raises(EngineSetupError, match="does not hold 400 shifts"):
        FsmnVadDetector(FsmnVadConfig(model=str(tmp_path)), Path)


def test_models_of_another_kind_are_told_at_the_first_chunk(turn_model: Path, tmp_path: Path) -> None:
    stream = SileroVadDetector(SileroVadConfig(model=str(turn_model)), Path).open_stream()
    with pytest.raises(EngineError, match="the model failed"):
        stream.accept(np.zeros(512, np.float32))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    stream = SileroVadDetector(SileroVadConfig(model=str(broken)), Path).open_stream()
    with pytest.raises(EngineSetupError, match="cannot be opened as an ONNX model"):
        stream.accept(np.zeros(512, np.float32))
    with pytest.raises(ModelStoreError, match=r"no model 'nope'"):
        SileroVadDetector(SileroVadConfig(model="nope"), ModelStore(tmp_path).resolve)


# ---- packages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("webrtcvad", lambda: WebrtcVadDetector(WebrtcVadConfig())),
        ("ten_vad", lambda: TenVadDetector(TenVadConfig())),
    ],
)
def test_missing_package_is_named(module: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EngineSetupError, match="is missing; run: pip install"):
        make()


@pytest.mark.skipif(sys.platform != "linux", reason="only its Linux library needs one of the system")
def test_missing_library_of_ten_vad_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ten_vad")
    monkeypatch.setattr(ten_vad_detector, "_LIBRARY", "libnothing.so.1")
    with pytest.raises(EngineSetupError, match="apt-get install"):
        TenVadDetector(TenVadConfig())


def test_every_detector_has_its_adapter_where_the_registry_says() -> None:
    for module, name in detector_registry._ADAPTERS.values():
        assert callable(detector_registry._find_adapter(module, name))


def test_importing_the_registry_loads_no_engine_package() -> None:
    packages = ("onnxruntime", "webrtcvad", "ten_vad", "faster_whisper", "kaldi_native_fbank", "scipy")
    code = f"import sys, bystander.tasks.engines.detector_registry; print([m for m in {packages} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# ---- words ---------------------------------------------------------------------------------------------------


class ScriptedRecogniser:
    """Answers with the next transcript of its script; keeps how many samples it was given."""

    identity = EngineIdentity("recogniser", "scripted", "script", "1")

    def __init__(self, *replies: RecognitionReply | RowFault | str) -> None:
        self.replies = iter(RecognitionReply(r) if isinstance(r, str) else r for r in replies)
        self.heard: list[int] = []

    def recognise(self, requests: Any, on_reply: Any = None) -> list[Any]:
        self.heard += [len(request.samples) for request in requests]
        return [next(self.replies) for _ in requests]

    def close(self) -> None: ...


def make_words(script: str, *replies: RecognitionReply | RowFault | str, **settings: Any) -> tuple[Any, Any]:
    recogniser = ScriptedRecogniser(*replies)
    config = LexiconWordsConfig(**{"step_s": 0.3, "transcripts_to_trigger": 1, **settings})
    return LexiconWordsDetector(config, recogniser, ScriptedDetector(script)), recogniser


def test_words_pass_over_backchannels_and_stop_at_new_intent() -> None:
    detector, recogniser = make_words("..xxx..xxxxxx", "mm", "mm hmm", "mm hmm wait", "mm hmm wait stop")
    assert read_script(detector, 13) == "............x"
    assert recogniser.heard == [5 * 1600, 7 * 1600, 10 * 1600, 13 * 1600]


def test_last_words_count_at_a_pause_only() -> None:
    detector, _ = make_words("xxx..", "stop", "stop")
    assert read_script(detector, 5) == "....x"
    eager, _ = make_words("xxx..", "stop", "stop", hold_back_words=0)
    assert read_script(eager, 5) == "..xxx"


def test_backchannels_alone_never_stop_it_and_silence_is_not_transcribed() -> None:
    detector, recogniser = make_words("xx......", "yeah")
    assert read_script(detector, 8) == "." * 8
    assert len(recogniser.heard) == 1


def test_words_in_doubt_count_as_none_and_transcripts_must_agree() -> None:
    doubts = [
        RecognitionReply("call my sister", no_speech_prob=0.9),
        RecognitionReply("call my sister", mean_logprob=-1.2),
    ]
    detector, _ = make_words("x" * 6, *doubts)
    assert read_script(detector, 6) == "." * 6
    twice, _ = make_words("x" * 12, "go to bed", "yeah", "go to bed", "go to bed now", transcripts_to_trigger=2)
    assert read_script(twice, 12) == "...........x"


def test_a_recogniser_that_cannot_hear_the_language_is_an_error() -> None:
    detector, _ = make_words("xxx", RowFault("unsupported_language", "hears en only, not zh"), language="zh")
    with pytest.raises(EngineError, match="unsupported_language: hears en only"):
        read_script(detector, 3)
