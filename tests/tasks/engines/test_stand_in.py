from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest

from bystander.prompts.load import load_pack
from bystander.schemas.engine_configs import StandInConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.playbook import PlaybookTextEngine
from bystander.tasks.engines.stand_in import open_stand_in

PACK = load_pack("reference")
TWO = {
    "primary": "Ring the pizza place on...",
    "primary_complete": "Ring the pizza place on the corner.",
    "third_party": "No, the noodle bar.",
    "label": "actionable",
    "reply": "Someone next to you said the noodle bar. Shall I?",
    "n_speakers": "2",
    "test": "tpi_test",
}
ONE = {**TWO, "label": "hard_negative", "reply": "Calling the noodle bar.", "n_speakers": "1", "test": "janus_test"}


class Writer:
    """Answers from a script of outcomes a text, and keeps every request."""

    identity = EngineIdentity("text", "scripted", "script", "1")

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[TextRequest] = []

    def generate(self, requests, on_reply=None):
        self.requests += requests
        return [self._answer(len(self.requests) - len(requests) + i) for i in range(len(requests))]

    def _answer(self, number):
        outcome = self.outcomes[min(number, len(self.outcomes) - 1)] if self.outcomes else f"Reply {number}."
        if isinstance(outcome, RowFault):
            return outcome
        return TextReply("raw", value={"reply": outcome} if isinstance(outcome, str) else outcome)

    def close(self): ...


def ask(variables, row="row-1", seed=1):
    return AnswerRequest(row, np.zeros(8, np.float32), 16000, seed, variables)


def open_writing(kind, writer):
    return open_stand_in(StandInConfig(kind=kind), writer, PACK)


def test_policy_gives_the_bench_s_own_replies():
    engine = open_stand_in(StandInConfig(kind="policy"), None, None)
    assert engine.answer([ask(TWO), ask(ONE)]) == [AnswerReply(TWO["reply"]), AnswerReply(ONE["reply"])]


def test_transcript_answers_twins_alike_and_asks_once_for_both():
    writer = Writer()
    engine = open_writing("transcript", writer)
    first = engine.answer([ask(TWO, "row-1", 1), ask(ONE, "row-2", 2)])
    later = engine.answer([ask(ONE, "row-3", 3)])
    assert first == [AnswerReply("Reply 0.")] * 2
    assert later == first[:1]
    [request] = writer.requests
    assert dict(request.variables) == {"primary": TWO["primary"], "third_party": TWO["third_party"]}
    assert request.messages[-1].content == "Ring the pizza place on... No, the noodle bar."
    assert request.temperature == 0


def test_the_request_depends_on_nothing_but_the_transcript():
    requests = []
    for variables, row, seed in ((TWO, "row-1", 1), (ONE, "row-2", 99)):
        writer = Writer()
        open_writing("transcript", writer).answer([ask(variables, row, seed)])
        requests += writer.requests
    assert requests[0].describe() == requests[1].describe()


def test_threads_that_meet_the_same_text_ask_for_it_once():
    writer, entered, go_on = Writer(), threading.Event(), threading.Event()
    generate = writer.generate

    def wait_and_generate(requests, on_reply=None):
        entered.set()
        assert go_on.wait(10)
        return generate(requests, on_reply)

    writer.generate = wait_and_generate
    engine = open_writing("transcript", writer)
    replies: list[Any] = [None, None]

    def call(slot, variables):
        replies[slot] = engine.answer([ask(variables)])

    threads = [threading.Thread(target=call, args=(i, v)) for i, v in enumerate((TWO, ONE))]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert replies == [[AnswerReply("Reply 0.")]] * 2
    assert len(writer.requests) == 1


def test_ignore_second_is_told_nothing_of_the_second_text():
    writer = Writer("Calling the pizza place.")
    [reply] = open_writing("ignore_second", writer).answer([ask(TWO)])
    assert reply == AnswerReply("Calling the pizza place.")
    [request] = writer.requests
    assert dict(request.variables) == {"primary": "Ring the pizza place on the corner.", "third_party": ""}
    assert request.messages[-1].content == "Ring the pizza place on the corner."
    assert "noodle" not in str(request.describe())


@pytest.mark.parametrize(
    ("kind", "said"),
    [("transcript", "Calling the noodle bar."), ("ignore_second", "Calling the pizza place.")],
)
def test_the_playbook_answers_what_it_was_not_authored_for(kind, said):
    variables = {
        **TWO,
        "primary": TWO["primary_complete"],
        "third_party": "Not my favourite plan, I would prefer the noodle bar.",
    }
    [reply] = open_writing(kind, PlaybookTextEngine()).answer([ask(variables)])
    assert isinstance(reply, AnswerReply)
    assert reply.text.endswith(said)
    assert "someone" not in reply.text.lower()


def test_what_cannot_be_used_is_asked_for_again_with_another_seed():
    writer = Writer(RowFault("reply_too_long"), {"other": 1}, " Yes. ")
    assert open_writing("transcript", writer).answer([ask(TWO)]) == [AnswerReply("Yes.")]
    assert len({request.seed for request in writer.requests}) == 3
    assert writer.requests[1].temperature > 0


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(RowFault("outside_coverage", "no"), "outside_coverage"), ({"x": 1}, "unparsable_reply"), ("  ", "empty_reply")],
)
def test_faults_are_the_writer_s_and_are_not_remembered(outcome, reason):
    writer = Writer(outcome, outcome, outcome, "Now it works.")
    engine = open_writing("transcript", writer)
    [fault] = engine.answer([ask(TWO)])
    assert isinstance(fault, RowFault)
    assert fault.reason == reason
    assert engine.answer([ask(TWO)]) == [AnswerReply("Now it works.")]


def test_identity_names_kind_writer_and_prompt():
    class OtherPack:
        def task_digest(self, task):
            return "other"

    class OtherWriter(Writer):
        identity = dataclasses.replace(Writer.identity, revision="2")

    engines = [
        open_stand_in(StandInConfig(kind="policy"), None, None),
        open_writing("transcript", Writer()),
        open_writing("ignore_second", Writer()),
        open_writing("transcript", OtherWriter()),
        open_stand_in(StandInConfig(kind="transcript"), Writer(), OtherPack()),  # type: ignore[arg-type]
    ]
    assert len({engine.identity.digest() for engine in engines}) == 5
    assert engines[1].identity.digest() == open_writing("transcript", Writer()).identity.digest()


def test_a_stand_in_that_writes_needs_a_writer():
    with pytest.raises(EngineSetupError, match=r"stand-in 'transcript': needs a text engine.*`writer`"):
        open_stand_in(StandInConfig(kind="transcript"), None, PACK)
