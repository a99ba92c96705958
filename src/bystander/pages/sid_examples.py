"""Clips of an evaluation of interruption detection: waveform, words, break, and where each system stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from bystander.pages.clips import MOST_AUDIO_BYTES, make_player
from bystander.pages.interval_plot import name_mark
from bystander.pages.word_waveform import describe_wave, draw_word_waveform, split_at_break
from bystander.schemas.sid_evaluation import SidExample
from bystander.schemas.sid_evaluation_scores import SidExampleOutcome, SidExampleScore, SidScores

_OUTCOMES = {"TP": "right", "FN": "missed the break", "TN": "rightly never stopped"}


@dataclass(frozen=True, slots=True)
class ShownExample:
    """An example as the page shows it: `wave` and `player` are empty where its sound is not at hand or too much."""

    score: SidExampleScore
    wave: Markup
    player: str
    stops: Markup
    tagged: list[str]
    context_text: str | None


def describe_examples(scores: SidScores, heard: Mapping[str, SidExample]) -> list[ShownExample]:
    """Return what the page shows of the scores' examples, in their order; later clips beyond its budget lack sound."""
    systems = [score.system for score in scores.scores]
    shown, spent = [], 0
    for score in scores.examples:
        example = heard.get(score.id)
        spent += len(example.audio) if example else 0
        shown.append(
            ShownExample(
                score=score,
                wave=_draw_wave(score, example) if example else Markup(""),
                player=make_player(example.audio) if example and spent <= MOST_AUDIO_BYTES else "",
                stops=Markup('<ul class="stops">{}</ul>').format(
                    Markup("").join(_draw_stop(one, systems.index(one.system), score) for one in score.outcomes)
                ),
                tagged=split_at_break(score.text_with_break),
                context_text=example.context_text if example else None,
            )
        )
    return shown


def _draw_wave(score: SidExampleScore, example: SidExample) -> Markup:
    label = describe_wave(score.duration_s, score.break_time_s)
    return draw_word_waveform(example.audio, example.words, score.break_time_s, label, context=example.context_s)


def _draw_stop(one: SidExampleOutcome, series: int, score: SidExampleScore) -> Markup:
    mark = Markup("")
    if one.stop_time_s is not None:
        share = min(one.stop_time_s / score.duration_s, 1.0)
        mark = Markup('<span class="mark {}" style="left:{:.2f}%"></span>').format(name_mark(series), 100 * share)
    return Markup(
        '<li>{} <span class="verdict">{}</span><div class="lane-of-stop" aria-hidden="true">{}</div></li>'
    ).format(one.system, _say(one), mark)


def _say(one: SidExampleOutcome) -> str:
    if one.outcome == "FP":
        what = "stopped before the break" if one.early else "stopped where there is no break"
    else:
        what = _OUTCOMES[one.outcome]
    when = "" if one.stop_time_s is None else f" at {one.stop_time_s:.2f} s"
    return f"{what}{when}, penalty {one.penalty_s:.2f} s"
