"""One text engine over several servers: balanced, one lost, one back, none left."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from pydantic import ValidationError
from scripted_chat_server import Scripted, answer_well, serve_script

from bystander.schemas.engine_configs import OpenAiAudioConfig
from bystander.schemas.engines import Message, RowFault, TextReply, TextRequest
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError
from bystander.schemas.text_engine_configs import LlamaCppTextConfig, OpenAiTextConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.llama_cpp import LlamaCppServer
from bystander.tasks.engines.openai_text import OpenAiTextEngine

NOWHERE = "http://127.0.0.1:9/v1"
SLOW = lambda body, n: Scripted(answer_well(body, n).content, delay_s=0.01)  # noqa: E731


def ask(text: str, system: str = "Be brief.", **fields: object) -> TextRequest:
    return TextRequest("write_line", (Message("system", system), Message("user", text)), seed=5, **fields)  # type: ignore[arg-type]


@contextmanager
def open_engine(*addresses: str, **fields: object) -> Iterator[OpenAiTextEngine]:
    engine = OpenAiTextEngine(OpenAiTextConfig(base_url=addresses, model="m", **fields))  # type: ignore[arg-type]
    engine.endpoints.probe_pauses_s = (0.005,)
    try:
        yield engine
    finally:
        engine.close()


def texts_of(replies: Sequence[TextReply | RowFault]) -> list[str]:
    assert all(isinstance(reply, TextReply) for reply in replies)
    return [reply.text for reply in replies if isinstance(reply, TextReply)]


def test_requests_are_balanced_and_the_bound_is_each_servers_own():
    requests = [ask(str(i)) for i in range(40)]
    with serve_script(SLOW) as one, serve_script(SLOW) as two:
        with open_engine(one.base_url, two.base_url, max_in_flight=3) as engine:
            texts = texts_of(engine.generate(requests))
        with open_engine(one.base_url) as engine:
            assert texts_of(engine.generate(requests)) == texts  # whoever answers
        served = (len(one.bodies) - 40, len(two.bodies))
        assert sum(served) == 40
        assert min(served) >= 15
        assert two.most_open <= 3


def test_prompts_that_begin_alike_go_to_one_server():
    requests = [ask(str(i), system="AB"[i % 2]) for i in range(60)]
    with serve_script(SLOW) as one, serve_script(SLOW) as two:
        with open_engine(one.base_url, two.base_url, max_in_flight=4) as engine:
            engine.generate(requests)
        seen = [[body["messages"][0]["content"] for body in server.bodies] for server in (one, two)]
    # Only at the end one helps the other out.
    assert seen[0].count("A") >= 26
    assert seen[1].count("B") >= 26


def test_one_that_nobody_listens_at_is_left_out(caplog):
    with serve_script(answer_well) as server, open_engine(NOWHERE, server.base_url, max_retries=0) as engine:
        assert len(texts_of(engine.generate([ask(str(i)) for i in range(6)]))) == 6
        assert len(server.bodies) == 6
    assert f"text engine at {NOWHERE} is left out: it cannot be reached" in caplog.text


def test_one_that_dies_is_left_out_and_comes_back():
    with serve_script(answer_well) as staying, ExitStack() as stack:
        with serve_script(answer_well) as dying:
            port = dying.port
            engine = stack.enter_context(open_engine(dying.base_url, staying.base_url, max_retries=0))
            texts_of(engine.generate([ask(str(i)) for i in range(8)]))
            assert dying.bodies
        assert len(texts_of(engine.generate([ask(str(i)) for i in range(8)]))) == 8
        assert [end.fault is None for end in engine.endpoints.endpoints] == [False, True]
        with serve_script(answer_well, port=port) as back:
            waited = threading.Event()
            while engine.endpoints.endpoints[0].fault is not None:
                waited.wait(0.005)
            texts_of(engine.generate([ask(str(i)) for i in range(8)]))
            assert back.bodies


def test_one_that_breaks_off_in_the_middle_of_its_requests():
    """Connections that are cut cost the row nothing: another server answers it."""
    script = lambda body, n: Scripted(body=b"", headers={"Content-Length": "10"})  # noqa: E731 - less than announced
    with serve_script(script) as broken, serve_script(answer_well) as well:
        with open_engine(broken.base_url, well.base_url, max_retries=2) as engine:
            assert len(texts_of(engine.generate([ask(str(i)) for i in range(6)]))) == 6
        assert broken.bodies


def test_an_overloaded_one_gives_its_requests_to_another():
    busy = lambda body, n: Scripted(status=503, headers={"retry-after-ms": "1"})  # noqa: E731
    with serve_script(busy) as one, serve_script(answer_well) as two:
        with open_engine(one.base_url, two.base_url, max_retries=0) as engine:
            assert len(texts_of(engine.generate([ask(str(i)) for i in range(6)]))) == 6
        assert one.bodies
        assert len(two.bodies) == 6


def test_all_lost_is_worth_another_try():
    with open_engine(NOWHERE, "http://127.0.0.1:1/v1", max_retries=0) as engine:
        with pytest.raises(EngineUnavailableError, match="none of its 2 addresses can be used") as caught:
            engine.generate([ask("a"), ask("b")])
        assert NOWHERE in str(caught.value)
        assert "http://127.0.0.1:1/v1" in str(caught.value)


def test_one_that_serves_another_model_is_named():
    with serve_script(answer_well, models=["m"]) as one, serve_script(answer_well, models=["a", "b"]) as two:
        words = rf"text engine at {two.base_url}: it serves a, b, not 'm'"
        with open_engine(one.base_url, two.base_url) as engine, pytest.raises(EngineSetupError, match=words):
            engine.generate([ask("a")])
        assert not one.bodies


def test_one_that_comes_back_with_another_model_stays_out():
    with serve_script(answer_well, models=["m"]) as staying, ExitStack() as stack:
        with serve_script(answer_well, models=["m"]) as dying:
            port = dying.port
            engine = stack.enter_context(open_engine(dying.base_url, staying.base_url, max_retries=0))
            texts_of(engine.generate([ask("a"), ask("b")]))
        texts_of(engine.generate([ask(str(i)) for i in range(4)]))
        with serve_script(answer_well, models=["other"], port=port) as back:
            waited = threading.Event()
            while "it serves other, not 'm'" not in (engine.endpoints.endpoints[0].fault or ""):
                waited.wait(0.005)
            texts_of(engine.generate([ask(str(i)) for i in range(4)]))
            assert not back.bodies


def test_all_get_the_key(monkeypatch):
    monkeypatch.setenv("TEST_KEY_OF_MANY", "open sesame")
    with serve_script(answer_well) as one, serve_script(answer_well) as two:
        with open_engine(one.base_url, two.base_url, api_key_env="TEST_KEY_OF_MANY") as engine:
            engine.generate([ask(str(i)) for i in range(8)])
        assert set(one.keys) == set(two.keys) == {"Bearer open sesame"}


def test_tokens_are_counted_by_server():
    with (
        serve_script(answer_well) as one,
        serve_script(answer_well) as two,
        open_engine(one.base_url, two.base_url) as engine,
    ):
        engine.generate([ask(str(i)) for i in range(8)])
        ends = engine.endpoints.endpoints
        assert [end.answered for end in ends] == [len(one.bodies), len(two.bodies)]
        assert sum(end.prompt_tokens for end in ends) == 8 * 7


def test_addresses_are_no_part_of_the_identity():
    def identify(base_url: str | tuple[str, ...]) -> str:
        return OpenAiTextEngine(OpenAiTextConfig(base_url=base_url, model="m")).identity.digest()

    assert identify("http://a/v1") == identify(("http://a/v1", "http://b/v1")) == identify(("http://c/v1",))


@pytest.mark.parametrize("config", [OpenAiTextConfig, OpenAiAudioConfig])
@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ((), "name at least one address"),
        (("http://a/v1", " "), "an address is empty"),
        ("", "an address is empty"),
        (("http://a/v1", "http://b/v1", "http://a/v1/"), "the same address twice: http://a/v1"),
    ],
)
def test_wrong_addresses(config, base_url, words):
    with pytest.raises(ValidationError, match=words):
        config(base_url=base_url, model="m")


@pytest.mark.models
def test_two_embedded_servers_of_which_one_stops():
    model = ModelStore().resolve("smollm2-135m-instruct-q4_1")
    config = LlamaCppTextConfig(model="smollm2-135m-instruct-q4_1", slots=2, context_tokens=512)
    one, two = LlamaCppServer(config), LlamaCppServer(config)
    requests = [ask(f"Say {i}.", options=("Yes", "No")) for i in range(8)]
    try:
        with open_engine(one.start(model), two.start(model), max_in_flight=2, max_retries=1) as engine:
            engine.generate(requests)
            answered = [end.answered for end in engine.endpoints.endpoints]
            assert min(answered) >= 2
            one.close()
            assert len(texts_of(engine.generate(requests))) == 8
            assert engine.endpoints.endpoints[0].fault is not None
            assert engine.endpoints.endpoints[1].answered >= answered[1] + 8
    finally:
        one.close()
        two.close()
