"""One suite over every system that can be evaluated: what the stage may rely on, whichever it is handed."""

from __future__ import annotations

import importlib.util
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scripted_chat_server import Scripted, serve_script

from bystander.prompts.load import load_pack
from bystander.schemas.engine_configs import (
    FakeCandidateConfig,
    OpenAiAudioConfig,
    PredictionsConfig,
    StandInConfig,
    TransformersAudioConfig,
)
from bystander.schemas.engines import AnswerReply, AnswerRequest, CandidateEngine, EngineIdentity, RowFault
from bystander.schemas.text_engine_configs import FakeTextConfig, PlaybookTextConfig
from bystander.tasks.engines.cached import CachedCandidate
from bystander.tasks.engines.registry import open_candidate, open_text_engine

PACK = load_pack("reference")
HEARS = ("fake", "openai_audio", "cached", "transformers_audio")
"""Engines that are models: nothing but the clip and the seed may reach them."""
_MISSING = [name for name in ("torch", "transformers", "accelerate") if importlib.util.find_spec(name) is None]


@dataclass(frozen=True)
class Case:
    name: str
    engine: CandidateEngine


def make_request(number: int, rate: int = 16000) -> AnswerRequest:
    samples = 0.4 * np.sin(2 * np.pi * (200 + 150 * number) * np.arange(rate // 2) / rate)
    primary = ("Ring the pizza place on the corner.", "What is the capital of Austria?")[number % 2]
    return AnswerRequest(
        id=f"row-{number}",
        samples=samples.astype(np.float32),
        sampling_rate=rate,
        seed=number,
        variables={
            "primary": primary,
            "primary_complete": primary,
            "third_party": "You read my mind.",
            "label": "ignorable",
            "reply": f"The bench's reply {number}.",
            "n_speakers": "2",
            "test": "tpi_test",
        },
    )


BATCH = [make_request(number) for number in range(5)]


def _open(config, writer=None):
    return open_candidate(config, lambda name: name, writer, PACK)  # type: ignore[arg-type, return-value]


def _open_fake(_folder) -> Iterator[CandidateEngine]:
    yield _open(FakeCandidateConfig())


def _open_policy(_folder) -> Iterator[CandidateEngine]:
    yield _open(StandInConfig(kind="policy"))


def _open_transcript(_folder) -> Iterator[CandidateEngine]:
    yield _open(StandInConfig(kind="transcript"), open_text_engine(PlaybookTextConfig(), None))  # type: ignore[arg-type]


def _open_ignore_second(_folder) -> Iterator[CandidateEngine]:
    yield _open(StandInConfig(kind="ignore_second"), open_text_engine(FakeTextConfig(), None))  # type: ignore[arg-type]


def _open_predictions(folder) -> Iterator[CandidateEngine]:
    path = folder / "p.jsonl"
    path.write_text("".join(json.dumps({"id": r.id, "reply": f"On {r.id}."}) + "\n" for r in BATCH[:-1]))
    yield _open(PredictionsConfig(path=str(path)))


def _open_openai_audio(_folder) -> Iterator[CandidateEngine]:
    def answer(body, _number):
        clip = body["messages"][-1]["content"][0]["input_audio"]["data"]
        return Scripted(f"Heard {zlib.crc32(clip.encode())} with seed {body['seed']}.")

    with serve_script(answer) as server:
        engine = _open(OpenAiAudioConfig(base_url=server.base_url, model="m", max_in_flight=2))
        yield engine
        engine.close()


def _open_cached(_folder) -> Iterator[CandidateEngine]:
    class DictCache(dict[str, bytes]):
        def put(self, key, value):
            self[key] = value

    yield CachedCandidate(_open(FakeCandidateConfig()), DictCache())


def _open_transformers_audio(folder) -> Iterator[CandidateEngine]:
    from tiny_audio_model import save_qwen2_audio

    engine = _open(TransformersAudioConfig(model=str(save_qwen2_audio(folder)), max_tokens=8))
    yield engine
    engine.close()


_OPENERS: dict[str, Callable[..., Iterator[CandidateEngine]]] = {
    "fake": _open_fake,
    "policy": _open_policy,
    "transcript": _open_transcript,
    "ignore_second": _open_ignore_second,
    "predictions": _open_predictions,
    "openai_audio": _open_openai_audio,
    "cached": _open_cached,
    "transformers_audio": _open_transformers_audio,
}


@pytest.fixture(scope="module", params=list(_OPENERS))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    if request.param == "transformers_audio" and _MISSING:
        pytest.skip(f"the extra transformers lacks {', '.join(_MISSING)}")
    for engine in _OPENERS[request.param](tmp_path_factory.mktemp(request.param)):
        yield Case(request.param, engine)


def test_is_a_candidate(case):
    assert isinstance(case.engine, CandidateEngine)
    identity = case.engine.identity
    assert isinstance(identity, EngineIdentity)
    assert identity.kind == "candidate"
    assert identity.digest() == case.engine.identity.digest()
    json.dumps(identity.describe(), allow_nan=False)


def test_as_many_replies_as_requests_in_their_order(case):
    replies = case.engine.answer(BATCH)
    assert len(replies) == len(BATCH)
    assert any(isinstance(reply, AnswerReply) for reply in replies)
    for reply in replies:
        if isinstance(reply, RowFault):
            assert reply.reason.replace("_", "").isalpha()
            assert reply.reason.islower()
        else:
            assert reply.text.strip()
    assert case.engine.answer(BATCH[::-1])[::-1] == replies
    assert [case.engine.answer([request])[0] for request in BATCH] == replies


def test_nothing_asked_nothing_answered(case):
    assert case.engine.answer([]) == []


def test_each_reply_is_reported_once(case):
    heard: list[tuple[int, AnswerReply]] = []
    replies = case.engine.answer(BATCH, lambda index, reply: heard.append((index, reply)))
    expected = [(i, reply) for i, reply in enumerate(replies) if isinstance(reply, AnswerReply)]
    assert sorted(heard, key=lambda item: item[0]) == expected


def test_two_threads_at_once(case):
    results = [[], []]

    def call(slot: int) -> None:
        results[slot] = case.engine.answer(BATCH[slot:])

    threads = [threading.Thread(target=call, args=(slot,)) for slot in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [case.engine.answer(BATCH), case.engine.answer(BATCH[1:])]


def test_a_model_hears_the_clip_and_sees_nothing_of_the_row(case):
    if case.name not in HEARS:
        pytest.skip("reads the row: it is no model")
    told = [replace(request, id="other", variables={}) for request in BATCH]
    assert case.engine.answer(told) == case.engine.answer(BATCH)
    swapped = [replace(request, samples=BATCH[-1 - i].samples) for i, request in enumerate(BATCH)]
    assert case.engine.answer(swapped) != case.engine.answer(BATCH)


def test_what_reads_the_row_does_not_hear(case):
    if case.name in HEARS:
        pytest.skip("hears: it is a model")
    deaf = [replace(request, samples=np.zeros(4, np.float32), seed=99) for request in BATCH]
    assert case.engine.answer(deaf) == case.engine.answer(BATCH)
