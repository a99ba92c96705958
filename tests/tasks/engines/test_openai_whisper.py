"""The real openai-whisper package on the CPU, with the weights of the model store's tiny.en as its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

whisper = pytest.importorskip("whisper", reason="needs the extra `whisper`")
torch = pytest.importorskip("torch", reason="needs the extra `whisper`")

from alignment_samples import RATE, make_noise, speak  # noqa: E402 - after the packages that it needs
from bystander.schemas.engines import RecognitionReply, RecognitionRequest, RowFault, Samples  # noqa: E402
from bystander.schemas.errors import EngineError, EngineSetupError, ModelStoreError  # noqa: E402
from bystander.schemas.recogniser_configs import OpenAiWhisperConfig, TemperatureFallback  # noqa: E402
from bystander.storage.model_store import ModelStore  # noqa: E402
from bystander.tasks.engines import openai_whisper, whisper_decoding  # noqa: E402
from bystander.tasks.engines.openai_whisper import OpenAiWhisperRecogniser  # noqa: E402
from bystander.tasks.metrics.wer import measure_wer  # noqa: E402
from whisper_checkpoint import write_checkpoint  # noqa: E402

pytestmark = [
    pytest.mark.models,
    # whisper leaves its vocabulary's file to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

TEXTS = ("Turn the kitchen lights on.", "Please call my sister first.", "Please remind me to water the plants.")
EAGER = TemperatureFallback(temperatures=(0.2, 1.0), mean_logprob=-0.01, no_speech_prob=0.99, best_of=2)
"""Falls back although the text is likely."""


@cache
def _clips() -> tuple[Samples, ...]:
    spoken = speak(TEXTS, "am_michael")
    return *spoken, spoken[0] + make_noise(len(spoken[0]) / RATE, 0.05)[: len(spoken[0])]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(
        ModelStore().resolve("whisper-tiny.en-ct2"), tmp_path_factory.mktemp("whisper") / "tiny.en.pt"
    )


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _open(checkpoint: Path, **settings: Any) -> OpenAiWhisperRecogniser:
    given = {"model": str(checkpoint), "devices": ("cpu",), "dtype": "float32", "batch_size": 4, **settings}
    return OpenAiWhisperRecogniser(OpenAiWhisperConfig.model_validate(given), ModelStore().resolve)


def _hear(engine: OpenAiWhisperRecogniser, *clips: Samples) -> list[RecognitionReply]:
    replies = [r for r in engine.recognise([RecognitionRequest(c, RATE) for c in clips]) if not isinstance(r, RowFault)]
    assert len(replies) == len(clips)
    return replies


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Iterator[OpenAiWhisperRecogniser]:
    engine = _open(checkpoint)
    yield engine
    engine.close()


def test_hears_real_speech_and_a_batch_gives_what_each_clip_alone_does(checkpoint: Path) -> None:
    engine = _open(checkpoint, fallback=None)
    batched = _hear(engine, *_clips())
    assert [measure_wer(t, r.text, "en").normalised for t, r in zip(TEXTS, batched, strict=False)] == [0, 0, 0]
    for clip, reply in list(zip(_clips(), batched, strict=True))[2:]:
        (alone,) = _hear(engine, clip)
        assert (alone.text, alone.withheld, alone.temperature) == (reply.text, reply.withheld, reply.temperature)
        assert alone.mean_logprob == pytest.approx(reply.mean_logprob, abs=1e-4)
        assert alone.no_speech_prob == pytest.approx(reply.no_speech_prob, abs=1e-4)
    assert [reply.temperature for reply in batched] == [0.0] * 4
    engine.close()


def test_sampled_texts_are_the_clip_s_own_and_leave_torch_s_generators_alone(checkpoint: Path) -> None:
    clean, *_, noisy = _clips()
    engine = _open(checkpoint, fallback=EAGER, guards=None)
    state = torch.random.get_rng_state()
    both = _hear(engine, clean, noisy)
    assert [reply.temperature for reply in both] == [1.0, 1.0]
    torch.manual_seed(99)
    assert [_hear(engine, clip)[0].text for clip in (clean, noisy)] == [reply.text for reply in both]
    assert both[0].text == TEXTS[0]
    torch.random.set_rng_state(state)
    engine.close()


def test_near_temperature_zero_sampling_is_greedy_search(checkpoint: Path) -> None:
    cold = _open(checkpoint, fallback=EAGER.model_copy(update={"temperatures": (1e-3,)}))
    greedy = _open(checkpoint, fallback=None, beam_size=1)
    (sampled,), (searched,) = _hear(cold, _clips()[1]), _hear(greedy, _clips()[1])
    assert sampled.text == searched.text
    assert sampled.mean_logprob == pytest.approx(searched.mean_logprob, abs=1e-3)
    cold.close()
    greedy.close()


def test_longer_clips_are_transcribed_window_by_window(checkpoint: Path) -> None:
    pause = make_noise(15.0, 3e-4)
    first, second, third, _ = _clips()
    engine = _open(checkpoint, fallback=TemperatureFallback(temperatures=(0.4,), best_of=1), beam_size=1)
    _hear(engine, np.zeros(RATE, np.float32))  # opens it: new weights are drawn before they are read
    state = torch.random.get_rng_state()
    (reply,) = _hear(engine, np.concatenate([first, pause, second, pause, third]))
    assert measure_wer(" ".join(TEXTS), reply.text, "en").normalised == 0
    assert reply.temperature in (0.0, 0.4)
    assert torch.equal(torch.random.get_rng_state(), state)
    engine.close()


def test_too_large_a_batch_is_halved(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _open(checkpoint, fallback=None, beam_size=1)
    decode, sizes = whisper_decoding.decode_windows, []

    def decode_few(model: Any, clips: Any, decoding: Any) -> Any:
        sizes.append(len(clips))
        if len(clips) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return decode(model, clips, decoding)

    monkeypatch.setattr(whisper_decoding, "decode_windows", decode_few)
    most = 2
    assert [reply.text for reply in _hear(engine, *_clips()[:3])] == list(TEXTS)
    assert sizes == [3, 1, 2]
    most = 0
    with pytest.raises(EngineError, match="cpu has too little memory for one clip"):
        _hear(engine, _clips()[0])
    engine.close()


def test_two_devices_share_the_requests(checkpoint: Path, engine: OpenAiWhisperRecogniser) -> None:
    two = _open(checkpoint, devices=("cpu", "cpu"), batch_size=1)
    assert two.identity == engine.identity
    seen: dict[int, RecognitionReply] = {}
    heard = two.recognise([RecognitionRequest(clip, RATE) for clip in _clips()[:3]], seen.__setitem__)
    assert [reply.text for reply in heard if isinstance(reply, RecognitionReply)] == list(TEXTS)
    assert [seen[index] for index in range(3)] == heard
    two.close()


def test_identity_is_the_weights_and_what_changes_the_texts(checkpoint: Path, engine: OpenAiWhisperRecogniser) -> None:
    assert engine.identity.model == "tiny.en.pt"
    assert len(engine.identity.revision) == 64
    others = [_open(checkpoint, **one) for one in ({"fallback": None}, {"guards": None}, {"beam_size": 1})]
    assert len({engine.identity, *(other.identity for other in others)}) == 4
    named = OpenAiWhisperRecogniser(OpenAiWhisperConfig(), ModelStore().resolve)  # nothing is fetched before it listens
    assert (named.identity.model, named.identity.revision) == ("large-v3", f"openai-whisper {whisper.__version__}")


def test_another_version_is_refused(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_whisper, "find_package_version", lambda package: "20240930")
    with pytest.raises(EngineSetupError, match=r"20240930 is installed, but 20250625 is needed; run: pip install"):
        _open(checkpoint)


def test_what_cannot_be_opened_is_said_in_words(checkpoint: Path, tmp_path: Path) -> None:
    def open_and_hear(**settings: Any) -> None:
        _hear(_open(checkpoint, **settings), _clips()[0])

    with pytest.raises(EngineSetupError, match="a CPU cannot compute in float16; set dtype to float32"):
        open_and_hear(dtype="float16")
    with pytest.raises(EngineSetupError, match="'gpu' is no device; name them as cuda:0"):
        open_and_hear(devices=("gpu",))
    if not torch.cuda.is_available():
        with pytest.raises(EngineSetupError, match="finds no GPU for cuda:0; check the driver"):
            open_and_hear(devices=("cuda:0",))
    with pytest.raises(
        EngineSetupError, match=r"no model is called 'large-v9'; give the path of a \.pt or one of: tiny\.en, "
    ):
        open_and_hear(model="large-v9")
    with pytest.raises(ModelStoreError, match=r"no\.pt"):
        _open(checkpoint, model=str(tmp_path / "no.pt"))
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"no checkpoint")
    with pytest.raises(EngineSetupError, match=r"broken\.pt: cannot be opened as an openai-whisper model"):
        open_and_hear(model=str(broken))
