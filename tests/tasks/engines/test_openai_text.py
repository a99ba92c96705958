from __future__ import annotations

import math
import threading

import pytest
from scripted_chat_server import Script, Scripted, answer_well, serve_script

from bystander.schemas.engines import Message, RowFault, TextReply, TextRequest
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError
from bystander.schemas.text_engine_configs import OpenAiTextConfig
from bystander.tasks.engines.chat_reply import loops_white_space, split_thinking
from bystander.tasks.engines.openai_text import OpenAiTextEngine
from bystander.tasks.engines.request_lanes import split_into_lanes

SCHEMA = {
    "type": "object",
    "properties": {"line": {"type": "string", "maxLength": 20}},
    "required": ["line"],
    "additionalProperties": False,
}
AT_ONCE = {"retry-after-ms": "1"}


def ask(text: str = "Say it.", **fields: object) -> TextRequest:
    return TextRequest("write_line", (Message("system", "Be brief."), Message("user", text)), seed=5, **fields)  # type: ignore[arg-type]


def run(script: Script, *requests: TextRequest, **config: object) -> tuple[list[TextReply | RowFault], list[dict]]:
    with serve_script(script) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m", **config))  # type: ignore[arg-type]
        try:
            return engine.generate(requests), server.bodies
        finally:
            engine.close()


def in_turn(*answers: Scripted) -> Script:
    return lambda _body, number: answers[min(number, len(answers) - 1)]


def test_sends_what_the_request_says():
    [reply], [body] = run(
        in_turn(Scripted('{"line": "Hi."}')), ask(reply_schema=SCHEMA, max_tokens=33, temperature=0.4, top_p=0.8)
    )
    assert reply == TextReply('{"line": "Hi."}', value={"line": "Hi."}, prompt_tokens=7, completion_tokens=3)
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say it."}]
    assert (body["model"], body["seed"], body["max_tokens"], body["temperature"], body["top_p"]) == (
        "m",
        5,
        33,
        0.4,
        0.8,
    )
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "write_line", "strict": True, "schema": SCHEMA},
    }


def test_seed_fits_into_what_servers_take():
    request = TextRequest("t", (Message("user", "Hi"),), seed=2**63 - 1)
    _, [body] = run(answer_well, request)
    assert 0 <= body["seed"] < 2**31


@pytest.mark.parametrize("status", [429, 500, 503])
def test_waits_out_an_overloaded_server(status):
    [reply], bodies = run(
        in_turn(Scripted(status=status, headers=AT_ONCE), Scripted(status=status, headers=AT_ONCE), Scripted("Fine.")),
        ask(),
    )
    assert isinstance(reply, TextReply)
    assert reply.text == "Fine."
    assert len(bodies) == 3


def test_gives_up_after_the_retries():
    calls = []

    def fail(body, number):
        calls.append(number)
        return Scripted(status=503, headers=AT_ONCE)

    with pytest.raises(EngineUnavailableError, match="answers 503 after 2 retries") as caught:
        run(fail, ask(), max_retries=2)
    assert caught.value.retryable
    assert len(calls) == 3


def test_timeout_is_retryable():
    with pytest.raises(EngineUnavailableError, match=r"no answer within 0\.1 s"):
        run(in_turn(Scripted("late", delay_s=0.5)), ask(), timeout_s=0.1, max_retries=0)


def test_nobody_listens():
    with serve_script(answer_well) as server:
        gone = server.base_url
    engine = OpenAiTextEngine(OpenAiTextConfig(base_url=gone, model="m", max_retries=0))
    with pytest.raises(EngineUnavailableError, match="cannot be reached"):
        engine.generate([ask()])
    engine.close()


@pytest.mark.parametrize(
    ("status", "said"), [(401, "api_key_env"), (403, "api_key_env"), (404, "no model 'm'"), (405, "405")]
)
def test_setup_errors_say_what_to_do(status, said):
    with pytest.raises(EngineSetupError, match=said):
        run(in_turn(Scripted(status=status)), ask())


def test_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("TEST_KEY_OF_TEXT", "open sesame")
    with serve_script(answer_well) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m", api_key_env="TEST_KEY_OF_TEXT"))
        engine.generate([ask()])
        engine.close()
        assert server.keys == ["Bearer open sesame"]
    monkeypatch.delenv("TEST_KEY_OF_TEXT")
    with pytest.raises(EngineSetupError, match="set the environment variable TEST_KEY_OF_TEXT"):
        OpenAiTextEngine(OpenAiTextConfig(base_url="http://127.0.0.1:1/v1", model="m", api_key_env="TEST_KEY_OF_TEXT"))


def test_refused_request_is_a_fault_of_its_row_alone():
    def script(body, number):
        if "long" in body["messages"][-1]["content"]:
            return Scripted(status=400, error="context too long")
        return Scripted("Fine.")

    replies, _ = run(script, ask("a"), ask("long"), ask("b"))
    assert [type(reply) for reply in replies] == [TextReply, RowFault, TextReply]
    assert replies[1] == RowFault("request_refused", replies[1].detail)
    assert "context too long" in replies[1].detail


def test_reply_cut_off_is_not_asked_again():
    [reply], bodies = run(in_turn(Scripted('{"line": "and so', finish_reason="length")), ask(reply_schema=SCHEMA))
    assert isinstance(reply, RowFault)
    assert (reply.reason, reply.raw_output) == ("reply_too_long", '{"line": "and so')
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("bad", "finish", "detail"),
    [
        ("Sure! Here you are", "stop", "not JSON"),
        ('["line"]', "stop", "not a JSON object"),
        ('{"line": 3}', "stop", "does not fit the schema"),
        ('{"line": "far too long for the schema"}', "stop", "does not fit the schema"),
        ('{"line": "x"' + " \n" * 60, "length", "loop of white space"),
    ],
)
def test_one_repair_then_a_fault(bad, finish, detail):
    [reply], bodies = run(in_turn(Scripted(bad, finish)), ask(reply_schema=SCHEMA))
    assert isinstance(reply, RowFault)
    assert (reply.reason, reply.raw_output) == ("unparsable_reply", bad)
    assert detail in reply.detail
    assert len(bodies) == 2
    assert bodies[1]["seed"] == bodies[0]["seed"] + 1
    assert [m["role"] for m in bodies[1]["messages"]] == ["system", "user"]
    assert "JSON object" in bodies[1]["messages"][1]["content"]


def test_repair_can_succeed():
    [reply], _ = run(in_turn(Scripted("oops"), Scripted('{"line": "Hi."}')), ask(reply_schema=SCHEMA))
    assert isinstance(reply, TextReply)
    assert reply.repaired
    assert reply.value == {"line": "Hi."}
    assert (reply.prompt_tokens, reply.completion_tokens) == (14, 6)


def test_fences_and_raw_control_characters_are_read():
    [reply], _ = run(in_turn(Scripted('```json\n{"line": "a\tb"}\n```')), ask(reply_schema=SCHEMA))
    assert isinstance(reply, TextReply)
    assert reply.value == {"line": "a\tb"}
    assert not reply.repaired


@pytest.mark.parametrize("content", ["", "  \n", "<think>never ends"])
def test_empty_reply(content):
    [reply], _ = run(in_turn(Scripted(content)), ask())
    assert isinstance(reply, RowFault)
    assert reply.reason == "empty_reply"


@pytest.mark.parametrize(
    "answer", [b"<html>It works!</html>", b'{"error": "x"}', b"[]", b'{"choices": []}', b'{"choices": [{}]}']
)
def test_wrong_kind_of_server(answer):
    with pytest.raises(EngineSetupError, match="no chat completion"):
        run(in_turn(Scripted(body=answer)), ask())


@pytest.mark.parametrize(
    "answer",
    [
        Scripted("<think>Let me see.</think>\nYes."),
        Scripted("Let me see.</think>Yes."),
        Scripted("Yes.", extra={"reasoning_content": "Let me see."}),
        Scripted("Yes.", extra={"reasoning": "Let me see."}),
    ],
)
def test_thinking_is_split_off(answer):
    [reply], _ = run(in_turn(answer), ask())
    assert isinstance(reply, TextReply)
    assert (reply.text, reply.reasoning) == ("Yes.", "Let me see.")


@pytest.mark.parametrize(
    ("content", "answer", "thinking"),
    [
        ("Yes.", "Yes.", None),
        ("<think>a</think>b", "b", "a"),
        ("\n<think>\na\n</think>\n\nb\n", "b", "a"),
        ("a</think>b", "b", "a"),  # the template has put the opening tag into the prompt
        ("<think>\n\n</think>\n\nb", "b", ""),  # a model that may think and does not
        ("<think>a", "", "a"),
        ("<think>a</think>", "", "a"),
        ("a</think>", "", "a"),
        ("<think>a</think><think>b</think>c", "c", "a\nb"),
        ("<think>a</think> <think>b", "", "a\nb"),
        ("<think>a</think>b</think>c", "b</think>c", "a"),
        ('<think>{"x": 1}</think>{"x": 2}', '{"x": 2}', '{"x": 1}'),
        ('{"x": 1}</think>{"x": 2}', '{"x": 2}', '{"x": 1}'),
        ('{"x": "</think>"}', '{"x": "</think>"}', None),
        ("", "", None),
    ],
)
def test_what_is_thought_and_what_is_said(content, answer, thinking):
    assert split_thinking(content) == (answer, thinking)


@pytest.mark.parametrize(
    ("content", "loops"),
    [
        ('{"x": 1' + " " * 50, True),
        ("<think>a" + " " * 50 + "</think>b", False),
        ("<think>a" + " " * 50, False),
        ("<think>a</think>{" + "\n" * 50, True),
        ("a b\n\n\nc", False),
    ],
)
def test_loops_of_white_space_are_looked_for_in_the_answer(content, loops):
    assert loops_white_space(content) is loops


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (Scripted("<think>so, if", "length"), "thought for all of its 296 tokens and gave no answer; raise `reason"),
        (Scripted("", "length", extra={"reasoning_content": "so, if"}), "thought for all of its 296 tokens and gave"),
        (Scripted("so, if", "length"), "does not end within 296 tokens, nor do thoughts in it"),
        (Scripted('<think>so</think>{"line": "a', "length"), "the reply does not end within 296 tokens"),
    ],
)
def test_thinking_that_takes_all_tokens_is_told_from_a_long_answer(answer, detail):
    [reply], bodies = run(in_turn(answer), ask(reply_schema=SCHEMA), reasoning_tokens=40)
    assert isinstance(reply, RowFault)
    assert reply.reason == "reply_too_long"
    assert detail in reply.detail
    assert reply.raw_output is not None
    assert "so" in reply.raw_output
    assert len(bodies) == 1


def test_model_that_only_thinks():
    [reply], _ = run(in_turn(Scripted("", extra={"reasoning": "hm"})), ask(), reasoning_tokens=40)
    assert reply == RowFault("empty_reply", "the model thought and answered nothing", "<think>hm")


def test_reasoning_model_that_may_not_think_is_told_once(caplog):
    """vLLM without a reasoning parser holds the first token to the schema."""
    script = in_turn(Scripted('{"line": "Hi."}'))
    replies, _ = run(script, *[ask(str(i), reply_schema=SCHEMA) for i in range(3)], reasoning_tokens=40)
    assert all(isinstance(reply, TextReply) for reply in replies)
    assert caplog.text.count("vLLM lets it think only with --reasoning-parser") == 1
    caplog.clear()
    run(in_turn(Scripted('<think>hm</think>{"line": "Hi."}')), ask(reply_schema=SCHEMA), reasoning_tokens=40)
    run(in_turn(Scripted('{"line": "Hi."}')), ask(reply_schema=SCHEMA))
    assert "reasoning" not in caplog.text


def test_options_are_measured_and_spellings_summed():
    tokens = [("Yes", math.log(0.4)), (" yes", math.log(0.2)), ("No", math.log(0.2)), ("Well", math.log(0.1))]
    [reply], [body] = run(in_turn(Scripted("Yes", logprobs=tokens)), ask(options=("Yes", "No")))
    assert isinstance(reply, TextReply)
    assert reply.option_source == "logprobs"
    assert reply.option_probs == pytest.approx({"Yes": 0.75, "No": 0.25})
    assert reply.text == "Yes"
    assert (body["max_tokens"], body["temperature"], body["logprobs"], body["top_logprobs"]) == (1, 0, True, 20)


def test_option_that_is_not_listed_gets_less_than_the_least():
    tokens = [("1", math.log(0.5)), ("2", math.log(0.3)), ("x", math.log(0.1))]
    [reply], _ = run(in_turn(Scripted("1", logprobs=tokens)), ask(options=("1", "2", "3")))
    assert isinstance(reply, TextReply)
    assert sum(reply.option_probs.values()) == pytest.approx(1)
    assert 0 < reply.option_probs["3"] < 0.1 * reply.option_probs["1"]


@pytest.mark.parametrize(
    "first",
    [
        Scripted("x"),  # no log-probabilities
        Scripted("x", logprobs=[("Hm", -0.1)]),  # none of the options
        Scripted("x", logprobs=[("<think>", 0.0), ("Yes", -14.0), ("Yep", -15.0)]),
        Scripted("x", logprobs=[("Y", -0.1)]),  # begins both
        Scripted(status=400, error="logprobs are not supported"),
    ],
)
def test_options_fall_back_to_an_answer(first):
    [reply], bodies = run(in_turn(first, Scripted('{"answer": "Yep"}')), ask(options=("Yes", "Yep")))
    assert isinstance(reply, TextReply)
    assert (reply.text, reply.option_source, reply.option_probs) == ("Yep", "answer", {"Yes": 0.0, "Yep": 1.0})
    assert bodies[1]["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"] == ["Yes", "Yep"]
    assert bodies[1]["temperature"] == 0


def test_server_without_logprobs_is_asked_for_them_once():
    script = lambda body, _: Scripted("x" if body.get("logprobs") else '{"answer": "No"}')  # noqa: E731
    replies, bodies = run(script, *[ask(str(i), options=("Yes", "No")) for i in range(5)], max_in_flight=1)
    assert [reply.option_source for reply in replies] == ["answer"] * 5
    assert sum(bool(body.get("logprobs")) for body in bodies) == 1


def test_logprobs_can_be_turned_off():
    [reply], [body] = run(in_turn(Scripted('{"answer": "No"}')), ask(options=("Yes", "No")), logprobs=False)
    assert reply.option_probs == {"Yes": 0.0, "No": 1.0}
    assert "logprobs" not in body


def test_in_flight_is_bounded_over_all_threads():
    script = lambda body, n: Scripted("ok", delay_s=0.02)  # noqa: E731
    with serve_script(script) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m", max_in_flight=3))
        threads = [
            threading.Thread(target=engine.generate, args=([ask(f"{t} {i}") for i in range(10)],)) for t in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.close()
        assert len(server.bodies) == 20
        assert 2 <= server.most_open <= 3


def test_replies_before_a_breakdown_are_reported():
    kept: list[int] = []
    script = lambda body, n: Scripted("ok") if n < 2 else Scripted(status=503, headers=AT_ONCE)  # noqa: E731
    with serve_script(script) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m", max_in_flight=1, max_retries=1))
        with pytest.raises(EngineUnavailableError):
            engine.generate([ask(str(i)) for i in range(9)], lambda index, _: kept.append(index))
        assert len(server.bodies) == 4
        engine.close()
    assert kept == [0, 1]


def test_closed_engine_says_so():
    with serve_script(answer_well) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m"))
        engine.generate([ask()])
        before = threading.active_count()
        engine.close()
        engine.close()
        assert threading.active_count() < before
        with pytest.raises(EngineSetupError, match="was closed"):
            engine.generate([ask()])


def test_closing_ends_a_call_in_another_thread():
    faults: list[BaseException] = []
    arrived = threading.Event()

    def script(body, number):
        arrived.set()
        return Scripted("late", delay_s=0.3)

    with serve_script(script) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m"))

        def call():
            try:
                engine.generate([ask()])
            except EngineSetupError as exc:
                faults.append(exc)

        thread = threading.Thread(target=call)
        thread.start()
        arrived.wait(5)
        engine.close()
        thread.join()
    assert [str(fault) for fault in faults] == ["text engine 'm' was closed while it answered"]


def test_failing_listener_ends_the_batch_and_leaves_the_engine_usable():
    def fail(index, reply):
        raise EngineUnavailableError("the disk is full")

    with serve_script(answer_well) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m", max_in_flight=1))
        with pytest.raises(EngineUnavailableError, match="the disk is full"):
            engine.generate([ask(str(i)) for i in range(5)], fail)
        assert len(server.bodies) == 1
        [reply] = engine.generate([ask()])
        assert isinstance(reply, TextReply)
        engine.close()


def test_identity_depends_on_the_model_not_the_address():
    here = OpenAiTextEngine(OpenAiTextConfig(base_url="http://a/v1", model="m", max_in_flight=1)).identity
    there = OpenAiTextEngine(OpenAiTextConfig(base_url="http://b/v1", model="m", timeout_s=1)).identity
    other = OpenAiTextEngine(OpenAiTextConfig(base_url="http://a/v1", model="m", revision="2")).identity
    assert here.digest() == there.digest() != other.digest()


def test_lanes_keep_equal_beginnings_together():
    requests = [ask(f"{'ab'[i % 2]} {i}") for i in range(8)]
    lanes = split_into_lanes(requests, 2)
    assert [list(lane) for lane in lanes] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert [len(lane) for lane in split_into_lanes(requests, 3)] == [2, 3, 3]
    assert len(split_into_lanes(requests, 99)) == 8


def test_reasoning_model_has_room_to_think_and_is_asked_for_an_answer():
    script = in_turn(Scripted('<think>It is one.</think>{"answer": "Yes"}'))
    [reply], bodies = run(script, ask(options=("Yes", "No"), max_tokens=50), reasoning_tokens=4000)
    assert isinstance(reply, TextReply)
    assert (reply.option_probs, reply.option_source, reply.reasoning) == ({"Yes": 1, "No": 0}, "answer", "It is one.")
    [body] = bodies  # no call for log-probabilities before
    assert body["max_tokens"] == 4050
    assert "logprobs" not in body


def test_room_to_think_is_part_of_the_identity():
    def identify(**fields: int) -> str:
        return OpenAiTextEngine(OpenAiTextConfig(base_url="http://x/v1", model="m", **fields)).identity.digest()

    assert identify(reasoning_tokens=4000) != identify()
    assert identify(max_in_flight=2) == identify()
