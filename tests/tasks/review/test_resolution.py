from __future__ import annotations

from typing import Any

import pytest

from bystander.schemas.errors import ConfigError
from bystander.schemas.review import ReviewDecision, RowEdits, RowReview
from bystander.tasks.review.resolution import Resolution, resolve_reviews

DIGEST = "a" * 64
OWN = RowEdits.model_validate(
    {
        "primary_text": "set a timer",
        "third_party_text": "no, an alarm",
        "segments": [
            {"speaker": "primary", "start_s": 0, "end_s": 2},
            {"speaker": "third_party", "start_s": 1.5, "end_s": 3},
        ],
    }
)


def move(start: float, end: float = 2.0) -> list[dict[str, Any]]:
    return [
        {"speaker": "primary", "start_s": 0, "end_s": end},
        {"speaker": "third_party", "start_s": start, "end_s": 3},
    ]


def decide(said: dict[str, dict[str, Any]], **how: Any) -> ReviewDecision | None:
    reviews = {name: {"row-1": RowReview.model_validate(review)} for name, review in said.items()}
    decisions = resolve_reviews(reviews, DIGEST, lambda _: OWN, Resolution(**how))
    assert len(decisions) < 2
    return decisions[0] if decisions else None


ACCEPT: dict[str, Any] = {"verdict": "accept"}
BAD: dict[str, Any] = {"verdict": "reject", "reason": "bad_audio"}


@pytest.mark.parametrize(
    ("said", "unanimous", "majority"),
    [
        ({"a": ACCEPT}, "accept", "accept"),
        ({"a": ACCEPT, "b": ACCEPT}, "accept", "accept"),
        ({"a": ACCEPT, "b": BAD}, "conflict", "conflict"),
        ({"a": ACCEPT, "b": BAD, "c": ACCEPT}, "conflict", "accept"),
        ({"a": BAD, "b": BAD, "c": ACCEPT}, "conflict", "reject"),
        ({"a": BAD, "b": BAD, "c": ACCEPT, "d": ACCEPT}, "conflict", "conflict"),
        ({"a": BAD, "b": {"note": "hm"}}, "reject", "reject"),
        ({"a": {"note": "hm"}}, None, None),
    ],
)
def test_verdicts_by_rule(said: dict[str, Any], unanimous: str | None, majority: str | None) -> None:
    for rule, expected in (("unanimous", unanimous), ("majority", majority)):
        decision = decide(said, rule=rule)
        assert (decision.verdict if decision else None) == expected
        if decision:
            assert decision.rule == rule
            assert {*decision.annotators} == {name for name, one in said.items() if "verdict" in one}


def test_a_named_annotator_counts_alone_and_an_adjudicator_before_the_rule() -> None:
    said = {"a": ACCEPT, "b": BAD, "c": {"verdict": "reject", "reason": "wrong_text", "note": "mumbled"}}
    by_name = decide(said, rule="c")
    assert by_name is not None
    assert (by_name.verdict, by_name.reason, by_name.note, by_name.rule) == ("reject", "wrong_text", "mumbled", "c")
    assert by_name.annotators["a"].verdict == "accept"
    judged = decide(said, adjudicator="a")
    assert judged is not None
    assert (judged.verdict, judged.rule) == ("accept", "a")
    assert decide({"a": ACCEPT, "b": {"note": "later"}}, rule="b") is None
    without = decide({"a": ACCEPT, "b": ACCEPT, "z": {"note": "x"}}, adjudicator="z")
    assert without is not None
    assert without.rule == "unanimous"
    for field in ("rule", "adjudicator"):
        with pytest.raises(ConfigError, match=f"--{field} nobody: .* there is a, b, c"):
            decide(said, **{field: "nobody"})


def test_the_reason_is_the_most_frequent_and_notes_have_names() -> None:
    said = {
        "a": BAD | {"note": "hiss"},
        "b": {"verdict": "reject", "reason": "wrong_text"},
        "c": {"verdict": "reject", "reason": "wrong_text", "note": "no “an”"},
    }
    decision = decide(said)
    assert decision is not None
    assert (decision.reason, decision.note) == ("wrong_text", "a: hiss; c: no “an”")
    tied = decide({"a": BAD, "b": {"verdict": "reject", "reason": "implausible"}})
    assert tied is not None
    assert tied.reason == "implausible"


@pytest.mark.parametrize(
    ("texts", "unanimous", "majority"),
    [
        (["an alarm", "an alarm"], "an alarm", "an alarm"),
        (["an alarm", None], "conflict", "conflict"),
        (["an alarm", None, "an alarm"], "conflict", "an alarm"),
        (["an alarm", None, None], "conflict", None),
        (["no, an alarm", None], None, None),
        (["an alarm", "the alarm", "one alarm"], "conflict", "conflict"),
    ],
)
def test_edited_texts(texts: list[str | None], unanimous: str | None, majority: str | None) -> None:
    said = {f"a{at}": ACCEPT | ({"third_party_text": text} if text else {}) for at, text in enumerate(texts)}
    for rule, expected in (("unanimous", unanimous), ("majority", majority)):
        decision = decide(said, rule=rule)
        assert decision is not None
        if expected == "conflict":
            assert (decision.verdict, decision.edits.given) == ("conflict", {})
        else:
            assert (decision.verdict, decision.edits.third_party_text) == ("accept", expected)


def test_boundaries_within_the_tolerance_become_the_mean_of_those_that_were_moved() -> None:
    near = decide({"a": ACCEPT | {"segments": move(1.60)}, "b": ACCEPT | {"segments": move(1.64)}})
    assert near is not None
    assert near.edits.model_dump(mode="json")["segments"] == move(1.62)
    beside_own = decide({"a": ACCEPT | {"segments": move(1.54)}, "b": ACCEPT})
    assert beside_own is not None
    assert beside_own.edits.model_dump(mode="json")["segments"] == move(1.54)
    far = {"a": ACCEPT | {"segments": move(1.6)}, "b": ACCEPT | {"segments": move(1.7)}}
    assert getattr(decide(far), "verdict", None) == "conflict"
    assert getattr(decide(far, tolerance_s=0.1), "verdict", None) == "accept"
    third = decide(far | {"c": ACCEPT | {"segments": move(1.71)}}, rule="majority")
    assert third is not None
    assert third.edits.model_dump(mode="json")["segments"] == move(1.705)
    other_speakers = decide({"a": ACCEPT | {"segments": move(1.5)[:1]}, "b": ACCEPT})
    assert getattr(other_speakers, "verdict", None) == "conflict"


def test_breaks() -> None:
    own = RowEdits(text_with_break="yeah <break>stop", break_time_s=1.0)
    said = {
        "a": {"row": RowReview(verdict="accept", break_time_s=1.02)},
        "b": {"row": RowReview(verdict="accept", break_time_s=0.98)},
    }
    [decision] = resolve_reviews(said, DIGEST, lambda _: own)
    assert (decision.verdict, decision.edits.given) == ("accept", {"break_time_s": 1.0})
    said["b"] = {"row": RowReview(verdict="accept", break_time_s=2.0, text_with_break="yeah stop")}
    [decision] = resolve_reviews(said, DIGEST, lambda _: own)
    assert decision.verdict == "conflict"


def test_decisions_are_sorted_and_need_no_row_where_nobody_differs() -> None:
    def refuse(_: str) -> RowEdits:
        raise AssertionError

    said = {"b": {"row-2": RowReview(verdict="accept"), "row-1": RowReview(verdict="reject")}}
    assert [one.row_id for one in resolve_reviews(said, DIGEST, refuse)] == ["row-1", "row-2"]
