"""Find the first word with new intent in each turn: the break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault
from bystander.schemas.errors import StageContractError
from bystander.schemas.sid import TAGGED, TURN
from bystander.schemas.sid_params import TagBreaks
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import BREAK_TAG, SID_TASKS, TAG_BREAK
from bystander.tasks.stages.tag_votes import WORD_NOT_THERE, Turn, Vote, ask_tagger
from bystander.tasks.texts.turn_words import find_turn_words, insert_break, is_tagged_text

NAME = "tag_breaks"


def tag_breaks(rows: pa.Table, context: StageContext) -> StageOutput:
    """Have the taggers vote on the first word with new intent, and tag the text there.

    Words are those of `tasks.texts.turn_words`. The tag is the position with the most votes; among positions with as
    many, the one that was voted for first, taggers and their samples in order. Its agreement is its share of all votes
    asked for: one that a tagger failed to give agrees with nothing. The tagged text is the text, untouched but for
    the tag.

    Columns read: id, language, text, context_text. Columns written: words, break_word_index, text_with_break,
    tag_votes, tag_agreement. What is known of a synthetic turn is not read.

    Reject reasons: language_not_tagged: there is no prompt in this language. no_words: the text has none.
    too_many_words: more than `max_words`. text_holds_tag: the transcript itself has a break tag. taggers_disagree: the
    tag's agreement is below `min_agreement`. Where no tagger gave a vote, why the first did not:
    word_not_there: it named a word and a number that do not belong together, `max_attempts` times; or a reason of the
    engine: `ENGINE_REASONS`.

    Raises:
        PackError: a prompt cannot be rendered.
    """
    params = cast(TagBreaks, context.params)
    read = [_read_turn(row, params) for row in rows.select(STAGE.uses).to_pylist()]
    turns = [turn for turn in read if isinstance(turn, Turn)]
    ballots: list[list[tuple[str, Vote]]] = [[] for _ in turns]
    for seat, tagger in enumerate(context.taggers if turns else ()):
        name = tagger.identity.model
        for ballot, votes in zip(ballots, ask_tagger(turns, tagger, context, params, NAME, seat), strict=True):
            ballot.extend((name, vote) for vote in votes)
    counted = iter([_count_votes(turn, ballot, params) for turn, ballot in zip(turns, ballots, strict=True)])
    outcomes = [next(counted) if isinstance(turn, Turn) else turn for turn in read]
    return split_rows(NAME, rows, outcomes, TAGGED)


def _read_turn(row: Mapping[str, Any], params: TagBreaks) -> Turn | RowFault:
    if row["language"] not in TAG_BREAK:
        return RowFault(
            "language_not_tagged", f"{row['language']!r}: there are prompts for {', '.join(TAG_BREAK)} only"
        )
    if BREAK_TAG in row["text"]:
        return RowFault("text_holds_tag", f"the transcript has {BREAK_TAG} in it already")
    words = find_turn_words(row["text"])
    if not words:
        return RowFault("no_words", f"{row['text']!r} has no letter or digit")
    if len(words) > params.max_words:
        return RowFault("too_many_words", f"{len(words)} words, at most {params.max_words} are tagged")
    return Turn(row["id"], row["language"], row["text"], row["context_text"], tuple(words))


def _count_votes(turn: Turn, ballot: Sequence[tuple[str, Vote]], params: TagBreaks) -> Mapping[str, Any] | RowFault:
    given = [(tagger, vote) for tagger, vote in ballot if not isinstance(vote, RowFault)]
    if not given:
        return next(vote for _, vote in ballot if isinstance(vote, RowFault))
    # Counter keeps the order of first votes, and most_common keeps it among equals.
    index, count = Counter(vote for _, vote in given).most_common(1)[0]
    agreement = count / len(ballot)
    if agreement < params.min_agreement:
        return RowFault("taggers_disagree", "; ".join(f"{tagger}: {_name(turn, vote)}" for tagger, vote in ballot))
    tagged = insert_break(turn.text, turn.words, index)
    if not is_tagged_text(tagged, turn.text, index):
        raise StageContractError(f"{NAME}: row {turn.id}: {tagged!r} is not {turn.text!r} with one tag")
    return {
        "words": [word.text for word in turn.words],
        "break_word_index": index,
        "text_with_break": tagged,
        "tag_votes": [{"tagger": tagger, "break_word_index": vote} for tagger, vote in given],
        "tag_agreement": agreement,
    }


def _name(turn: Turn, vote: Vote) -> str:
    if isinstance(vote, RowFault):
        return vote.reason
    return "no break" if vote is None else f"word {vote + 1}, {turn.words[vote].text!r}"


STAGE = Stage(
    name=NAME,
    version=1,
    reads=TURN,
    writes=TAGGED,
    reasons=ENGINE_REASONS
    | {"language_not_tagged", "no_words", "taggers_disagree", "text_holds_tag", "too_many_words", WORD_NOT_THERE},
    run=tag_breaks,
    params_type=TagBreaks,
    engines=("tagger",),
    optional_engines=("second_tagger",),
    uses=("id", "language", "text", "context_text"),
    text_tasks=tuple(task.name for task in SID_TASKS if not task.name.startswith("write_")),
)
