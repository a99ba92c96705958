"""The page of a pack's preview: its classes, what it makes of sample rows beside another pack, and every prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bystander.pages.page_templates import render_page
from bystander.schemas.pack_preview import PackPreview, RenderedPrompt, RowAnswer, SampleRow


@dataclass(frozen=True, slots=True)
class PromptSizes:
    """How long the prompts of a task are, over the rows; for one class where the task is asked about classes."""

    task: str
    shown_class: str | None
    reply: str
    """What is answered: options, or the fields of the reply."""
    characters: tuple[int, int]
    """Of the shortest and the longest."""
    tokens: tuple[int, int]
    prompts: tuple[RenderedPrompt, ...]


@dataclass(frozen=True, slots=True)
class _Page:
    title: str
    facts: list[tuple[str, str]]


def group_prompts(preview: PackPreview) -> list[PromptSizes]:
    """Return the prompts of each task and class, in order."""
    groups: dict[tuple[str, str | None], list[RenderedPrompt]] = {}
    for prompt in preview.prompts:
        groups.setdefault((prompt.task, prompt.shown_class), []).append(prompt)
    return [
        PromptSizes(
            task=task,
            shown_class=shown_class,
            reply=describe_reply(prompts[0]),
            characters=(min(p.characters for p in prompts), max(p.characters for p in prompts)),
            tokens=(min(p.tokens for p in prompts), max(p.tokens for p in prompts)),
            prompts=tuple(prompts),
        )
        for (task, shown_class), prompts in groups.items()
    ]


def describe_reply(prompt: RenderedPrompt) -> str:
    """Return in words what a prompt is answered with."""
    if prompt.options:
        return f"one of {', '.join(prompt.options)}"
    fields = (prompt.reply_schema or {}).get("properties", {})
    return f"JSON: {', '.join(fields)}" if fields else "text"


def name_packs(preview: PackPreview) -> list[str]:
    """Return a name for each pack that answered: with the beginning of its digest where two have the same."""
    names = [answers.pack for answers in preview.answers]
    return [
        f"{answers.pack} {answers.digest[:8]}" if names.count(answers.pack) > 1 else answers.pack
        for answers in preview.answers
    ]


def join_answers(preview: PackPreview) -> list[tuple[SampleRow, list[RowAnswer]]]:
    """Return each row with the packs' answers to it."""
    by_row = [{answer.row: answer for answer in answers.answers} for answers in preview.answers]
    return [(row, [answers[row.id] for answers in by_row]) for row in preview.rows]


def show_range(span: Sequence[int]) -> str:
    """Return `700`, or `650 to 700`."""
    low, high = span
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def render_pack_preview(preview: PackPreview) -> str:
    """Return the page. It loads nothing from anywhere; the same preview gives the same page."""
    groups = group_prompts(preview)
    longest = max((prompt.tokens for prompt in preview.prompts), default=0)
    page = _Page(
        title=f"Pack {preview.pack}",
        facts=[
            ("digest", preview.digest),
            ("language", preview.language),
            ("rows", preview.rows_from),
            ("tokens", f"estimated as {preview.tokens_per_character:g} a character"),
            *preview.engines.items(),
        ],
    )
    return render_page(
        "pack_preview.html.j2",
        ("packs.css",),
        data=page,
        preview=preview,
        tiles=[
            ("classes", f"{len(preview.classes):,}"),
            ("sample rows", f"{len(preview.rows):,}"),
            ("prompts", f"{len(preview.prompts):,}"),
            ("tokens in the longest", f"{longest:,}"),
        ],
        packs=name_packs(preview),
        answered=join_answers(preview),
        groups=groups,
        rows={row.id: row for row in preview.rows},
        show_range=show_range,
        show_json=lambda value: json.dumps(value, ensure_ascii=False, indent=2),
    )
