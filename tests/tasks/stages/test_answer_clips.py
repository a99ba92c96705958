from __future__ import annotations

import numpy as np
import pytest

from bystander.schemas.engines import AnswerReply, EngineIdentity, RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_config import AnswerClips
from bystander.schemas.evaluation import ANSWERED, BENCH_ROW
from bystander.schemas.identity import derive_seed
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.stages import get_stage
from bystander.tasks.stages.answer_clips import STAGE
from scripted_engines import make_context
from tpi_rows import make_rows, make_tone

ROW = {
    "test": "tpi_test",
    "primary_complete": "Play some jazz in the kitchen.",
    "primary_text": "Play some jazz...",
    "third_party_text": "Not now.",
    "label": "actionable",
    "reply": "Someone said not now. Shall I wait?",
}


class Candidate:
    identity = EngineIdentity("candidate", "scripted", "script", "1")

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.batches = []

    def answer(self, requests, on_reply=None):
        self.batches.append(len(requests))
        self.requests += requests
        return [self.answers.pop(0) if self.answers else AnswerReply("Sure.") for _ in requests]

    def close(self): ...


def make_bench(*rows, samples=None, rate=24000):
    clip = {"bytes": encode_flac(make_tone(0.1) if samples is None else samples, rate), "path": "a.flac"}
    return make_rows(BENCH_ROW, [{**ROW, "audio": clip, **row} for row in rows])


def run(rows, candidate, seed=1):
    return STAGE(rows, make_context(AnswerClips(), seed, candidate=candidate))


def test_keeps_every_row_with_its_answer_or_why_there_is_none():
    candidate = Candidate(AnswerReply("Okay."), RowFault("empty_reply", "the model says nothing"), RowFault("broken"))
    output = run(make_bench({}, {}, {}), candidate)
    assert output.kept.schema == ANSWERED
    assert len(output.rejected) == 0
    assert output.kept["answer"].to_pylist() == ["Okay.", None, None]
    assert output.kept["answer_fault"].to_pylist() == [None, "empty_reply: the model says nothing", "broken"]


def test_hands_over_the_clip_as_it_is_and_what_was_said_in_it():
    samples = make_tone(0.25, rate=16000)
    candidate = Candidate()
    run(make_bench({"id": "row-a", "n_speakers": 2}, samples=samples, rate=16000), candidate)
    [request] = candidate.requests
    assert request.id == "row-a"
    assert request.sampling_rate == 16000
    assert request.samples.dtype == np.float32
    np.testing.assert_allclose(request.samples, samples, atol=1 / 32768)
    assert dict(request.variables) == {
        "primary": "Play some jazz...",
        "primary_complete": "Play some jazz in the kitchen.",
        "third_party": "Not now.",
        "label": "actionable",
        "reply": "Someone said not now. Shall I wait?",
        "n_speakers": "2",
        "test": "tpi_test",
    }


def test_seeds_hang_on_build_seed_and_row_alone():
    candidate = Candidate()
    run(make_bench({"id": "a"}, {"id": "b"}), candidate, seed=5)
    run(make_bench({"id": "b"}), candidate, seed=5)
    seeds = [request.seed for request in candidate.requests]
    assert seeds == [derive_seed(5, row, "answer_clips") for row in ("a", "b", "b")]


def test_needs_only_the_columns_that_it_uses():
    rows = make_bench({}).select(list(STAGE.needed))
    output = run(rows, Candidate())
    assert output.kept.schema.names == [
        name for name in ANSWERED.names if name in {*STAGE.needed, "answer", "answer_fault"}
    ]
    assert {"segments", "scenario", "ambiguity_score", "overlap_s"}.isdisjoint(STAGE.needed)


def test_decodes_a_bounded_number_of_clips_at_once():
    candidate = Candidate()
    output = run(make_bench(*[{} for _ in range(70)]), candidate)
    assert candidate.batches == [64, 6]
    assert output.kept["id"].to_pylist() == [f"row-{i:04d}" for i in range(70)]


def test_an_empty_bench_asks_nothing():
    candidate = Candidate()
    assert run(make_bench(), candidate).kept.schema == ANSWERED
    assert candidate.requests == []


def test_a_clip_that_cannot_be_decoded_names_its_row():
    with pytest.raises(InputError, match="bench: row row-x: audio of 3 bytes cannot be decoded"):
        run(make_bench({"id": "row-x", "audio": {"bytes": b"abc", "path": "x.flac"}}), Candidate())


def test_is_found_by_its_name():
    assert get_stage("answer_clips") is STAGE
