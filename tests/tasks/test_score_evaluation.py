"""Figures by hand: means with missing and unreadable verdicts, pairs, comparisons, agreements, the worst rows."""

from __future__ import annotations

from typing import Any

import pytest

from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.tasks.score_evaluation import (
    Findings,
    Verdict,
    compare_systems,
    find_worst_examples,
    measure_agreements,
    score_systems,
)

MISSING = Verdict(None, "not_answered")
UNREAD = Verdict(None, "unparsable_verdict")


def make_row(number: int, test: str = "tpi_test") -> dict[str, Any]:
    two = test == "tpi_test"
    return {
        "id": f"{'t' if two else 'j'}{number}",
        "test": test,
        "scenario": "endorsement" if number % 2 else "veto_with_justification",
        "category": "agreement" if number % 2 else "disagreement",
        "label": ("ignorable" if number % 2 else "actionable") if two else "hard_negative",
        "timing": "after_completion",
        "overlap_s": 0.45 if two else None,
    }


ROWS = [*(make_row(n) for n in range(4)), *(make_row(n, "janus_test") for n in range(2))]
PAIRS = [("t0", "j0"), ("t1", "j1")]
CONFIG = EvaluateTpiConfig(
    systems={name: {"engine": "stand_in", "kind": "policy"} for name in ("a", "b")},  # type: ignore[dict-item]
    judges={name: {"engine": "fake_text"} for name in ("x", "y")},  # type: ignore[dict-item]
    resamples=100,
    worst_examples=2,
)


def to_verdict(score: Any) -> Verdict:
    return score if isinstance(score, Verdict) else Verdict(score, None)


def make_findings(
    rsf: dict[tuple[str, str], list[Any]], oh: dict[tuple[str, str], list[Any]], **fields: Any
) -> Findings:
    ids = [row["id"] for row in ROWS]
    verdicts = {
        key: {
            "rsf": dict(zip(ids, map(to_verdict, rsf[key]), strict=True)),
            "oh": dict(zip(ids, map(to_verdict, oh[key]), strict=True)),
        }
        for key in rsf
    }
    answers = {
        system: {i: None if verdicts[system, judge]["rsf"][i] == MISSING else f"{system} says {i[1]}" for i in ids}
        for system, judge in verdicts
    }
    return Findings(ROWS, PAIRS, {**answers, **fields.pop("answers", {})}, verdicts, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def findings() -> Findings:
    return make_findings(
        rsf={
            ("a", "x"): [1, 1, 0, UNREAD, 0, MISSING],
            ("a", "y"): [1, 0, 0, 1, 0, MISSING],
            ("b", "x"): [1, 0, 0, 0, 1, 1],
            ("b", "y"): [1, 0, 0, 0, 1, 1],
        },
        oh={
            ("a", "x"): [5, 4, 2, 3, 5, MISSING],
            ("a", "y"): [5, 4, 2, 3, 5, MISSING],
            ("b", "x"): [4, 3, 1, UNREAD, 1, 1],
            ("b", "y"): [5, 2, 1, 1, 1, 1],
        },
        ratings={"people": {("a", "rsf"): {"t0": 1.0, "t1": 1.0, "t2": 0.0, "gone": 1.0}}},
    )


def test_unread_verdicts_are_left_out_and_missing_answers_count_as_the_worst(findings: Findings) -> None:
    first = score_systems(findings, CONFIG)[0]
    assert (first.system, first.judge) == ("a", "x")
    on_tpi, on_janus = first.tests
    rsf = on_tpi.metrics["rsf"]
    assert (rsf.estimate.mean, rsf.estimate.n, rsf.unparsable, rsf.missing) == (pytest.approx(2 / 3), 3, 1, 0)
    assert on_tpi.metrics["oh"].estimate.mean == 3.5
    rsf, oh = on_janus.metrics["rsf"], on_janus.metrics["oh"]
    assert (rsf.estimate.mean, rsf.missing) == (0.5, 1)  # wrongly inferred, at worst
    assert (oh.estimate.mean, oh.missing) == (3.0, 1)  # 5 and, at worst, 1
    labels = next(b for b in on_tpi.breakdowns if b.key == "label").values
    assert labels["ignorable"]["rsf"].n == 1
    assert labels["actionable"]["oh"].mean == 3.5
    overlaps = next(b for b in on_tpi.breakdowns if b.key == "overlap").values
    assert list(overlaps) == ["0.4 to 0.5 s"]
    assert [b.key for b in on_janus.breakdowns] == ["scenario", "category", "timing"]


def test_a_pair_without_an_answer_counts_as_answered_alike(findings: Findings) -> None:
    pairs = {score.system: score.pairs for score in score_systems(findings, CONFIG)}
    assert pairs["a"] is not None
    assert (pairs["a"].pairs, pairs["a"].bleu.mean) == (2, 1.0)  # twins 0 say the same; twin 1 is missing
    other = make_findings(
        rsf={("a", "x"): [1] * 6},
        oh={("a", "x"): [5] * 6},
        answers={"a": {"t0": "one two three", "j0": "one two three", "t1": "yes", "j1": "no"}},
    )
    [score] = score_systems(other, CONFIG)
    assert score.pairs is not None
    assert (score.pairs.bleu.mean, score.pairs.rouge_l.mean) == (0.5, 0.5)


def test_systems_are_compared_where_both_have_a_score(findings: Findings) -> None:
    found = {(c.judge, c.test, c.metric): c for c in compare_systems(findings, CONFIG)}
    assert len(found) == 8
    rsf = found["x", "tpi_test", "rsf"]
    assert (rsf.first, rsf.second, rsf.n, rsf.p) == ("a", "b", 3, 1.0)  # one discordant row: 2 / 2
    assert rsf.difference == pytest.approx(1 / 3)
    oh = found["x", "tpi_test", "oh"]
    # Differences 1, 1, 1: all of one sign, so p = 2 / 2^3.
    assert (oh.n, oh.difference, oh.p, oh.effect_size) == (3, 1.0, 0.25, 1.0)
    assert found["y", "janus_test", "rsf"].difference == -0.5  # the missing answer counts as 1


def test_judges_and_people_agree_over_what_both_scored(findings: Findings) -> None:
    found = {(a.first, a.second, a.system, a.test, a.metric): a for a in measure_agreements(findings, CONFIG)}
    judges = found["x", "y", "a", "tpi_test", "rsf"]
    # 1 1 0 against 1 0 0: observed 2/3, by chance (2/3)(1/3) + (1/3)(2/3) = 4/9, so kappa = (2/9) / (5/9).
    assert (judges.n, judges.kappa, judges.pearson) == (3, pytest.approx(0.4), pytest.approx(0.5))
    people = found["x", "people", "a", "tpi_test", "rsf"]
    assert (people.n, people.kappa, people.undefined) == (3, pytest.approx(1.0), None)
    assert ("x", "people", "b", "tpi_test", "rsf") not in found
    same = found["x", "y", "a", "janus_test", "oh"]
    assert (same.n, same.pearson, same.kappa) == (1, None, None)
    assert "1 shared rows" in (same.undefined or "")


def test_the_worst_come_first_and_the_perfect_not_at_all(findings: Findings) -> None:
    examples = find_worst_examples(findings, CONFIG)
    shown = [(e.id, e.rsf, e.oh) for e in examples if (e.system, e.judge, e.test) == ("a", "x", "tpi_test")]
    assert shown == [("t2", 0, 2), ("t3", None, 3)]
    shown = [(e.id, e.rsf, e.oh) for e in examples if (e.system, e.judge, e.test) == ("a", "x", "janus_test")]
    assert shown == [("j1", None, None)]
    assert not find_worst_examples(findings, CONFIG.model_copy(update={"worst_examples": 0}))


def test_nothing_to_compare_is_no_comparison() -> None:
    nothing = make_findings(rsf={("a", "x"): [UNREAD] * 6}, oh={("a", "x"): [UNREAD] * 6})
    config = CONFIG.model_copy(update={"judges": {"x": CONFIG.judges["x"]}})
    [score] = score_systems(nothing, config)
    estimate = score.tests[0].metrics["rsf"].estimate
    assert (estimate.mean, estimate.n, score.tests[0].metrics["rsf"].unparsable) == (None, 0, 4)
    assert compare_systems(nothing, config) == ()
