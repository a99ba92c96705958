"""One suite over every text engine: what a stage may rely on, whichever engine it is handed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jsonschema
import pytest
from real_vllm import NEEDS_VLLM, make_real_config, make_tiny_model
from scripted_chat_server import answer_well, serve_script

import fake_vllm
from bystander.schemas.engines import EngineIdentity, Message, RowFault, TextEngine, TextReply, TextRequest
from bystander.schemas.taxonomy import Scenario, ScenarioExample, Taxonomy
from bystander.schemas.text_engine_configs import (
    FakeTextConfig,
    LlamaCppTextConfig,
    OpenAiTextConfig,
    VllmBatchTextConfig,
    VllmTextConfig,
)
from bystander.schemas.text_tasks import NO, YES
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.engines.llama_cpp import LlamaCppTextEngine
from bystander.tasks.engines.openai_text import OpenAiTextEngine
from bystander.tasks.engines.playbook import PlaybookTextEngine
from bystander.tasks.engines.vllm_batch_text import VllmBatchTextEngine
from bystander.tasks.engines.vllm_text import VllmTextEngine

WRITTEN = {
    "type": "object",
    "properties": {
        "primary": {"type": "string", "maxLength": 80},
        "third_party": {"type": "string", "maxLength": 80},
    },
    "required": ["primary", "third_party"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Case:
    """An engine, whether it answers a request exactly alike whatever else is in flight, and requests of any length."""

    engine: TextEngine
    exact: bool = True
    takes_any_length: bool = False


def make_writing_request(request: str = "set a timer for ten minutes", seed: int = 3) -> TextRequest:
    return TextRequest(
        "write_interruption",
        (
            Message("system", "You write two short lines as JSON with the keys primary and third_party."),
            Message("user", f"The request is: {request}"),
        ),
        seed=seed,
        variables={"request": request, "scenario": "endorsement", "timing": "after_completion"},
        reply_schema=WRITTEN,
        max_tokens=120,
    )


def make_option_request(number: int, options: tuple[str, ...] = (YES, NO)) -> TextRequest:
    primary, third = "Set a timer for ten minutes.", f"Make it {['twenty', 'thirty', 'forty', 'fifty'][number % 4]}."
    return TextRequest(
        "label_class" if options == (YES, NO) else "score_ambiguity",
        (Message("system", "You answer with one word."), Message("user", f"{primary} {third} {'/'.join(options)}?")),
        seed=number,
        variables={"primary": primary, "third_party": third, "class": "actionable"}
        if options == (YES, NO)
        else {"primary": primary, "third_party": third},
        options=options,
    )


def make_batch() -> list[TextRequest]:
    return [
        make_writing_request(),
        make_option_request(0),
        make_writing_request("play some jazz in the kitchen"),
        make_option_request(1),
        make_option_request(2, tuple("12345")),
        make_writing_request("what is the capital of norway"),
    ]


def _open_fake(_folder: Path) -> Iterator[Case]:
    scenario = Scenario(
        key="endorsement",
        category="agreement",
        definition="Somebody nearby approves of the request.",
        examples=(ScenarioExample(primary="Play jazz.", third_party="Good idea."),),
    )
    yield Case(
        FakeTextEngine(FakeTextConfig(), taxonomy=Taxonomy(name="t", scenarios=(scenario,))), takes_any_length=True
    )


def _open_playbook(_folder: Path) -> Iterator[Case]:
    yield Case(PlaybookTextEngine())


def _open_openai(_folder: Path) -> Iterator[Case]:
    with serve_script(answer_well) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m", max_in_flight=3))
        yield Case(engine, takes_any_length=True)
        engine.close()


def _open_two_addresses(_folder: Path) -> Iterator[Case]:
    with serve_script(answer_well) as one, serve_script(answer_well) as two:
        addresses = (one.base_url, two.base_url)
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=addresses, model="m", max_in_flight=2))
        yield Case(engine, takes_any_length=True)
        engine.close()


def _open_vllm(folder: Path) -> Iterator[Case]:
    command = (sys.executable, str(Path(__file__).with_name("small_vllm.py")))
    engine = VllmTextEngine(VllmTextConfig(model="tiny", command=command, replicas=2, log_folder=str(folder)))
    yield Case(engine, takes_any_length=True)
    engine.close()


def _open_real_vllm(folder: Path) -> Iterator[Case]:
    engine = VllmTextEngine(make_real_config(make_tiny_model(folder / "tiny")))
    yield Case(engine, exact=False)
    engine.close()


def _open_vllm_batch(_folder: Path) -> Iterator[Case]:
    program = (sys.executable, fake_vllm.__file__)
    engine = VllmBatchTextEngine(VllmBatchTextConfig(model="m", command=program))
    yield Case(engine, takes_any_length=True)
    engine.close()


def _open_llama_cpp(_folder: Path) -> Iterator[Case]:
    config = LlamaCppTextConfig(model="smollm2-135m-instruct-q4_1", slots=2, context_tokens=512)
    engine = LlamaCppTextEngine(config, ModelStore().resolve)
    yield Case(engine, exact=False)
    engine.close()


_OPENERS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "fake": _open_fake,
    "playbook": _open_playbook,
    "openai": _open_openai,
    "two_addresses": _open_two_addresses,
    "vllm": _open_vllm,
    "vllm_batch": _open_vllm_batch,
    "real_vllm": _open_real_vllm,
    "llama_cpp": _open_llama_cpp,
}


@pytest.fixture(
    scope="module",
    params=[
        "fake",
        "playbook",
        "openai",
        "two_addresses",
        "vllm",
        "vllm_batch",
        pytest.param("llama_cpp", marks=pytest.mark.models),
        pytest.param("real_vllm", marks=[pytest.mark.vllm, pytest.mark.timeout(1200), NEEDS_VLLM]),
    ],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    yield from _OPENERS[request.param](tmp_path_factory.mktemp("engine"))


def _check_fits(request: TextRequest, reply: TextReply | RowFault) -> None:
    """Faults are values with a code; replies keep the form that was asked for."""
    if isinstance(reply, RowFault):
        assert reply.reason.replace("_", "").isalpha()
        assert reply.reason.islower()
        return
    if request.options:
        assert reply.option_probs is not None
        assert tuple(reply.option_probs) == request.options
        assert all(0 <= p <= 1 for p in reply.option_probs.values())
        assert sum(reply.option_probs.values()) == pytest.approx(1)
        assert reply.option_source in ("logprobs", "answer")
        assert reply.option_probs[reply.text] == max(reply.option_probs.values())
        assert reply.value is None
    else:
        assert reply.option_probs is None
        assert reply.value is not None
        jsonschema.validate(dict(reply.value), WRITTEN)


def test_is_a_text_engine(case):
    assert isinstance(case.engine, TextEngine)
    identity = case.engine.identity
    assert isinstance(identity, EngineIdentity)
    assert identity.kind == "text"
    assert identity.digest() == case.engine.identity.digest()


def test_as_many_replies_as_requests_in_their_order(case):
    batch = make_batch()
    replies = case.engine.generate(batch)
    assert len(replies) == len(batch)
    for request, reply in zip(batch, replies, strict=True):
        _check_fits(request, reply)
    assert any(isinstance(reply, TextReply) for reply in replies)
    if case.exact:
        backwards = case.engine.generate(batch[::-1])
        assert backwards[::-1] == replies
        assert [case.engine.generate([request])[0] for request in batch] == replies


def test_nothing_asked_nothing_answered(case):
    assert case.engine.generate([]) == []


def test_same_request_same_reply(case):
    request = make_writing_request()
    # One at a time, for which every engine is deterministic; batches may change a server's rounding.
    first, second = case.engine.generate([request]), case.engine.generate([request])
    assert first == second


def test_each_reply_is_reported_once(case):
    heard: list[tuple[int, TextReply]] = []
    batch = make_batch()
    replies = case.engine.generate(batch, lambda index, reply: heard.append((index, reply)))
    expected = [(i, reply) for i, reply in enumerate(replies) if isinstance(reply, TextReply)]
    assert sorted(heard, key=lambda item: item[0]) == expected


def test_two_threads_at_once(case):
    batches = [make_batch(), [make_option_request(i) for i in range(4)]]
    results: list[Sequence[TextReply | RowFault]] = [[], []]

    def call(slot: int) -> None:
        results[slot] = case.engine.generate(batches[slot])

    threads = [threading.Thread(target=call, args=(slot,)) for slot in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch, replies in zip(batches, results, strict=True):
        assert len(replies) == len(batch)
        for request, reply in zip(batch, replies, strict=True):
            _check_fits(request, reply)
        if case.exact:
            assert replies == case.engine.generate(batch)


def test_a_failing_request_fails_alone(case):
    if not case.takes_any_length:
        huge = replace(make_writing_request("play " + "very " * 3000 + "loud music"), seed=1)
    else:
        pytest.skip("takes a request of any length")
    replies = case.engine.generate([make_option_request(0), huge])
    assert isinstance(replies[1], RowFault)
    _check_fits(huge, replies[1])
