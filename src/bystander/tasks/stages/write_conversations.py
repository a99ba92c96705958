"""Write the scripts of embedded conversations: an assistant talks, and its user overlaps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextReply, TextRequest
from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import derive_seed, make_rng
from bystander.schemas.sid import BEGINNING, CONVERSATION_PLAN, MIDDLE, SCRIPTED, UNINTERRUPTED
from bystander.schemas.sid_params import WriteConversations
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import SIDE, WRITE_CONVERSATION
from bystander.tasks.stages import script_checks as checks
from bystander.tasks.stages.text_attempts import Row, attempt_rows
from bystander.tasks.texts.backchannels import load_lexicon
from bystander.tasks.texts.conversation_topics import list_topics

NAME = "write_conversations"

_TEXTS: Mapping[str, tuple[str, ...]] = {
    BEGINNING: ("assistant_text", "substance"),
    MIDDLE: ("assistant_text", "backchannel", "substance"),
    UNINTERRUPTED: ("assistant_text", "backchannel"),
}
"""The texts that a category has, in the order in which they are written."""

_BACKCHANNELS_OFFERED = 4


def write_conversations(rows: pa.Table, context: StageContext) -> StageOutput:
    """Script each conversation: what the assistant says, the user's backchannel, and what carries the new intent.

    The topic (of those on the side that `use` names) and the pause are drawn row by row; so are the backchannels among
    which the writer chooses, with `guided_backchannels`. A backchannel ends in a comma where the substance follows in
    the same utterance.

    Columns read: recording_id, language, category. Columns written: assistant_text, backchannel, substance, gap_s.

    Reject reasons: language_not_scripted: there is no prompt in this language. Those of the last of `max_attempts`
    tries: unspeakable_text: other characters than letters, apostrophes and . , ? ! (Mandarin: than Chinese ones and
    ，。？！). assistant_text_too_short, assistant_text_too_long, substance_too_short, substance_too_long.
    not_a_backchannel: it is more than the lexicon's acknowledgements. substance_begins_with_backchannel: new intent
    does not begin with its first word. speaks_as_assistant: the substance is no user's. repeats_itself: a text loops.
    copies_example: a text is the prompt's. Reasons of the engine: `ENGINE_REASONS`.

    Raises:
        ConfigError: there is no topic on the side that is used.
        PackError: a prompt cannot be rendered.
    """
    params = cast(WriteConversations, context.params)
    plans = rows.select(STAGE.uses).to_pylist()
    examples = {
        language: _list_examples(language, context)
        for language in sorted({plan["language"] for plan in plans} & set(WRITE_CONVERSATION))
    }

    def make_request(row: Row, number: int) -> TextRequest:
        return _make_request(row, number, context, params)

    def accept(row: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
        return _accept_script(row, reply, examples[row["language"]], context, params)

    written = [plan for plan in plans if plan["language"] in examples]
    attempted = attempt_rows(
        written,
        context.writer,
        make_request,
        accept,
        params.max_attempts,
        order=lambda row: (row["language"], row["recording_id"]),
    )
    found = iter(attempted)
    outcomes = [
        next(found).outcome
        if plan["language"] in examples
        else RowFault(
            "language_not_scripted",
            f"{plan['language']!r}: there are prompts for {', '.join(WRITE_CONVERSATION)} only",
        )
        for plan in plans
    ]
    return split_rows(NAME, rows, outcomes, SCRIPTED)


def _make_request(row: Row, number: int, context: StageContext, params: WriteConversations) -> TextRequest:
    task = WRITE_CONVERSATION[row["language"]].name
    topics = [topic for topic in list_topics(row["language"]) if params.admits("sid_topic", topic)]
    if not topics:
        raise ConfigError(
            f"stages.{NAME}.hold_out: {params.hold_out:g} leaves no topic in {row['language']!r} where `use` is "
            f"{params.use!r}; change it, or set `use: all`"
        )
    topic = topics[int(make_rng(context.build_seed, row["recording_id"], NAME, "topic").integers(len(topics)))]
    variables = {"category": row["category"], "topic": topic}
    return TextRequest(
        task=task,
        messages=context.pack.messages(task, variables),
        seed=derive_seed(context.build_seed, row["recording_id"], NAME, number),
        variables=variables if params.use == "all" else {**variables, SIDE: params.encode_side()},
        reply_schema=_narrow_schema(context.pack.reply_schema(task) or {}, row, number, context, params),
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        top_p=params.top_p,
    )


def _narrow_schema(
    schema: Mapping[str, Any], row: Row, number: int, context: StageContext, params: WriteConversations
) -> dict[str, Any]:
    names = _TEXTS[row["category"]]
    properties = {
        name: value
        for name, value in schema["properties"].items()
        if name in names or name not in _TEXTS[MIDDLE]  # a prompt of the user's may ask for more, such as a plan
    }
    if "backchannel" in properties and params.guided_backchannels:
        spoken = load_lexicon(row["language"]).spoken
        rng = make_rng(context.build_seed, row["recording_id"], NAME, number, "backchannels")
        drawn = sorted(rng.permutation(len(spoken))[:_BACKCHANNELS_OFFERED])
        properties["backchannel"] = {"type": "string", "enum": [spoken[i] for i in drawn]}
    required = [name for name in schema["required"] if name in properties]
    return {**schema, "properties": properties, "required": required}


def _accept_script(
    row: Row, reply: TextReply, examples: Mapping[str, list[str]], context: StageContext, params: WriteConversations
) -> Mapping[str, Any] | RowFault:
    value, language, names = reply.value or {}, row["language"], _TEXTS[row["category"]]
    if missing := checks.find_missing(value, names):
        return RowFault("unparsable_reply", f"the reply has no text for {', '.join(missing)}")
    texts = {name: checks.clean_script_text(value[name], language) for name in names}
    fault = checks.check_assistant_text(texts["assistant_text"], language, params)
    if fault is None and "backchannel" in texts:
        fault = checks.check_backchannel(texts["backchannel"], language)
    if fault is None and "substance" in texts:
        fault = checks.check_substance(texts["substance"], language, params)
    if fault is not None:
        return fault
    for name in ("assistant_text", "substance"):
        if name in texts and checks.copies_example(texts[name], examples[name], params.max_example_overlap):
            return RowFault("copies_example", f"{name}: {texts[name]!r}")
    gap_s = _draw_gap(row, context, params)
    joined = row["category"] == MIDDLE and gap_s is None
    return {
        "assistant_text": checks.end_text(texts["assistant_text"], language, "."),
        "backchannel": checks.end_text(texts["backchannel"], language, "," if joined else ".")
        if "backchannel" in texts
        else "",
        "substance": checks.end_text(texts["substance"], language, ".") if "substance" in texts else "",
        "gap_s": gap_s,
    }


def _draw_gap(row: Row, context: StageContext, params: WriteConversations) -> float | None:
    if row["category"] != MIDDLE:
        return None
    rng = make_rng(context.build_seed, row["recording_id"], NAME, "gap")
    joined = rng.random() < params.joined_share
    gap = float(rng.uniform(*params.gap_s))
    return None if joined else round(gap, 3)


def _list_examples(language: str, context: StageContext) -> dict[str, list[str]]:
    """Return the texts of the prompt's examples, by name: its assistant messages that are JSON."""
    task = WRITE_CONVERSATION[language].name
    found: dict[str, list[str]] = {name: [] for name in _TEXTS[MIDDLE]}
    for message in context.pack.messages(task, {"category": MIDDLE, "topic": ""}):
        if message.role != "assistant":
            continue
        try:
            example = json.loads(message.content)
        except ValueError:
            continue
        for name in found:
            if isinstance(example, dict) and isinstance(example.get(name), str):
                found[name].append(example[name])
    return found


STAGE = Stage(
    name=NAME,
    version=1,
    reads=CONVERSATION_PLAN,
    writes=SCRIPTED,
    reasons=ENGINE_REASONS
    | {
        "assistant_text_too_long",
        "assistant_text_too_short",
        "copies_example",
        "language_not_scripted",
        "not_a_backchannel",
        "repeats_itself",
        "speaks_as_assistant",
        "substance_begins_with_backchannel",
        "substance_too_long",
        "substance_too_short",
        "unspeakable_text",
    },
    run=write_conversations,
    params_type=WriteConversations,
    engines=("writer",),
    uses=("recording_id", "language", "category"),
    text_tasks=tuple(task.name for task in WRITE_CONVERSATION.values()),
)
