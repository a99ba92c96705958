"""When words are said, and every way in which a turn has no times to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bystander.schemas.alignment import (
    ALIGNER_REASONS,
    AlignedPhone,
    AlignedWord,
    AlignmentReply,
    AlignmentRequest,
)
from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.sid import ALIGNED, TAGGED
from bystander.schemas.sid_engine_configs import FakeAlignerConfig
from bystander.schemas.sid_params import AlignWords
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.engines.fake_aligner import FakeAligner
from bystander.tasks.stages import align_words, get_stage
from scripted_engines import make_context
from tpi_rows import make_rows, make_tone

WORDS = ["Right,", "but", "wait."]
AUDIO = {"bytes": encode_flac(np.concatenate([np.zeros(8000, np.float32), make_tone(1.0, rate=16000)]), 16000)}
SPEECH = [{"start_s": 0.5, "end_s": 1.5}]


class ScriptedAligner:
    """Places words at given times; an answer of its own where one is scripted."""

    languages = frozenset({"en"})

    def __init__(self, starts: Sequence[float] = (0.5, 0.8, 1.1), answer=None, name: str = "scripted"):
        self.identity = EngineIdentity("aligner", name, "m", "1")
        self._reply = AlignmentReply(
            tuple(
                AlignedWord(word, start, start + 0.2, -9.0, (AlignedPhone("P", start, start + 0.2),), word != "but")
                for word, start in zip(WORDS, starts, strict=True)
            ),
            -9.5,
        )
        self._answer = answer
        self.requests: list[AlignmentRequest] = []

    def align(self, requests):
        self.requests += requests
        return [self._reply if self._answer is None else self._answer(self._reply) for _ in requests]

    def close(self): ...


def run(aligner, second=None, rows: int = 1, params=None, **cells):
    engines = {"aligner": aligner} | ({"second_aligner": second} if second else {})
    row = {"audio": AUDIO, "words": WORDS, "break_word_index": 1, "speech": SPEECH, "duration_s": 1.5, **cells}
    table = make_rows(TAGGED, [row] * rows)
    return align_words.STAGE(table, make_context(AlignWords(**(params or {})), **engines))


def reject(*arguments, **settings) -> str:
    output = run(*arguments, **settings)
    assert len(output.kept) == 0
    assert output.rejected["reject_detail"][0].as_py()
    return output.rejected["reject_reason"][0].as_py()


def test_stores_words_phones_and_who_placed_them():
    aligner = ScriptedAligner()
    output = run(aligner, rows=2)
    assert output.kept.schema == ALIGNED
    row = output.kept.to_pylist()[1]
    assert [word["start_s"] for word in row["timed_words"]] == [0.5, 0.8, 1.1]
    assert [word["in_vocabulary"] for word in row["timed_words"]] == [True, False, True]
    assert [phone["word_index"] for phone in row["phones"]] == [0, 1, 2]
    assert (row["aligner"], row["alignment_score"], row["alignment_is_fallback"]) == ("scripted", -9.5, False)
    assert (row["second_aligner"], row["aligner_disagreement_s"]) == (None, None)
    request = aligner.requests[1]
    assert (request.id, request.words, request.language) == ("row-0001", tuple(WORDS), "en")
    assert (len(request.samples), request.sampling_rate) == (24000, 16000)


def test_never_sees_what_is_known_of_synthetic_turns():
    stage = get_stage("align_words")
    assert stage.uses
    assert not [name for name in stage.uses if name.startswith("true_")]
    assert {"true_category", "true_break_word_index", "true_break_time_s"} <= set(TAGGED.names)


def test_the_fake_aligner_fits():
    output = run(FakeAligner(FakeAlignerConfig()))
    starts = [word["start_s"] for word in output.kept["timed_words"][0].as_py()]
    assert starts == pytest.approx([0.5, 0.5 + 7 / 16, 0.5 + 11 / 16], abs=0.005)


@pytest.mark.parametrize("reason", sorted(ALIGNER_REASONS))
def test_what_the_aligner_refuses_is_rejected(reason):
    assert reject(ScriptedAligner(answer=lambda reply: RowFault(reason, "so it says"))) == reason


def _change(index, **cells):
    def answer(reply):
        words = list(reply.words)
        words[index] = replace(words[index], **cells)
        return replace(reply, words=tuple(words))

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        lambda reply: replace(reply, words=reply.words[:-1]),
        lambda reply: replace(reply, words=()),
        _change(1, start_s=float("nan")),
        _change(1, word="bat"),
        _change(1, start_s=0.4),
        _change(1, end_s=0.8),
        _change(1, score=float("inf")),
        _change(2, end_s=1.6),
        _change(0, start_s=-0.1),
        _change(0, phones=(AlignedPhone("P", 0.6, 0.7),)),
        _change(0, phones=(AlignedPhone("P", 0.5, 0.6), AlignedPhone("Q", 0.6, 0.9))),
    ],
)
def test_broken_promises_are_rejected(answer):
    assert reject(ScriptedAligner(answer=answer)) == "alignment_incomplete"


def test_words_far_from_speech_are_rejected():
    far = ScriptedAligner((0.0, 0.8, 1.1))
    late = [{"start_s": 0.75, "end_s": 1.5}]
    assert reject(far, speech=late) == "words_far_from_speech"
    assert len(run(far, speech=late, params={"max_distance_from_speech_s": 0.6}).kept) == 1
    assert reject(ScriptedAligner(), speech=[]) == "words_far_from_speech"


def test_fallbacks_are_marked_or_rejected():
    aligner = ScriptedAligner(answer=lambda reply: replace(reply, is_fallback=True, aligner="recogniser_words"))
    row = run(aligner).kept.to_pylist()[0]
    assert (row["aligner"], row["alignment_is_fallback"]) == ("recogniser_words", True)
    assert reject(aligner, params={"allow_fallback": False}) == "fallback_not_allowed"


@pytest.mark.parametrize(
    ("place", "starts", "distance_s"),
    [(1, (0.5, 0.87, 1.3), 0.07), (0, (0.5, 0.87, 1.3), 0.0), (None, (0.5, 0.87, 1.3), 0.2)],
)
def test_the_second_aligner_measures_the_break_word_or_all(place, starts, distance_s):
    output = run(ScriptedAligner(), ScriptedAligner(starts, name="other"), break_word_index=place)
    row = output.kept.to_pylist()[0]
    assert row["second_aligner"] == "other"
    assert row["aligner"] == "scripted"
    assert row["aligner_disagreement_s"] == pytest.approx(distance_s)


def test_aligners_that_disagree_reject_where_that_is_asked_for():
    other = ScriptedAligner((0.5, 0.87, 1.3), name="other")
    assert len(run(ScriptedAligner(), other, params={"max_disagreement_s": 0.08}).kept) == 1
    assert reject(ScriptedAligner(), other, params={"max_disagreement_s": 0.06}) == "aligners_disagree"


def test_a_second_aligner_without_an_answer():
    fault = ScriptedAligner(answer=lambda reply: RowFault("no_alignment", "noise"), name="other")
    row = run(ScriptedAligner(), fault).kept.to_pylist()[0]
    assert (row["second_aligner"], row["aligner_disagreement_s"]) == ("other", None)
    assert reject(ScriptedAligner(), fault, params={"max_disagreement_s": 1}) == "second_aligner_fault"
    unable = ScriptedAligner(answer=lambda reply: RowFault("language_not_aligned", "en only"), name="other")
    row = run(ScriptedAligner(), unable, params={"max_disagreement_s": 1}).kept.to_pylist()[0]
    assert (row["second_aligner"], row["aligner_disagreement_s"]) == (None, None)
    lost = ScriptedAligner(answer=lambda reply: RowFault("no_alignment", "noise"))
    second = ScriptedAligner(name="other")
    assert reject(lost, second) == "no_alignment"
    assert second.requests == []


def test_batches_and_no_rows(monkeypatch):
    monkeypatch.setattr(align_words, "_BATCH_ROWS", 2)
    assert len(run(ScriptedAligner(), ScriptedAligner(name="other"), rows=5).kept) == 5
    assert run(ScriptedAligner(), rows=0).kept.schema == ALIGNED
