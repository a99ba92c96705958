"""The engine over real vLLM on the CPU, with a random model of 100,000 parameters.

    BYSTANDER_VLLM=path/to/vllm-environment/bin/vllm pytest -m vllm tests/tasks/engines/test_real_vllm.py

`envs/vllm-cpu` makes such an environment. The texts are noise: what is tested is that vLLM takes what we send, and that
we read what it sends.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import jsonschema
import psutil
import pytest
from real_vllm import NEEDS_VLLM, make_real_config, make_tiny_model

from bystander.schemas.engines import Message, RowFault, TextReply, TextRequest
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.text_engine_configs import OpenAiTextConfig
from bystander.tasks.engines.openai_text import OpenAiTextEngine
from bystander.tasks.engines.vllm_text import VllmTextEngine

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200), NEEDS_VLLM]
SCHEMA = {
    "type": "object",
    "properties": {
        # A model that writes noise ends a text only where it must.
        "line": {"type": "string", "minLength": 4, "maxLength": 20},
        "score": {"type": "integer", "enum": [1, 2, 3]},
    },
    "required": ["line", "score"],
    "additionalProperties": False,
}
CONSTANT = "You write one line. " * 40


def ask(text: str, seed: int = 5, **fields: object) -> TextRequest:
    given = {"reply_schema": SCHEMA, "max_tokens": 100, **fields}
    messages = (Message("system", CONSTANT), Message("user", text))
    return TextRequest("write_line", messages, seed=seed, **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("vllm") / "tiny-qwen3")


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[VllmTextEngine]:
    engine = VllmTextEngine(make_real_config(model, replicas=2, max_in_flight=4))
    engine.generate([ask("start")])
    assert engine.client is not None
    engine.client.endpoints.probe_pauses_s = (0.2,)
    processes = [
        process
        for replica in engine.servers.replicas
        if replica.pid
        for process in (psutil.Process(replica.pid), *psutil.Process(replica.pid).children(recursive=True))
    ]
    assert len(processes) >= 6  # a guard, a server and an engine each
    yield engine
    engine.close()
    assert not psutil.wait_procs(processes, timeout=30)[1]


def read_metric(address: str, name: str) -> float:
    with urlopen(f"{address.removesuffix('/v1')}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^vllm:{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def test_json_fits_its_schema(engine):
    replies = engine.generate([ask(str(i), seed=i) for i in range(24)])
    for reply in replies:
        assert isinstance(reply, TextReply)
        assert reply.value is not None
        jsonschema.validate(dict(reply.value), SCHEMA)
        assert reply.prompt_tokens > 100


def test_options_are_measured(engine):
    replies = engine.generate([ask(f"{i}: A or B?", options=("A", "B"), reply_schema=None) for i in range(4)])
    for reply in replies:
        assert isinstance(reply, TextReply)
        assert reply.option_source == "logprobs"
        assert reply.option_probs is not None
        assert sum(reply.option_probs.values()) == pytest.approx(1)
    # A word of several tokens is none of this model's first tokens: it is asked for an answer.
    [reply] = engine.generate([ask("?", options=("sunday", "saturday"), reply_schema=None)])
    assert isinstance(reply, TextReply)
    assert reply.text in ("sunday", "saturday")


def test_the_seed_decides_whichever_server_answers(engine):
    requests = [ask("the same", seed=seed) for seed in range(6)]
    replies = engine.generate(requests)
    assert len({reply.text for reply in replies if isinstance(reply, TextReply)}) > 1
    for address in engine.servers.addresses:
        alone = OpenAiTextEngine(
            OpenAiTextConfig(base_url=address, model=engine.identity.model, max_in_flight=1),
            api_key=engine.servers.api_key,
            use_proxies=False,
        )
        assert alone.generate(requests) == replies
        alone.close()


def test_the_beginning_of_a_prompt_is_computed_once(engine):
    before = [
        (read_metric(address, "prefix_cache_queries_total"), read_metric(address, "prefix_cache_hits_total"))
        for address in engine.servers.addresses
    ]
    engine.generate([ask(f"request {i}", seed=i) for i in range(32)])
    queries = hits = 0.0
    for address, (queries_before, hits_before) in zip(engine.servers.addresses, before, strict=True):
        queries += read_metric(address, "prefix_cache_queries_total") - queries_before
        hits += read_metric(address, "prefix_cache_hits_total") - hits_before
    assert hits / queries > 0.8
    endpoints = engine.client.endpoints.endpoints
    assert sum(end.cached_tokens for end in endpoints) > 0.5 * sum(end.prompt_tokens for end in endpoints)


def test_a_request_that_is_too_long_is_a_fault_of_its_own(engine):
    replies = engine.generate([ask("a"), ask("very " * 3000)])
    assert isinstance(replies[0], TextReply)
    assert isinstance(replies[1], RowFault)
    assert replies[1].reason == "request_refused"


def test_a_server_that_is_killed_is_stood_in_for_and_comes_back(engine):
    requests = [ask(str(i), seed=i) for i in range(40)]
    first, second = engine.client.endpoints.endpoints
    lost = engine.servers.replicas[0]
    killed = threading.Event()

    def kill(index: int, reply: TextReply) -> None:
        if not killed.is_set():
            killed.set()
            psutil.Process(lost.pid).children()[0].kill()

    before = second.answered
    replies = engine.generate(requests, kill)
    assert all(isinstance(reply, TextReply) for reply in replies)
    assert second.answered - before >= 20
    assert lost.deaths == 1
    waited = threading.Event()
    while not (lost.healthy and first.fault is None):
        assert lost.failure is None
        waited.wait(0.2)
    before = first.answered
    assert engine.generate(requests) == replies
    assert first.answered > before


def test_what_the_log_says_of_a_wrong_setting(model):
    engine = VllmTextEngine(make_real_config(model, extra_args=("--no-such-setting", "1")))
    with pytest.raises(EngineSetupError, match="no-such-setting"):
        engine.generate([ask("a")])
    engine.close()


def test_thoughts_are_kept_apart_from_the_answer(model):
    """The random model begins to think, and ends it where it happens to: the answer is held to the schema only then."""
    thinker = VllmTextEngine(
        make_real_config(model, reasoning_parser="deepseek_r1", reasoning_tokens=1500, max_in_flight=8)
    )
    try:
        replies = thinker.generate([ask(str(i), seed=i) for i in range(16)])
        hasty = OpenAiTextEngine(
            OpenAiTextConfig(base_url=thinker.servers.addresses, model=str(model), reasoning_tokens=8),
            api_key=thinker.servers.api_key,
            use_proxies=False,
        )
        cut = hasty.generate([ask(str(i), seed=i, max_tokens=4) for i in range(4)])
        hasty.close()
    finally:
        thinker.close()
    answers = [reply for reply in replies if isinstance(reply, TextReply)]
    assert answers
    for reply in answers:
        jsonschema.validate(dict(reply.value or {}), SCHEMA)
        assert reply.reasoning
        assert "</think>" not in reply.text
    for fault in [reply for reply in (*replies, *cut) if isinstance(reply, RowFault)]:
        assert fault.reason in ("reply_too_long", "empty_reply")
    details = [fault.detail for fault in cut if isinstance(fault, RowFault)]
    assert any("thought for all of its 12 tokens and gave no answer" in detail for detail in details)
