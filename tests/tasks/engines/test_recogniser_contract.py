"""One suite for every recogniser, and what is particular to each."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import librosa
import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.engines import (
    Recogniser,
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    Samples,
    SpeechReply,
    SpeechRequest,
)
from bystander.schemas.recogniser_configs import (
    FakeRecogniserConfig,
    FasterWhisperConfig,
    HallucinationGuards,
    OpenAiWhisperConfig,
    TemperatureFallback,
)
from bystander.schemas.speech_engine_configs import FakeSpeechConfig, KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.fake_speech import (
    FakeRecogniser,
    FakeSpeechEngine,
    SpeechFlaw,
    decode_speech,
    encode_speech,
    flaw_by_seed,
)
from bystander.tasks.engines.faster_whisper import FasterWhisperRecogniser
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.openai_whisper import OpenAiWhisperRecogniser
from whisper_checkpoint import write_checkpoint

TEXT = "Turn the kitchen lights on."


@dataclass(frozen=True)
class Case:
    """A recogniser and a clip of `TEXT` that it should hear."""

    recogniser: Recogniser
    clip: Samples
    sampling_rate: int


def _speak(engine: FakeSpeechEngine | KokoroSpeechEngine, voice: str) -> SpeechReply:
    (reply,) = engine.synthesise([SpeechRequest(TEXT, voice, 3)])
    engine.close()
    assert isinstance(reply, SpeechReply)
    return reply


WHISPERS = ("faster_whisper", "faster_whisper_batched", "openai_whisper")
pytestmark = pytest.mark.filterwarnings(
    # openai-whisper leaves its vocabulary's file to the garbage collector.
    "ignore:.*gpt2.tiktoken:ResourceWarning",
    "ignore:Exception ignored in.*gpt2.tiktoken:pytest.PytestUnraisableExceptionWarning",
)


def _open_whisper(name: str, folder: Path) -> Recogniser:
    resolve = ModelStore().resolve
    if name == "openai_whisper":
        pytest.importorskip("whisper", reason="needs the extra `whisper`")
        checkpoint = write_checkpoint(resolve("whisper-tiny.en-ct2"), folder / "tiny.en.pt")
        return OpenAiWhisperRecogniser(
            OpenAiWhisperConfig(model=str(checkpoint), devices=("cpu",), dtype="float32"), resolve
        )
    many = FasterWhisperConfig(batch_size=4, fallback=TemperatureFallback(), guards=HallucinationGuards())
    return FasterWhisperRecogniser(FasterWhisperConfig() if name == "faster_whisper" else many, resolve)


@pytest.fixture(scope="module", params=["fake", *(pytest.param(name, marks=pytest.mark.models) for name in WHISPERS)])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    recogniser: Recogniser
    if request.param == "fake":
        recogniser = FakeRecogniser(FakeRecogniserConfig())
        reply = _speak(FakeSpeechEngine(FakeSpeechConfig()), "fake_01")
    else:
        recogniser = _open_whisper(request.param, tmp_path_factory.mktemp("whisper"))
        reply = _speak(KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve), "am_michael")
    yield Case(recogniser, reply.samples, reply.sampling_rate)
    recogniser.close()


def _hear(case: Case, *clips: Samples, sampling_rate: int | None = None) -> list[RecognitionReply | RowFault]:
    return case.recogniser.recognise([RecognitionRequest(c, sampling_rate or case.sampling_rate) for c in clips])


def test_fits_the_protocol_and_names_itself(case: Case) -> None:
    assert isinstance(case.recogniser, Recogniser)
    assert case.recogniser.identity.kind == "recogniser"
    assert len(case.recogniser.identity.digest()) == 64


def test_hears_speech_in_order_and_reports_it(case: Case) -> None:
    seen: dict[int, RecognitionReply] = {}
    empty = np.zeros(0, np.float32)
    clips = [RecognitionRequest(clip, case.sampling_rate) for clip in (case.clip, empty, 0.25 * case.clip)]
    replies = case.recogniser.recognise(clips, seen.__setitem__)
    loud, nothing, quiet = replies
    assert isinstance(loud, RecognitionReply)
    assert isinstance(quiet, RecognitionReply)
    assert isinstance(nothing, RowFault)
    assert loud.text == quiet.text == TEXT
    assert nothing.reason == "empty_audio"
    assert seen == {0: loud, 2: quiet}
    assert loud.mean_logprob is not None
    assert -1 < loud.mean_logprob <= 0
    assert loud.no_speech_prob is not None
    assert loud.no_speech_prob < 0.5


def test_hears_the_same_twice_and_at_16_khz(case: Case) -> None:
    (first,) = _hear(case, case.clip)
    assert _hear(case, case.clip) == [first]
    (resampled,) = _hear(case, soxr.resample(case.clip, case.sampling_rate, 16000), sampling_rate=16000)
    assert isinstance(resampled, RecognitionReply)
    assert resampled.text == TEXT


def test_near_silence_is_no_text(case: Case) -> None:
    noise = np.random.Generator(np.random.PCG64(1)).normal(size=48000).astype(np.float32)
    for reply in _hear(case, np.zeros(48000, np.float32), 1e-3 * noise, 1e-5 * np.ones(24000, np.float32)):
        assert isinstance(reply, RecognitionReply)
        assert reply.text == ""


@pytest.mark.parametrize("level", [0.01, 0.3])
def test_noise_is_no_text_for_the_fake(level: float) -> None:
    noise = np.random.Generator(np.random.PCG64(1)).normal(size=48000).astype(np.float32)
    assert decode_speech(np.float32(level) * noise, 24000) == ""


def test_samples_that_are_no_numbers_are_a_row_fault(case: Case) -> None:
    broken = case.clip.copy()
    broken[100] = np.nan
    (reply,) = _hear(case, broken)
    assert isinstance(reply, RowFault)
    assert reply.reason == "non_finite_audio"


@pytest.mark.models
def test_english_only_whisper_refuses_other_languages(case: Case) -> None:
    if not isinstance(case.recogniser, FasterWhisperRecogniser | OpenAiWhisperRecogniser):
        pytest.skip("of Whisper only")
    (reply,) = case.recogniser.recognise([RecognitionRequest(case.clip, case.sampling_rate, "zh")])
    assert isinstance(reply, RowFault)
    assert reply.reason == "unsupported_language"


# ---- the fake's code ----------------------------------------------------------------------------------------


def _trim(samples: Samples, sampling_rate: int) -> Samples:
    trimmed: Samples = librosa.effects.trim(samples, top_db=40)[0]
    return trimmed


def _pass_through_flac(samples: Samples, sampling_rate: int) -> Samples:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, sampling_rate, format="FLAC", subtype="PCM_16")
    buffer.seek(0)
    read: Samples = soundfile.read(buffer, dtype="float32")[0]
    return read


@pytest.mark.parametrize(
    "change",
    [
        _trim,
        _pass_through_flac,
        lambda samples, rate: 0.05 * samples,
        lambda samples, rate: samples / np.abs(samples).max(),
        lambda samples, rate: _pass_through_flac(0.03 * _trim(samples, rate), rate),
    ],
    ids=["trim", "flac", "gain", "peak", "all"],
)
@pytest.mark.parametrize("voice", [0, 17, 31])
def test_fake_text_survives(change: Callable[[Samples, int], Samples], voice: int) -> None:
    text = "Hm, is it 50 or 60? It's Dr. Who's..."
    engine = FakeSpeechEngine(FakeSpeechConfig(voices=32))
    (reply,) = engine.synthesise([SpeechRequest(text, f"fake_{voice:02d}", 0)])
    assert isinstance(reply, SpeechReply)
    assert decode_speech(change(reply.samples, 24000), 24000) == text


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=60).map(str.strip),
    voice=st.integers(0, 31),
    sampling_rate=st.sampled_from([16000, 22050, 24000, 48000]),
)
def test_fake_code_is_read_back_whatever_the_text(text: str, voice: int, sampling_rate: int) -> None:
    code = encode_speech(text, voice) if text else np.zeros(1440, np.float32)
    silence = np.zeros(777, np.float32)
    clip = np.concatenate([silence, code, silence])
    if sampling_rate != 24000:
        clip = soxr.resample(clip, 24000, sampling_rate)
    assert decode_speech(clip, sampling_rate) == text


@pytest.mark.parametrize(
    ("flaw", "heard"),
    [
        (SpeechFlaw.GIBBERISH, "blah blah blah blah blah"),
        (SpeechFlaw.DROPPED_WORD, "the kitchen lights on."),
        (SpeechFlaw.SILENT, ""),
        (SpeechFlaw.LONG_SILENCE, TEXT),
        (SpeechFlaw.CLIPPED, TEXT),
    ],
)
def test_fake_flaws_are_audible(flaw: SpeechFlaw, heard: str) -> None:
    engine = FakeSpeechEngine(FakeSpeechConfig(), flaw_by_seed(flaw, every=2))
    spoiled, sound = engine.synthesise([SpeechRequest(TEXT, "fake_00", seed) for seed in (4, 5)])
    assert isinstance(spoiled, SpeechReply)
    assert isinstance(sound, SpeechReply)
    assert decode_speech(sound.samples, 24000) == TEXT
    assert decode_speech(spoiled.samples, 24000) == heard
    if flaw is SpeechFlaw.LONG_SILENCE:
        assert len(spoiled.samples) / 24000 > 30
    if flaw is SpeechFlaw.CLIPPED:
        assert np.mean(np.abs(spoiled.samples) >= 0.999) > 0.1
