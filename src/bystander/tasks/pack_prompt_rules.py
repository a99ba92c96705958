"""Rules for a pack's prompts as they come out: rendered for sample rows of every class and scenario."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bystander.prompts.find_packs import MANIFEST_NAME
from bystander.prompts.manifest import TaskManifest
from bystander.prompts.pack_faults import PackFault
from bystander.prompts.read_pack import PackParts
from bystander.prompts.render import PromptRenderError, parse_template, render_messages
from bystander.prompts.reply_schemas import find_reply_faults
from bystander.prompts.template_rules import list_used_fields
from bystander.schemas.engines import Message
from bystander.schemas.evaluation_settings import JudgeParams
from bystander.schemas.packs import PackClass
from bystander.schemas.taxonomy import Taxonomy
from bystander.schemas.text_engine_configs import LlamaCppTextConfig
from bystander.schemas.text_tasks import (
    CHECK_REALISM,
    JUDGE_STRATEGY,
    JUDGE_TASKS,
    LABEL_CLASS,
    LABEL_KIND,
    NO,
    PACK_TASKS,
    SCORE_AMBIGUITY,
    WRITE_INTERRUPTION,
    WRITE_ONE_SPEAKER_REPLY,
    WRITE_REPLY,
    YES,
    list_options,
)
from bystander.schemas.tpi_params import WriteInterruptions, WriteReplies
from bystander.tasks.pack_reply_rules import find_reply_rule_fault
from bystander.tasks.pack_samples import PromptSample, list_samples

_SHOWN_FIELDS = {
    LABEL_CLASS.name: ("criteria", "which is what the question is about"),
    LABEL_KIND.name: ("kinds", "which are what is asked for"),
    WRITE_REPLY.name: ("policy", "which is what the reply has to follow"),
    JUDGE_STRATEGY.name: ("policy", "which is what the answer is judged by"),
}
_SHOWN_VARIABLES = {
    WRITE_INTERRUPTION.name: ("request", "scenario"),
    CHECK_REALISM.name: ("primary", "third_party"),
    LABEL_CLASS.name: ("third_party", "class"),
    LABEL_KIND.name: ("third_party", "class"),
    WRITE_REPLY.name: ("primary", "class"),
    WRITE_ONE_SPEAKER_REPLY.name: ("primary", "third_party"),
    SCORE_AMBIGUITY.name: ("primary", "third_party"),
    **{task.name: ("answer",) for task in JUDGE_TASKS},
}
_BUILD_CONTEXT = LlamaCppTextConfig.model_fields["context_tokens"].default
_EVALUATION_CONTEXT = 4096
"""Tokens of the embedded engine's context in the profiles `laptop`, of builds and of evaluations."""
_CHARACTERS_A_TOKEN = 4.0
"""Of English prose, for the tokenizers of current models; other letters are taken for a token each."""


@dataclass(frozen=True, slots=True)
class PromptLength:
    """The longest prompt of a task: characters, and tokens as estimated, the chat template's own included."""

    characters: int
    tokens: int
    reply_tokens: int
    """Most that the reply may have by default; 1 where the task is scored by options."""


def check_prompts(parts: PackParts, taxonomy: Taxonomy) -> tuple[list[PackFault], dict[str, PromptLength]]:
    """Return the faults of the sound templates as they render, and the length of each task's longest prompt.

    What is held to rules: rendering itself, for every class and scenario; that a prompt shows what its task is about;
    examples of replies within a prompt (`=== assistant`), which teach the model; and length.
    """
    faults: list[PackFault] = []
    lengths: dict[str, PromptLength] = {}
    for task in sorted(parts.templates):
        faults.extend(_check_what_is_shown(task, parts))
        failures: dict[tuple[int | None, str], list[str]] = {}
        for sample in list_samples(
            PACK_TASKS[task], frozenset(parts.tasks[task].variables), list(parts.classes.values()), taxonomy
        ):
            try:
                messages = _render(sample, parts)
            except PromptRenderError as exc:
                failures.setdefault((exc.line, exc.reason), []).append(sample.case)
                continue
            faults.extend(_check_shots(sample, messages, parts))
            length = _measure(messages, task)
            if task not in lengths or length.characters > lengths[task].characters:
                lengths[task] = length
        file = parts.tasks[task].template
        faults.extend(PackFault(file, line, "", _say(reason, cases)) for (line, reason), cases in failures.items())
        if task in lengths:
            faults.extend(_check_length(task, lengths[task], parts))
    return faults, lengths


def _render(sample: PromptSample, parts: PackParts) -> tuple[Message, ...]:
    entry = parts.tasks[sample.task]
    return render_messages(parts.templates[sample.task], entry.fill(sample.variables), entry.template)


def _say(reason: str, cases: list[str]) -> str:
    named = [case for case in dict.fromkeys(cases) if case]
    if not named:
        return reason
    more = f" and {len(named) - 1} more cases" if len(named) > 1 else ""
    return f"{reason} (for {named[0]}{more})"


def _check_what_is_shown(task: str, parts: PackParts) -> Iterator[PackFault]:
    entry = parts.tasks[task]
    here = ("tasks", task, "variables")
    line, field = parts.yaml.find_line(here), parts.name_field(here)
    hidden = [name for name in _SHOWN_VARIABLES[task] if name not in entry.variables]
    for name in hidden:
        yield PackFault(MANIFEST_NAME, line, field, f"the prompt never shows {name}, which this task is about")
    if task not in _SHOWN_FIELDS or "class" in hidden:
        return
    name, why = _SHOWN_FIELDS[task]
    used = list_used_fields(parse_template(parts.sources[task]), "class")
    if name not in used:
        message = f"never shows class.{name}, {why}"
        if "key" in used:
            yield PackFault(entry.template, None, "", f"{message}; a change of it would change no prompt", "warning")
        else:
            yield PackFault(entry.template, None, "", f"{message}: all classes get one prompt")


def _check_shots(sample: PromptSample, messages: tuple[Message, ...], parts: PackParts) -> Iterator[PackFault]:
    entry = parts.tasks[sample.task]
    item = sample.variables.get("class")
    # Those of the manifest have been held to their rules already.
    known = {json.dumps(example.reply, ensure_ascii=False) for example in entry.examples}
    for message in messages:
        if message.role != "assistant" or message.content in known:
            continue
        fault = _find_shot_fault(sample.task, message.content, entry, item, parts)
        if fault is not None:
            shown = message.content if len(message.content) <= 80 else f"{message.content[:77]}..."
            line = _find_line(parts.sources[sample.task], message.content)
            case = f" (for {sample.case})" if sample.case and line is None else ""
            yield PackFault(entry.template, line, "", f"the example {shown!r} {fault}{case}")


def _find_shot_fault(
    task: str, content: str, entry: TaskManifest, item: PackClass | None, parts: PackParts
) -> str | None:
    options = list_options(task, entry.answers or (YES, NO), len(item.kinds) if item is not None else 0)
    if options:
        return None if content in options else f"is none of the task's answers, {', '.join(options)}"
    try:
        reply = json.loads(content)
    except ValueError as exc:
        return f"is no JSON, as the reply has to be ({exc})"
    if faults := find_reply_faults(entry.reply_schema or {}, reply):
        path, message = faults[0]
        return f"does not fit the task's reply_schema: {'.'.join(map(str, path)) or 'reply'}: {message}"
    if task == WRITE_INTERRUPTION.name:
        return None  # most show the taxonomy's own examples, which are none of the pack's
    return find_reply_rule_fault(task, reply, item, {}, list(parts.classes.values()))


def _find_line(source: str, content: str) -> int | None:
    at = source.find(content.splitlines()[0])
    return source.count("\n", 0, at) + 1 if at >= 0 else None


def _measure(messages: tuple[Message, ...], task: str) -> PromptLength:
    text = "".join(message.content for message in messages)
    plain = sum(sign.isascii() for sign in text)
    tokens = round(plain / _CHARACTERS_A_TOKEN) + (len(text) - plain) + 8 * len(messages)
    return PromptLength(len(text), tokens, _list_reply_tokens().get(task, 1))


def _list_reply_tokens() -> Mapping[str, int]:
    judge = JudgeParams.model_fields["max_tokens"].default
    return {
        WRITE_INTERRUPTION.name: WriteInterruptions().max_tokens,
        WRITE_REPLY.name: WriteReplies().max_tokens,
        WRITE_ONE_SPEAKER_REPLY.name: WriteReplies().max_tokens,
        **{task.name: judge for task in JUDGE_TASKS},
    }


def _check_length(task: str, length: PromptLength, parts: PackParts) -> Iterator[PackFault]:
    judges: Any = {judge.name for judge in JUDGE_TASKS}
    context = _EVALUATION_CONTEXT if task in judges else _BUILD_CONTEXT
    if length.tokens + length.reply_tokens > context:
        yield PackFault(
            parts.tasks[task].template,
            None,
            "",
            f"the longest prompt has {length.characters} characters, about {length.tokens} tokens; with "
            f"{length.reply_tokens} for the reply that is more than a context of {context}, that of the profile laptop",
            "warning",
        )
