"""Write the interruption: the request as it is spoken, and the bystander's line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextReply, TextRequest
from bystander.schemas.identity import derive_seed, make_rng
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.taxonomy import Scenario, Timing
from bystander.schemas.text_tasks import WRITE_INTERRUPTION
from bystander.schemas.tpi import DRAWN, WRITTEN
from bystander.schemas.tpi_params import WriteInterruptions
from bystander.tasks.stages import text_rules as rules
from bystander.tasks.stages.reply_formats import make_line_pattern, set_patterns
from bystander.tasks.stages.sentence_cut import cut_sentence
from bystander.tasks.stages.text_attempts import Row, attempt_rows
from bystander.tasks.texts.spoken_text import clean_spoken_text, is_speakable, split_words

NAME = "write_interruptions"
_OPENINGS_OFFERED = 3
_LINE_CHARACTERS = (6, 80)


def write_interruptions(rows: pa.Table, context: StageContext) -> StageOutput:
    """Rewrite each request as spoken language and write what the bystander says; cut the request where timing asks.

    Columns read: request, scenario, timing. Columns written: primary_complete, primary_text, third_party_text,
    write_attempts.

    Reject reasons: those of the last of `max_attempts` tries.
        unspeakable_text: a character that a voice stumbles on. primary_changed_meaning: the rewritten request lost or
        gained too many content words. primary_too_long. primary_too_short_to_cut: too few words to break off within.
        third_party_too_short, third_party_too_long. wrong_ending: the line does not end as its scenario does.
        speaks_as_assistant, refuses_request: the line is not a bystander's. repeats_request: it only repeats the
        request. repeats_itself: a text loops. copies_example. leaks_label: a text talks about roles or classes.
        Reasons of the engine: `ENGINE_REASONS`.
    """
    params = cast(WriteInterruptions, context.params)
    scenarios = {key: context.taxonomy[key] for key in set(rows["scenario"].to_pylist())}

    def make_request(row: Row, number: int) -> TextRequest:
        scenario = scenarios[row["scenario"]]
        return TextRequest(
            task=WRITE_INTERRUPTION.name,
            messages=context.pack.messages(
                WRITE_INTERRUPTION.name,
                {"request": row["request"], "scenario": scenario, "timing": row["timing"]},
            ),
            seed=derive_seed(context.build_seed, row["id"], NAME, number),
            variables={"request": row["request"], "scenario": scenario.key, "timing": row["timing"]},
            reply_schema=_make_schema(row, number, scenario, context, params),
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
        )

    def accept(row: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
        return _accept_texts(row, reply, scenarios[row["scenario"]], context, params)

    attempted = attempt_rows(
        rows.to_pylist(),
        context.writer,
        make_request,
        accept,
        params.max_attempts,
        params.candidates,
        order=lambda row: (row["scenario"], row["id"]),
    )
    outcomes = [
        a.outcome if isinstance(a.outcome, RowFault) else {**a.outcome, "write_attempts": a.attempts} for a in attempted
    ]
    return split_rows(NAME, rows, outcomes, WRITTEN)


def _make_schema(
    row: Row, number: int, scenario: Scenario, context: StageContext, params: WriteInterruptions
) -> Mapping[str, Any]:
    schema = context.pack.reply_schema(WRITE_INTERRUPTION.name) or {}
    if not (params.guided_openings and scenario.openings):
        return schema
    # A small model takes the same opening every time if it may; a draw of a few keeps lines varied, and the model
    # still has a choice of what fits.
    rng = make_rng(context.build_seed, row["id"], NAME, number, "openings")
    drawn = rng.permutation(len(scenario.openings))[:_OPENINGS_OFFERED]
    openings = [scenario.openings[i] for i in sorted(drawn)]
    longest = int(len(row["request"]) * 1.4) + 30
    return set_patterns(
        schema,
        {
            "primary": f"^[A-Z][A-Za-z0-9',. ]{{4,{longest}}}[.?]$",
            "third_party": make_line_pattern(openings, scenario.ends_with, *_LINE_CHARACTERS),
        },
    )


def _accept_texts(
    row: Row, reply: TextReply, scenario: Scenario, context: StageContext, params: WriteInterruptions
) -> Mapping[str, Any] | RowFault:
    value = reply.value or {}
    if not all(isinstance(value.get(key), str) for key in WRITE_INTERRUPTION.reply):
        return RowFault("unparsable_reply", "the reply lacks primary or third_party")
    primary = clean_spoken_text(value["primary"], params.keep_apostrophes)
    line = clean_spoken_text(value["third_party"], params.keep_apostrophes)
    keys = [item.key for item in context.pack.classes] + [scenario.key]
    fault = (
        _check_primary(primary, line, row, scenario, params)
        or check_line(line, primary, keys, scenario.openings, scenario.ends_with, params)
        or _check_copy(line, scenario, params)
    )
    if fault is not None:
        return fault
    spoken: str | None = primary
    if row["timing"] == Timing.WITHIN_SENTENCE:
        spoken = cut_sentence(primary, make_rng(context.build_seed, row["id"], NAME, "cut"))
        if spoken is None:
            return RowFault("primary_too_short_to_cut", f"{primary!r} has too few words to be broken off within")
    return {"primary_complete": primary, "primary_text": spoken, "third_party_text": line}


def _check_primary(
    primary: str, line: str, row: Row, scenario: Scenario, params: WriteInterruptions
) -> RowFault | None:
    if not is_speakable(primary):
        return RowFault("unspeakable_text", f"primary: {primary!r}")
    if len(split_words(primary)) > params.max_primary_words:
        return RowFault("primary_too_long", f"more than {params.max_primary_words} words")
    if rules.repeats_itself(primary) and not rules.repeats_itself(row["request"]):
        return RowFault("repeats_itself", f"primary: {primary!r}")
    # Where the user gropes for a word, the bystander supplies what the rewritten request lacks.
    supplied = line if any(example.request for example in scenario.examples) else ""
    if not rules.keeps_meaning(row["request"], primary, supplied):
        return RowFault("primary_changed_meaning", f"{row['request']!r} became {primary!r}")
    return None


def check_line(
    line: str,
    primary: str,
    label_keys: Sequence[str],
    openings: Sequence[str],
    ends_with: tuple[str, ...],
    params: WriteInterruptions,
) -> RowFault | None:
    """Return the first rule that a bystander's line breaks, whatever its scenario's examples are.

    `openings` and `ends_with` are the scenario's, `label_keys` those of classes and scenario.
    """
    words = len(split_words(line))
    checks = (
        ("unspeakable_text", not is_speakable(line)),
        ("third_party_too_short", words < 2),
        ("third_party_too_long", words > params.max_third_party_words),
        ("wrong_ending", not line.endswith(ends_with)),
        ("refuses_request", rules.refuses(line)),
        ("speaks_as_assistant", rules.speaks_as_assistant(line)),
        ("leaks_label", rules.leaks_labels(line, label_keys)),
        ("repeats_itself", rules.repeats_itself(line)),
        ("repeats_request", rules.repeats_request(line, primary, openings)),
    )
    for reason, broken in checks:
        if broken:
            return RowFault(reason, f"third_party: {line!r}")
    return None


def _check_copy(line: str, scenario: Scenario, params: WriteInterruptions) -> RowFault | None:
    # Without the opening: the examples share it by design.
    own = rules.strip_opening(line, scenario.openings)
    texts = [rules.strip_opening(example.third_party, scenario.openings) for example in scenario.examples]
    if any(rules.measure_shared_words(own, text) > params.max_example_overlap for text in texts):
        return RowFault("copies_example", f"third_party: {line!r}")
    return None


STAGE = Stage(
    name=NAME,
    version=1,
    reads=DRAWN,
    writes=WRITTEN,
    reasons=ENGINE_REASONS
    | {
        "copies_example",
        "leaks_label",
        "primary_changed_meaning",
        "primary_too_long",
        "primary_too_short_to_cut",
        "refuses_request",
        "repeats_itself",
        "repeats_request",
        "speaks_as_assistant",
        "third_party_too_long",
        "third_party_too_short",
        "unspeakable_text",
        "wrong_ending",
    },
    run=write_interruptions,
    params_type=WriteInterruptions,
    engines=("writer",),
    uses=(
        "id",
        "request",
        "scenario",
        "timing",
    ),
    text_tasks=(WRITE_INTERRUPTION.name,),
    checks_leaks=True,
    uses_taxonomy=True,
)
