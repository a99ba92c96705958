"""How the figures of the SID paper fit together: what our definitions must give from its own numbers."""

from __future__ import annotations

import itertools

import pytest

from bystander.tasks.metrics.published_sid import PublishedSidSystem, load_published_sid
from bystander.tasks.metrics.sid_scores import score_cases
from bystander.tasks.metrics.sid_summary import summarise_cases, weight_by_cases

PUBLISHED = load_published_sid()
SYSTEMS = {system.name: system for system in PUBLISHED.systems}
HALF_A_DIGIT = 0.0005


def average(system: PublishedSidSystem, metric: str) -> float:
    means = {name: getattr(group, metric) for name, group in system.groups.items() if name != "average"}
    return weight_by_cases(means, PUBLISHED.cases)


@pytest.mark.parametrize(("name", "metric"), list(itertools.product(SYSTEMS, ("fir", "apt"))))
def test_averages_are_weighted_by_cases(name: str, metric: str) -> None:
    # Both sides are rounded, so they may differ by a whole last digit.
    printed = getattr(SYSTEMS[name].groups["average"], metric)
    assert average(SYSTEMS[name], metric) == pytest.approx(printed, abs=2 * HALF_A_DIGIT)


def test_the_averages_that_the_design_names() -> None:
    assert round(average(SYSTEMS["FSMN-VAD"], "fir"), 3) == 0.840
    assert round(average(SYSTEMS["FSMN-VAD"], "apt"), 3) == 3.627


def test_an_average_of_latency_is_none_by_cases() -> None:
    means = {name: SYSTEMS["FireRedChat (pVAD)"].groups[name].irl or 0.0 for name in ("en", "zh")}
    assert weight_by_cases(means, PUBLISHED.cases) == pytest.approx(0.822)
    assert SYSTEMS["FireRedChat (pVAD)"].groups["average"].irl == 1.045


@pytest.mark.parametrize("name", SYSTEMS)
def test_false_alarms_by_all_cases_give_the_rates(name: str) -> None:
    system = SYSTEMS[name]
    counts = {"silence": system.silence.false_alarms, "noise": system.noise.false_alarms}
    cases = [(kind, n < count) for kind, count in counts.items() for n in range(PUBLISHED.cases[kind])]  # type: ignore[index]
    scores = score_cases([10.0] * 500, [None] * 500, [1.0 if alarm else None for _, alarm in cases])
    fir = summarise_cases(scores, seed=0, n_resamples=100).fir.mean
    assert fir is not None
    assert round(fir, 3) == system.groups["noise_silence"].fir


@pytest.mark.parametrize("name", SYSTEMS)
def test_table_three_gives_the_penalties_of_table_two_but_for_moshi(name: str) -> None:
    system = SYSTEMS[name]
    apt = weight_by_cases({"silence": system.silence.apt, "noise": system.noise.apt}, PUBLISHED.cases)
    printed = system.groups["noise_silence"].apt
    if name == "Moshi":
        assert (round(apt, 3), printed) == (6.556, system.noise.apt)
        moshi = {"en": system.groups["en"].apt, "noise_silence": apt}
        assert weight_by_cases(moshi, PUBLISHED.cases) == pytest.approx(2.8935, abs=HALF_A_DIGIT)
        assert "6.556" in system.remark
    else:
        assert apt == pytest.approx(printed, abs=2 * HALF_A_DIGIT)
        assert not system.remark
