"""One suite for every detector of interruptions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soxr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bystander.schemas.detection import Detector
from bystander.schemas.detector_configs import parse_detectors
from bystander.schemas.engines import Samples, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.detector_registry import open_detector
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.stages.detect_breaks import find_stop, listen

pytestmark = pytest.mark.models

RATE = 16000
LEAD_S = 0.5
NAMES = (
    "energy_vad",
    "webrtc_vad",
    "silero_vad",
    "ten_vad",
    "fsmn_vad",
    "smart_turn",
    "fake_detector",
    "k3:silero_vad",
    "k2:energy_vad",
)


@pytest.fixture(scope="module")
def clip() -> Samples:
    """Half a second of silence, speech, and as much silence as `smart_turn` asks for, at 16 kHz."""
    engine = KokoroSpeechEngine(KokoroSpeechConfig(sessions=1), ModelStore().resolve)
    (reply,) = engine.synthesise([SpeechRequest("Wait, take the train.", "af_heart", 1)])
    engine.close()
    assert isinstance(reply, SpeechReply)
    speech = soxr.resample(reply.samples, reply.sampling_rate, RATE)
    loud = speech * np.float32(0.9 / np.max(np.abs(speech)))
    silence = np.zeros(round(LEAD_S * RATE), np.float32)
    return np.concatenate([silence, loud, silence])


@pytest.fixture(scope="module", params=NAMES)
def detector(request: pytest.FixtureRequest) -> Iterator[Detector]:
    (config,) = parse_detectors(request.param).values()
    try:
        opened = open_detector(config, ModelStore().resolve)
    except EngineSetupError as exc:
        if request.param != "ten_vad":  # its package is an extra, and needs a library of the system
            raise
        pytest.skip(str(exc))
    yield opened
    opened.close()


def _decide(samples: Samples, rate: int, detector: Detector) -> list[bool]:
    return [stops for _, stops in listen(samples, rate, detector)]


def _split(samples: Samples, detector: Detector) -> list[Samples]:
    return [samples[i : i + detector.chunk_samples] for i in range(0, len(samples), detector.chunk_samples)]


def test_fits_the_protocol_and_names_itself(detector: Detector) -> None:
    assert isinstance(detector, Detector)
    assert detector.identity.kind == "detector"
    assert detector.identity.revision
    assert detector.sampling_rate >= 8000
    assert 0.005 <= detector.chunk_samples / detector.sampling_rate <= 0.1


def test_stops_for_loud_speech_once_it_has_begun(detector: Detector, clip: Samples) -> None:
    stop_s = find_stop(clip, RATE, detector)
    assert stop_s is not None
    assert LEAD_S < stop_s <= len(clip) / RATE


def test_says_the_same_of_the_same_clip(detector: Detector, clip: Samples) -> None:
    first = _decide(clip, RATE, detector)
    _decide(-clip[::-1], RATE, detector)  # what was heard in between leaves nothing behind
    assert _decide(clip, RATE, detector) == first


@pytest.mark.parametrize("seconds", [0.0, 1 / RATE, 0.004, 0.1, 3.0])
def test_silence_of_any_length_never_stops_it(detector: Detector, seconds: float) -> None:
    assert find_stop(np.zeros(round(seconds * RATE), np.float32), RATE, detector) is None


def test_near_silence_never_stops_it(detector: Detector) -> None:
    hiss = np.random.Generator(np.random.PCG64(1)).normal(0, 10 ** (-80 / 20), 3 * RATE).astype(np.float32)
    assert find_stop(hiss, RATE, detector) is None


@pytest.mark.parametrize("samples", [1, 7, 200])
def test_very_short_clips_of_speech_are_heard_without_fault(detector: Detector, clip: Samples, samples: int) -> None:
    assert len(_decide(clip[RATE : RATE + samples], RATE, detector)) == 1


def test_streams_know_nothing_of_each_other(detector: Detector, clip: Samples) -> None:
    chunks, others = _split(clip, detector), _split(clip[::-1].copy(), detector)
    alone = [_decide(clip, RATE, detector), _decide(clip[::-1].copy(), RATE, detector)]
    stream, other = detector.open_stream(), detector.open_stream()
    pairs = [(stream.accept(a), other.accept(b)) for a, b in zip(chunks, others, strict=True)]
    assert [list(answers) for answers in zip(*pairs, strict=True)] == alone


def test_streams_may_run_on_several_threads(detector: Detector, clip: Samples) -> None:
    with ThreadPoolExecutor(4) as pool:
        stops = list(pool.map(lambda _: find_stop(clip, RATE, detector), range(4)))
    assert stops == [find_stop(clip, RATE, detector)] * 4


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1), rate=st.sampled_from([RATE, 8000, 44100]))
def test_never_hears_ahead(detector: Detector, clip: Samples, share: float, rate: int) -> None:
    whole = clip if rate == RATE else soxr.resample(clip, RATE, rate)
    cut = round(share * len(whole))
    heard = list(listen(whole, rate, detector))
    known = [stops for end_s, stops in heard[:-1] if end_s <= cut / rate]
    assert _decide(whole[:cut], rate, detector)[: len(known)] == known


@pytest.mark.parametrize("rate", [8000, 48000])
def test_clips_of_other_rates_are_resampled(detector: Detector, clip: Samples, rate: int) -> None:
    expected = find_stop(clip, RATE, detector)
    stop_s = find_stop(soxr.resample(clip, RATE, rate), rate, detector)
    assert expected is not None
    assert stop_s is not None
    assert abs(stop_s - expected) <= 0.15


def test_stops_at_the_end_of_a_chunk(detector: Detector, clip: Samples) -> None:
    chunk_s = detector.chunk_samples / detector.sampling_rate
    stop_s = find_stop(clip, RATE, detector)
    assert stop_s is not None
    assert stop_s / chunk_s == pytest.approx(round(stop_s / chunk_s))


def test_words_of_a_real_recogniser_stop_it_without_hearing_ahead(clip: Samples) -> None:
    (config,) = parse_detectors("lexicon_words:step_s=0.6:transcripts_to_trigger=1").values()
    detector = open_detector(config, ModelStore().resolve)
    stop_s = find_stop(clip, RATE, detector)
    assert stop_s is not None
    assert LEAD_S < stop_s < len(clip) / RATE
    assert find_stop(clip[: round(stop_s * RATE)], RATE, detector) == stop_s
    assert find_stop(np.zeros(RATE, np.float32), RATE, detector) is None
    detector.close()
