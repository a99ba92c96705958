from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import soundfile
from scripted_chat_server import Script, Scripted, serve_script

from bystander.schemas.engine_configs import OpenAiAudioConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, RowFault
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError
from bystander.tasks.engines.openai_audio import OpenAiAudioCandidate

AT_ONCE = {"retry-after-ms": "1"}
CLIP = (0.5 * np.sin(np.arange(2400) / 10)).astype(np.float32)
SECRETS = {"primary": "Primary words.", "third_party": "Other words.", "reply": "The bench's reply.", "label": "x"}


def ask(samples=CLIP, rate=24000, row="row-secret", seed=5):
    return AnswerRequest(row, samples, rate, seed, SECRETS)


def run(script: Script, *requests: AnswerRequest, **config: object):
    with serve_script(script) as server:
        engine = OpenAiAudioCandidate(OpenAiAudioConfig(base_url=server.base_url, model="m", **config))  # type: ignore[arg-type]
        try:
            return engine.answer(requests), server
        finally:
            engine.close()


def say(*answers: Scripted) -> Script:
    return lambda _body, number: answers[min(number, len(answers) - 1)]


def decode(body):
    [part] = [part for part in body["messages"][-1]["content"] if part["type"] == "input_audio"]
    assert part["input_audio"]["format"] == "wav"
    return soundfile.read(io.BytesIO(base64.b64decode(part["input_audio"]["data"])), dtype="float32")


def test_sends_the_clip_as_it_is_and_nothing_of_the_row():
    [reply], server = run(say(Scripted(" Sure, done. ")), ask())
    assert reply == AnswerReply("Sure, done.")
    [body] = server.bodies
    samples, rate = decode(body)
    assert rate == 24000
    np.testing.assert_allclose(samples, CLIP, atol=1 / 32768)
    assert set(body) == {"model", "messages", "seed", "max_tokens", "temperature", "modalities"}
    assert (body["model"], body["seed"], body["temperature"], body["modalities"]) == ("m", 5, 0.0, ["text"])
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert len(body["messages"][0]["content"]) == 1
    assert not any(secret in str(body) for secret in (*SECRETS.values(), "row-secret") if secret != "x")


def test_sends_what_is_configured():
    _, server = run(
        say(Scripted("Yes.")),
        ask(),
        system_prompt="Be brief.",
        user_prompt="Answer the clip.",
        sampling_rate=16000,
        text_only=False,
        extra_body={"top_k": 1},
        max_tokens=77,
        temperature=0.5,
    )
    [body] = server.bodies
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["messages"][1]["content"][1] == {"type": "text", "text": "Answer the clip."}
    assert (body["top_k"], body["max_tokens"], body["temperature"]) == (1, 77, 0.5)
    assert "modalities" not in body
    samples, rate = decode(body)
    assert (rate, len(samples)) == (16000, 1600)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Scripted("It is cut", finish_reason="length"), "It is cut"),
        (Scripted("<think>Two people.</think>Shall I?"), "Shall I?"),
        (Scripted("", extra={"content": None, "refusal": "I cannot help."}), "I cannot help."),
        (
            Scripted("", extra={"audio": {"id": "a", "data": "", "expires_at": 1, "transcript": "Spoken."}}),
            "Spoken.",
        ),
    ],
)
def test_takes_what_the_model_says_as_its_answer(answer, text):
    [reply], _ = run(say(answer), ask())
    assert reply == AnswerReply(text)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Scripted(" "), "empty_reply"),
        (Scripted("<think>Hmm, two", finish_reason="length"), "empty_reply"),
        (Scripted("", finish_reason="content_filter"), "request_refused"),
        (Scripted(status=400, error="audio too long"), "request_refused"),
        (Scripted(status=413, error="audio too large"), "request_refused"),
    ],
)
def test_a_failing_clip_fails_alone(answer, reason):
    # One in flight, so that the answers are given in the order of the clips.
    (fault, good), _ = run(say(answer, Scripted("Fine.")), ask(), ask(seed=6), max_in_flight=1)
    assert isinstance(fault, RowFault)
    assert fault.reason == reason
    assert good == AnswerReply("Fine.")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_overload_is_tried_again(status):
    [reply], server = run(say(Scripted(status=status, headers=AT_ONCE), Scripted("Now.")), ask(), max_retries=1)
    assert reply == AnswerReply("Now.")
    assert len(server.bodies) == 2


def test_lasting_overload_and_silence_are_errors_to_retry():
    with pytest.raises(EngineUnavailableError, match=r"audio model at .* answers 429 after 1 retries"):
        run(say(Scripted(status=429, headers=AT_ONCE)), ask(), max_retries=1)
    with pytest.raises(EngineUnavailableError, match=r"gave no answer within 0\.05 s"):
        run(say(Scripted("Late.", delay_s=0.5)), ask(), timeout_s=0.05, max_retries=0)


def test_a_key_or_model_that_is_not_accepted_is_a_setup_error(monkeypatch):
    with pytest.raises(EngineSetupError, match=r"audio model at .*no model 'm'"):
        run(say(Scripted(status=404, error="no such model")), ask())
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(EngineSetupError, match="set the environment variable NO_SUCH_KEY"):
        run(say(Scripted("x")), ask(), api_key_env="NO_SUCH_KEY")
    monkeypatch.setenv("AUDIO_KEY", "open sesame")
    _, server = run(say(Scripted("x")), ask(), api_key_env="AUDIO_KEY")
    assert server.keys == ["Bearer open sesame"]


def test_bounds_the_requests_in_flight_and_keeps_their_order():
    def answer(body, _number):
        return Scripted(f"Seed {body['seed']}.", delay_s=0.02)

    replies, server = run(answer, *(ask(seed=i) for i in range(9)), max_in_flight=3)
    assert replies == [AnswerReply(f"Seed {i}.") for i in range(9)]
    assert server.most_open == 3


def test_identity_is_of_what_is_asked_not_of_how_fast():
    def identify(**fields):
        config = OpenAiAudioConfig(**{"base_url": "http://127.0.0.1:1/v1", "model": "m", **fields})
        return OpenAiAudioCandidate(config).identity.digest()

    assert identify() == identify(base_url="http://127.0.0.1:2/v1", max_in_flight=2, timeout_s=1.0, max_retries=0)
    changes = [
        {},
        {"model": "n"},
        {"revision": "2"},
        {"system_prompt": "x"},
        {"user_prompt": "x"},
        {"sampling_rate": 16000},
        {"text_only": False},
        {"extra_body": {"top_k": 1}},
        {"max_tokens": 9},
        {"temperature": 1.0},
    ]
    assert len({identify(**change) for change in changes}) == len(changes)
