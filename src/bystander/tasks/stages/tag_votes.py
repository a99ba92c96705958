"""Asking one tagger where new intent begins: by its answer, or by its probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bystander.schemas.engines import RowFault, TextEngine, TextReply, TextRequest
from bystander.schemas.identity import derive_seed
from bystander.schemas.sid_params import TagBreaks
from bystander.schemas.stages import StageContext
from bystander.schemas.text_tasks import CHECK_NEW_INTENT, TAG_BREAK
from bystander.tasks.stages.option_scores import score_options
from bystander.tasks.stages.text_attempts import Row, attempt_rows
from bystander.tasks.texts.backchannels import find_segments
from bystander.tasks.texts.turn_words import TurnWord, fold_word, strip_marks

WORD_NOT_THERE = "word_not_there"

_SPACED = frozenset({"en"})


@dataclass(frozen=True, slots=True)
class Turn:
    """What a tagger is told of a turn. It has words."""

    id: str
    language: str
    text: str
    context: str
    words: tuple[TurnWord, ...]


Vote = int | None | RowFault
"""Position of the first word with new intent, None for none, or why the tagger gave no vote."""


def ask_tagger(
    turns: Sequence[Turn], tagger: TextEngine, context: StageContext, params: TagBreaks, stage: str, seat: int
) -> list[list[Vote]]:
    """Return the votes of one tagger on each turn, in order: `samples` of them, or one by probabilities.

    `stage` and `seat`, which tagger this is, go into the seeds.

    Raises:
        PackError: a prompt cannot be rendered.
    """
    if params.method == "options":
        return [[vote] for vote in _measure_votes(turns, tagger, context, params, stage)]
    return _ask_votes(turns, tagger, context, params, stage, seat)


# ---- by answer -----------------------------------------------------------------------------------------------


def _ask_votes(
    turns: Sequence[Turn], tagger: TextEngine, context: StageContext, params: TagBreaks, stage: str, seat: int
) -> list[list[Vote]]:
    def make_request(row: Row, number: int) -> TextRequest:
        turn: Turn = row["turn"]
        task = TAG_BREAK[turn.language].name
        variables = {"text": turn.text, "words": _number_words(turn), "context": turn.context}
        return TextRequest(
            task=task,
            messages=context.pack.messages(task, variables),
            seed=derive_seed(context.build_seed, turn.id, stage, seat, row["sample"], number),
            variables=variables,
            reply_schema=_narrow_schema(context.pack.reply_schema(task) or {}, turn),
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
        )

    def accept(row: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
        return _read_tag(row["turn"], reply)

    rows = [{"turn": turn, "sample": sample} for turn in turns for sample in range(params.samples)]
    results = attempt_rows(
        rows,
        tagger,
        make_request,
        accept,
        params.max_attempts,
        order=lambda row: (row["turn"].language, row["turn"].id, row["sample"]),
    )
    votes = [a.outcome if isinstance(a.outcome, RowFault) else a.outcome["index"] for a in results]
    return [votes[i : i + params.samples] for i in range(0, len(votes), params.samples)]


def _number_words(turn: Turn) -> str:
    space = " " if turn.language in _SPACED else ""
    return " ".join(f"{i}{space}{strip_marks(word.text)}" for i, word in enumerate(turn.words, start=1))


def _narrow_schema(schema: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    words = list(dict.fromkeys(strip_marks(word.text) for word in turn.words))
    narrowed = {
        "word": {"type": "string", "enum": [*words, ""]},
        "number": {"type": "integer", "enum": list(range(len(turn.words) + 1))},
    }
    return {**schema, "properties": {**schema["properties"], **narrowed}}


def _read_tag(turn: Turn, reply: TextReply) -> Mapping[str, Any] | RowFault:
    value = reply.value or {}
    word, number = value.get("word"), value.get("number")
    if not isinstance(word, str) or not isinstance(number, int) or isinstance(number, bool):
        return RowFault("unparsable_reply", "the reply lacks the word or its number")
    if number == 0 and not word:
        return {"index": None}
    if not 1 <= number <= len(turn.words):
        return RowFault(WORD_NOT_THERE, f"number {number} with word {word!r}; the turn has {len(turn.words)} words")
    if fold_word(turn.words[number - 1].text) != fold_word(word):
        return RowFault(WORD_NOT_THERE, f"word {number} is {turn.words[number - 1].text!r}, not {word!r}")
    return {"index": number - 1}


# ---- by probabilities ----------------------------------------------------------------------------------------


def _measure_votes(
    turns: Sequence[Turn], tagger: TextEngine, context: StageContext, params: TagBreaks, stage: str
) -> list[Vote]:
    """Return, for each turn, the first word of the first stretch that is more likely than not to carry new intent."""
    stretches = [
        (t, begin, end)
        for t, turn in enumerate(turns)
        for begin, end in pairwise((*find_segments(turn.text, turn.language), len(turn.words)))
    ]
    stretches.sort(key=lambda entry: turns[entry[0]].language)
    requests = [_make_stretch_request(turns[t], begin, end, context, stage) for t, begin, end in stretches]
    votes: list[Vote] = [None] * len(turns)
    for (t, begin, _), request, scores in zip(stretches, requests, score_options(tagger, requests), strict=True):
        if votes[t] is not None:
            continue
        if isinstance(scores, RowFault):
            votes[t] = scores
        elif scores[request.options[0]] >= params.new_intent_threshold:
            votes[t] = begin
    return votes


def _make_stretch_request(turn: Turn, begin: int, end: int, context: StageContext, stage: str) -> TextRequest:
    task = CHECK_NEW_INTENT[turn.language].name
    tail = turn.words[end].start if end < len(turn.words) else len(turn.text)
    heard = turn.text[:tail].rstrip()
    variables = {
        "text": turn.text,
        "heard": heard,
        "stretch": heard[turn.words[begin].start :],
        "context": turn.context,
    }
    return TextRequest(
        task=task,
        messages=context.pack.messages(task, variables),
        seed=derive_seed(context.build_seed, turn.id, stage, end),
        variables=variables,
        options=context.pack.answers(task),
        temperature=0.0,
    )
