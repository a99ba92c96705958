"""Labels, kinds and replies of two builds' rows, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from rouge_score.rouge_scorer import RougeScorer

from bystander.tasks.compare_texts import (
    choose_flips,
    choose_least_alike,
    compare_kinds,
    compare_labels,
    compare_replies,
    match_rows,
)
from bystander.tasks.compared_rows import PUBLISHED, ComparedRow

CLASSES = ["actionable", "ignorable"]


def make_row(row_id: str, label: str | None, reply: str | None = "Okay.", **fields: Any) -> ComparedRow:
    given: dict[str, Any] = {
        "query_id": f"query of {row_id}",
        "language": "en",
        "request": "turn on the lamp",
        "scenario": "endorsement",
        "timing": "after_completion",
        "primary_complete": "Turn on the lamp.",
        "primary_text": "Turn on the lamp.",
        "third_party_text": "Good idea.",
        "n_speakers": 2,
        "label_score": None if label is None else 0.9,
        "kind": None,
        "write_attempts": 1,
        "reply_attempts": 1,
        "fate": PUBLISHED,
        **fields,
    }
    return ComparedRow(id=row_id, label=label, reply=reply, **given)


def by_id(*rows: ComparedRow) -> dict[str, ComparedRow]:
    return {row.id: row for row in rows}


A = by_id(
    make_row("a", "actionable", "I heard someone say red. Red?", kind="goal"),
    make_row("b", "actionable", "I heard someone say blue. Blue?", kind="goal"),
    make_row("c", "ignorable", "The lamp is on."),
    make_row("d", "ignorable", "The lamp is on."),
    make_row("e", "ignorable", None, fate="write_replies: reply_refuses"),
    make_row("other words", "ignorable"),
    make_row("only a", "ignorable"),
    make_row("unlabelled in b", "ignorable"),
)
B = by_id(
    make_row("a", "actionable", "Someone near you wants red. Shall I?", kind="fact"),
    make_row("b", "ignorable", "The lamp is on.", label_score=0.6),
    make_row("c", "ignorable", "The  lamp is on."),
    make_row("d", "actionable", "I heard someone say green. Green?", kind="goal"),
    make_row("e", "ignorable", "The lamp is on."),
    make_row("other words", "actionable", third_party_text="Bad idea."),
    make_row("unlabelled in b", None, None, label_score=None, fate="check_realism: unrealistic"),
    make_row("only b", "ignorable"),
)


def test_rows_are_matched_by_id_and_words() -> None:
    pairs, shared = match_rows(A, B)
    assert [pair.a.id for pair in pairs] == ["a", "b", "c", "d", "e"]
    assert shared.model_dump() == {"ids": 7, "other_words": 1, "unlabelled": 1, "compared": 5}


def test_rows_that_one_build_did_not_write_do_not_count_as_written_differently() -> None:
    unwritten = make_row("a", None, None, primary_complete=None, primary_text=None, third_party_text=None)
    _, shared = match_rows(by_id(A["a"]), by_id(unwritten))
    assert shared.model_dump() == {"ids": 1, "other_words": 0, "unlabelled": 1, "compared": 0}


def test_flips_are_counted_and_classes_of_both_stand_on_the_diagonal() -> None:
    pairs, _ = match_rows(A, B)
    found = compare_labels(pairs, CLASSES, ["new", *reversed(CLASSES)])
    assert found.matrix == {
        "actionable": {"actionable": 1, "ignorable": 1, "new": 0},
        "ignorable": {"actionable": 1, "ignorable": 2, "new": 0},
    }
    assert list(found.matrix["actionable"]) == ["actionable", "ignorable", "new"]
    assert (found.flipped.mean, found.flipped.n) == (0.4, 5)
    assert found.kappa is None
    assert "different classes" in str(found.kappa_note)
    # Chi squared of [[1, 1], [1, 2]] is 5 (1 * 2 - 1 * 1)^2 / (2 * 3 * 2 * 3); V its root by n.
    assert found.association == pytest.approx((1 / 36) ** 0.5)


def test_kappa_where_the_classes_are_the_same() -> None:
    pairs, _ = match_rows(A, B)
    found = compare_labels(pairs, CLASSES, list(reversed(CLASSES)))
    # Observed 3 of 5; expected (2 * 2 + 3 * 3) / 25.
    assert found.kappa == pytest.approx((0.6 - 0.52) / 0.48)
    assert found.kappa_low is not None
    assert found.kappa_high is not None
    assert found.kappa_low <= found.kappa <= found.kappa_high


def test_kinds_are_compared_where_the_label_is_the_same() -> None:
    pairs, _ = match_rows(A, B)
    (found,) = compare_kinds(pairs, CLASSES)
    assert (found.label, found.counts) == ("actionable", {"goal": {"fact": 1}})
    assert (found.flipped.mean, found.flipped.n) == (1.0, 1)


def test_replies_are_compared_by_label() -> None:
    pairs, _ = match_rows(A, B)
    twins, _ = match_rows(
        by_id(make_row("t", "hard_negative", "Done.", n_speakers=1)),
        by_id(make_row("t", "hard_negative", "All done.", n_speakers=1)),
    )
    found = {group.group: group for group in compare_replies(pairs, twins, CLASSES)}
    assert list(found) == [
        "actionable",
        "ignorable",
        "actionable → ignorable",
        "ignorable → actionable",
        "hard_negative",
    ]
    rouge = RougeScorer(["rougeL"])
    expected = rouge.score(A["a"].reply, B["a"].reply)["rougeL"].fmeasure
    assert found["actionable"].rouge_l.mean == pytest.approx(expected)
    assert found["actionable"].words_a.mean == 6
    assert found["actionable"].words_b.mean == 7
    # White space makes no difference, and a row without a reply in A is not in it.
    assert (found["ignorable"].identical.mean, found["ignorable"].identical.n) == (1.0, 1)
    assert found["ignorable"].bleu.mean == 1.0
    flip = found["actionable → ignorable"]
    assert (flip.mentions_a.mean, flip.mentions_b.mean, flip.rouge_l.n) == (1.0, 0.0, 1)
    assert found["hard_negative"].rouge_l.mean == pytest.approx(2 * 1 / 3)


def test_examples_are_the_surest_flips_of_each_sort_and_the_replies_least_alike() -> None:
    pairs, _ = match_rows(A, B)
    flips = choose_flips(pairs, 5)
    assert [row.id for row in flips] == ["b", "d"]
    assert (flips[0].a.label, flips[0].b.label, flips[0].b.label_score) == ("actionable", "ignorable", 0.6)
    assert [row.id for row in choose_flips(pairs, 1)] == ["b"]
    assert [row.id for row in choose_least_alike(pairs, 5)] == ["a"]
    # Where no row is labelled alike, all are looked at.
    assert {row.id for row in choose_least_alike([pair for pair in pairs if pair.a.id in "bd"], 5)} == {"b", "d"}
