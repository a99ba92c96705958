"""The simulated language model: OpenAI's protocol, answers that pass the stages, a capacity that is never exceeded."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bystander.prompts.load import load_pack
from bystander.schemas.engines import Message, RowFault, TextReply, TextRequest
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.text_engine_configs import OpenAiTextConfig
from bystander.simulation.chat_answers import fill_schema
from bystander.simulation.llm_server import MODEL, SimulatedLlm, serve_simulated_llm
from bystander.simulation.llm_speed import LlmSpeed, PrefixCache
from bystander.simulation.marked_pack import MARK, read_mark, write_marked_pack
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.engines.openai_text import OpenAiTextEngine
from bystander.tasks.engines.simulated_slots import measure_utilisation
from bystander.tasks.stages.label_actionability import LABEL_CLASS

FAST = LlmSpeed(slots=4, first_token_s=0.002, prompt_tokens_per_s=1e6, generated_tokens_per_s=1e5)


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_marked_pack("reference", tmp_path_factory.mktemp("pack"))


@pytest.fixture
def served() -> Iterator[tuple[str, SimulatedLlm]]:
    with serve_simulated_llm(FAST) as server:
        yield server


@contextmanager
def opened(base_url: str, model: str = MODEL, **fields: Any) -> Iterator[OpenAiTextEngine]:
    engine = OpenAiTextEngine(OpenAiTextConfig(base_url=base_url, model=model, **fields))
    try:
        yield engine
    finally:
        engine.close()


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bytes(answer.read())


def post(url: str, body: Any) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as exc:
        return exc.code, json.load(exc)


def make_requests(pack: Any, count: int) -> list[TextRequest]:
    """Return requests of every kind that stages make: writing and options."""
    scenarios = load_taxonomy(None).scenarios
    requests = []
    for i in range(count):
        scenario = scenarios[i % len(scenarios)]
        texts = {"request": f"play song {i}", "scenario": scenario, "timing": "within_sentence"}
        requests.append(
            TextRequest(
                "write_interruption",
                pack.messages("write_interruption", texts),
                seed=i,
                variables={**texts, "scenario": scenario.key},
                reply_schema=pack.reply_schema("write_interruption"),
            )
        )
        said = {"primary": f"Play song {i}.", "third_party": f"Not song {i}."}
        requests.append(
            TextRequest(
                LABEL_CLASS.name,
                pack.messages(LABEL_CLASS.name, {**said, "class": pack.classes[0]}),
                seed=i,
                variables={**said, "class": pack.classes[0].key},
                options=pack.answers(LABEL_CLASS.name),
            )
        )
    return requests


@pytest.mark.parametrize("logprobs", [True, False])
def test_engine_gets_the_answers_of_the_fake_over_http(marked: Any, served: Any, logprobs: bool) -> None:
    base_url, llm = served
    requests = make_requests(marked, 6)
    with opened(base_url, logprobs=logprobs) as engine:
        replies = engine.generate(requests)
    for request, reply, expected in zip(requests, replies, FakeTextEngine().generate(requests), strict=True):
        assert isinstance(reply, TextReply)
        assert isinstance(expected, TextReply)
        assert reply.value == expected.value
        assert reply.text == expected.text
        assert reply.option_source == (("logprobs" if logprobs else "answer") if request.options else None)
        if reply.option_probs and logprobs:
            assert reply.option_probs == pytest.approx(expected.option_probs)
        assert reply.completion_tokens >= 1
    assert llm.totals.answered == len(requests)


def test_never_more_at_work_than_slots_and_as_many_asked_as_may_be(marked: Any, served: Any) -> None:
    base_url, llm = served
    with opened(base_url, max_in_flight=10) as engine:
        threads = [threading.Thread(target=engine.generate, args=(make_requests(marked, 20),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert FAST.slots < llm.totals.most_open <= 10
    spans = llm.slots.spans
    assert all(sum(s <= start < e for s, e in spans) <= FAST.slots for start, _ in spans)
    assert (llm.totals.open, llm.totals.answered) == (0, 80)


def test_neighbours_share_their_beginnings(marked: Any) -> None:
    """Requests whose prompts begin alike come one after the other: a small memory of beginnings then does.

    Every scenario has a prompt of its own here, and the memory holds no two of them.
    """
    requests = make_requests(marked, 52)[::2]
    mixed = [*requests[::2], *requests[1::2]]
    speed = FAST.model_copy(update={"prefix_blocks": 40})
    with serve_simulated_llm(speed) as (base_url, llm):
        with opened(base_url, max_in_flight=1) as engine:
            engine.generate(mixed)
        ordered = llm.totals.cached_tokens
    prompts = ["\n".join(f"{message.role}: {message.content}" for message in request.messages) for request in mixed]
    in_order, as_given = PrefixCache(speed), PrefixCache(speed)
    assert ordered == sum(map(in_order.admit, sorted(prompts))) > sum(map(as_given.admit, prompts))


def test_protocol_around_it(served: Any) -> None:
    base_url, _ = served
    root = base_url.removesuffix("/v1")
    assert json.loads(get(f"{base_url}/models"))["data"][0]["id"] == MODEL
    assert get(f"{root}/health") == b""
    assert json.loads(get(f"{root}/occupancy"))["utilisation"] is None
    ask = {"model": MODEL, "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 3}
    status, answer = post(base_url, ask)
    assert (status, answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]) == (200, "length", 3)
    assert b"simulated_llm_answered 1\n" in get(f"{root}/metrics")
    found = json.loads(get(f"{root}/occupancy"))
    [[start, end]] = found["spans"]
    assert found["utilisation"] == pytest.approx(measure_utilisation([(start, end)], 4, start, end)) == 0.25
    for body in ({}, [], {"model": MODEL, "messages": []}, {"model": MODEL, "messages": [3]}):
        assert post(base_url, body)[0] == 400
    assert post(base_url, {**ask, "model": "qwen"})[0] == 404
    with opened(base_url, "qwen") as engine, pytest.raises(EngineSetupError, match="it serves simulated, not 'qwen'"):
        engine.generate([TextRequest("t", (Message("user", "Hi"),), seed=1)])


def test_thinking_takes_its_time_and_is_set_apart() -> None:
    speed = FAST.model_copy(update={"reasoning_tokens": 50})
    request = TextRequest("t", (Message("user", "Hi"),), seed=1, max_tokens=40)
    with serve_simulated_llm(speed) as (base_url, llm):
        with opened(base_url, reasoning_tokens=50) as engine:
            [reply] = engine.generate([request])
        with opened(base_url) as engine:
            [cut] = engine.generate([request])
    assert isinstance(reply, TextReply)
    assert reply.reasoning
    assert reply.completion_tokens > 50
    assert isinstance(cut, RowFault)
    assert cut.reason == "reply_too_long"
    durations = [end - start for start, end in llm.slots.spans]
    assert durations[0] == pytest.approx(speed.time_request(1, 0, reply.completion_tokens), abs=1e-3)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": ["x", "y"]}}},
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}, "t": {"type": "boolean"}}},
        {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "number"}, "minItems": 2}}},
    ],
)
def test_what_is_not_marked_is_filled_in(schema: dict[str, Any]) -> None:
    jsonschema.validate(fill_schema({**schema, "required": list(schema["properties"])}), schema)


def test_marked_prompts_are_the_packs_own_with_a_line_at_the_end(marked: Any) -> None:
    plain = load_pack("reference")
    scenario = load_taxonomy(None).scenarios[0]
    texts = {"request": 'say "=== user" {{ now }}', "scenario": scenario, "timing": "after_completion"}
    before = plain.messages("write_interruption", texts)
    after = marked.messages("write_interruption", texts)
    assert after[:-1] == before[:-1]
    assert after[-1].content.startswith(before[-1].content + "\n" + MARK)
    assert read_mark(after[-1].content + "\n\nYour last answer could not be read.") == {
        "task": "write_interruption",
        "variables": {**texts, "scenario": scenario.key},
    }
    assert read_mark("no mark") is None
    assert read_mark(MARK + "{") is None


def test_copy_of_a_copy_is_refused_nothing(tmp_path: Path) -> None:
    """Any pack can be copied, a marked one too: only the last mark counts."""
    first = write_marked_pack("reference", tmp_path / "a")
    second = write_marked_pack(str(tmp_path / "a"), tmp_path / "b")
    texts = {"primary": "Play it.", "third_party": "No."}
    assert read_mark(second.messages("score_ambiguity", texts)[-1].content) == read_mark(
        first.messages("score_ambiguity", texts)[-1].content
    )


@pytest.mark.parametrize("name", ["household", "strict_primary"])
def test_packs_with_examples_and_other_classes_are_marked_too(tmp_path: Path, name: str) -> None:
    pack = write_marked_pack(name, tmp_path / "pack")
    texts = {"primary": "Play it.", "third_party": "No.", "kind": ""}
    for item in pack.classes:
        messages = pack.messages("write_reply", {**texts, "class": item})
        mark = read_mark(messages[-1].content)
        assert mark == {"task": "write_reply", "variables": {**texts, "class": item.key, "conduct": item.conduct}}
        assert len(messages) > 4
