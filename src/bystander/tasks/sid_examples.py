"""Which clips of an evaluation of interruption detection are worth hearing: those that cost a system most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bystander.schemas.sid_evaluation import WITHOUT_SPEECH, SidCase, Stops
from bystander.schemas.sid_evaluation_scores import SidExampleOutcome, SidExampleScore
from bystander.tasks.metrics.sid_scores import CaseScores
from bystander.tasks.score_sid import ScoreSettings, score_stops

_MISTAKES = ("early", "backchannel", "missed", "late", "without speech")
"""What costs: stops before the break, false alarms on backchannels, missed breaks, latency, false alarms on noise."""


def find_examples(
    cases: Sequence[SidCase], stops: Mapping[str, Stops], settings: ScoreSettings, most: int
) -> tuple[SidExampleScore, ...]:
    """Return up to `most` clips with what every system did: of each kind of mistake the costliest, systems by turns.

    Equals are ordered by id. Clips that cost nothing are no examples.
    """
    scores = {name: score_stops(cases, one, settings) for name, one in stops.items()}
    found = list(scores.values())
    # Each round has every kind of mistake, and another system for each.
    queues = [
        _rank(cases, found[(turn + at) % len(found)], mistake)
        for turn in range(len(found))
        for at, mistake in enumerate(_MISTAKES)
    ]
    chosen: list[int] = []
    while len(chosen) < most and queues:
        for queue in list(queues):
            at = next((at for at in queue if at not in chosen), None)
            if at is None:
                queues.remove(queue)
            elif len(chosen) < most:
                chosen.append(at)
    return tuple(_describe(cases[at], at, scores, stops) for at in chosen)


def _rank(cases: Sequence[SidCase], scores: CaseScores, mistake: str) -> Iterator[int]:
    found = [at for at, case in enumerate(cases) if scores.penalty_s[at] > 0 and _name(case, scores, at) == mistake]
    return iter(sorted(found, key=lambda at: (-float(scores.penalty_s[at]), cases[at].id)))


def _name(case: SidCase, scores: CaseScores, at: int) -> str:
    outcome = str(scores.outcome[at])
    if outcome == "FP" and not scores.early[at]:
        return "without speech" if case.category in WITHOUT_SPEECH else "backchannel"
    return {"FP": "early", "FN": "missed", "TP": "late"}.get(outcome, "")


def _describe(case: SidCase, at: int, scores: Mapping[str, CaseScores], stops: Mapping[str, Stops]) -> SidExampleScore:
    return SidExampleScore(
        id=case.id,
        category=case.category,
        language=case.language,
        duration_s=case.duration_s,
        break_time_s=case.break_time_s,
        text_with_break=case.text_with_break,
        outcomes=tuple(
            SidExampleOutcome(
                system=name,
                outcome=str(one.outcome[at]),
                early=bool(one.early[at]),
                stop_time_s=stops[name][case.id],
                penalty_s=float(one.penalty_s[at]),
            )
            for name, one in scores.items()
        ),
    )
