"""Every prompt of a pack for given rows, with its length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bystander.prompts.load import LoadedPack
from bystander.schemas.errors import InputError
from bystander.schemas.pack_preview import PromptMessage, RenderedPrompt, SampleRow
from bystander.schemas.packs import PackClass
from bystander.schemas.plan import PlanAssumptions
from bystander.schemas.taxonomy import Taxonomy
from bystander.schemas.text_tasks import (
    CHECK_REALISM,
    JUDGE_HELPFULNESS,
    JUDGE_STRATEGY,
    JUDGE_TASKS,
    LABEL_CLASS,
    LABEL_KIND,
    SCORE_AMBIGUITY,
    TASKS,
    WRITE_INTERRUPTION,
    WRITE_ONE_SPEAKER_REPLY,
    WRITE_REPLY,
    list_options,
)
from bystander.tasks.plan_texts import list_classes_with_kinds

SAMPLE_ANSWER = "All right, I am on it."
"""The reply that rubrics are shown as the one to judge, where a row has none."""

_SPOKEN = frozenset({WRITE_REPLY.name, WRITE_ONE_SPEAKER_REPLY.name, SCORE_AMBIGUITY.name})
"""Tasks that see what was heard of the request; the others see all of it, as their stages have it."""
_JUDGED = frozenset(task.name for task in JUDGE_TASKS)


def render_prompts(
    pack: LoadedPack,
    taxonomy: Taxonomy,
    rows: Sequence[SampleRow],
    assumptions: PlanAssumptions,
    task: str | None = None,
    shown_class: str | None = None,
) -> list[RenderedPrompt]:
    """Return the prompts of all tasks of a pack, or of one, for each row and each class that is asked about.

    Prompts stand in the order in which a build asks them, rubrics last.

    Args:
        pack: whose templates are rendered.
        taxonomy: has the rows' scenarios.
        rows: for which they are rendered.
        assumptions: how many tokens a character is.
        task: only this task's.
        shown_class: only those of this class, and those of no class.

    Raises:
        InputError: the pack has no such task or class.
        PackError: a template fails on a row.
    """
    written = pack.describe_manifest()["tasks"]
    tasks = [item.name for item in (*TASKS, *JUDGE_TASKS) if item.name in written]
    if task is not None and task not in tasks:
        raise InputError(f"--task {task!r}: pack {pack.name} has {', '.join(tasks)}")
    keys = [item.key for item in pack.classes]
    if shown_class is not None and shown_class not in keys:
        raise InputError(f"--class {shown_class!r}: pack {pack.name} has {', '.join(keys)}")
    prompts = []
    for name in [task] if task is not None else tasks:
        for item in _list_classes(pack, name):
            if item is not None and shown_class not in (None, item.key):
                continue
            prompts += [_render(pack, taxonomy, row, name, item, assumptions) for row in rows]
    return prompts


def _list_classes(pack: LoadedPack, task: str) -> Sequence[PackClass | None]:
    """Return the classes that a task is asked about, one call each; None for a task that is shown none."""
    if task == LABEL_CLASS.name:
        return pack.classes[:-1]
    if task == LABEL_KIND.name:
        return list_classes_with_kinds(pack)
    if task in (WRITE_REPLY.name, JUDGE_STRATEGY.name, JUDGE_HELPFULNESS.name):
        return pack.classes
    return [None]


def _render(
    pack: LoadedPack,
    taxonomy: Taxonomy,
    row: SampleRow,
    task: str,
    item: PackClass | None,
    assumptions: PlanAssumptions,
) -> RenderedPrompt:
    messages = pack.messages(task, _give_variables(row, taxonomy, task, item))
    characters = sum(len(message.content) for message in messages)
    tokens = characters * assumptions.tokens_per_character + len(messages) * assumptions.template_tokens_per_message
    schema = pack.reply_schema(task)
    return RenderedPrompt(
        task=task,
        row=row.id,
        shown_class=item.key if item is not None else None,
        messages=tuple(PromptMessage(role=message.role, content=message.content) for message in messages),
        reply_schema=dict(schema) if schema is not None else None,
        options=list_options(task, pack.answers(task), len(item.kinds) if item is not None else 0),
        characters=characters,
        tokens=round(tokens),
    )


def _give_variables(row: SampleRow, taxonomy: Taxonomy, task: str, item: PackClass | None) -> dict[str, Any]:
    """Return what the task's stage gives its template."""
    if task == WRITE_INTERRUPTION.name:
        return {"request": row.request, "scenario": taxonomy[row.scenario], "timing": row.timing.value}
    heard = task in _SPOKEN or task in _JUDGED
    given: dict[str, Any] = {
        "primary": row.primary_text if heard else row.primary_complete,
        "third_party": row.third_party_text,
    }
    if task == CHECK_REALISM.name:
        given |= {"scenario": taxonomy[row.scenario], "timing": row.timing.value}
    if item is not None:
        given["class"] = item
    if task == WRITE_REPLY.name:
        given["kind"] = item.kinds[0].key if item is not None and item.kinds else ""
    if task in _JUDGED:
        given["answer"] = row.answer or SAMPLE_ANSWER
    return given
