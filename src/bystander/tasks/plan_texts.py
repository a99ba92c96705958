"""How long the prompts of a build are: the pack's templates, rendered for sample rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bystander.schemas.engines import Message
from bystander.schemas.packs import PackClass, PromptPack
from bystander.schemas.taxonomy import Scenario, Taxonomy, Timing
from bystander.schemas.text_tasks import (
    CHECK_REALISM,
    LABEL_CLASS,
    LABEL_KIND,
    SCORE_AMBIGUITY,
    WRITE_INTERRUPTION,
    WRITE_ONE_SPEAKER_REPLY,
    WRITE_REPLY,
)

Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PromptSize:
    """Means over the sample: characters of a prompt, those of them in a beginning that its like share, and messages."""

    characters: float
    shared_characters: float
    messages: float


def list_example_texts(taxonomy: Taxonomy) -> list[Texts]:
    """Return the taxonomy's examples as sample texts, for want of a build's."""
    return [
        {"primary_complete": example.primary, "primary_text": example.primary, "third_party_text": example.third_party}
        for scenario in taxonomy.scenarios
        for example in scenario.examples
    ]


def measure_prompts(
    pack: PromptPack, taxonomy: Taxonomy, scenarios: Sequence[Scenario], requests: Sequence[str], texts: Sequence[Texts]
) -> dict[str, PromptSize]:
    """Return the size of each task's prompts.

    `write_interruption` is rendered for `requests` in every scenario, the others for `texts`, with every class where a
    class is shown. Prompts of one scenario or class share their beginning, which a server's prefix cache holds.

    Args:
        pack: whose templates are rendered.
        taxonomy: gives `check_realism` a scenario where a text names none.
        scenarios: those of the build.
        requests: at least one.
        texts: `primary_complete`, `primary_text`, `third_party_text`; at least one.

    Raises:
        PackError: a template fails.
    """
    sizes: dict[str, list[tuple[int, int, int]]] = {}
    for task, group in _render_groups(pack, taxonomy, scenarios, requests, texts):
        prompts = [_write_out(messages) for messages in group]
        shared = _measure_common_start(prompts) if len(prompts) > 1 else 0
        for prompt, messages in zip(prompts, group, strict=True):
            sizes.setdefault(task, []).append((len(prompt), min(shared, len(prompt)), len(messages)))
    return {
        task: PromptSize(*(sum(size[i] for size in found) / len(found) for i in range(3)))
        for task, found in sizes.items()
    }


def _render_groups(
    pack: PromptPack, taxonomy: Taxonomy, scenarios: Sequence[Scenario], requests: Sequence[str], texts: Sequence[Texts]
) -> Iterator[tuple[str, list[tuple[Message, ...]]]]:
    """Yield tasks, each with prompts that share their beginning."""

    def render(task: str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        return pack.messages(task, variables)

    timing = Timing.AFTER_COMPLETION.value
    for scenario in scenarios:
        task = WRITE_INTERRUPTION.name
        yield task, [render(task, {"request": r, "scenario": scenario, "timing": timing}) for r in requests]
    meant = [{"primary": text["primary_complete"], "third_party": text["third_party_text"]} for text in texts]
    spoken = [{"primary": text["primary_text"], "third_party": text["third_party_text"]} for text in texts]
    some = taxonomy.scenarios[0]
    task = CHECK_REALISM.name
    yield task, [render(task, {**text, "timing": timing, "scenario": some}) for text in meant]
    for item in pack.classes[:-1]:
        yield LABEL_CLASS.name, [render(LABEL_CLASS.name, {**text, "class": item}) for text in meant]
    for item in list_classes_with_kinds(pack):
        yield LABEL_KIND.name, [render(LABEL_KIND.name, {**text, "class": item}) for text in meant]
    for item in pack.classes:
        kind = item.kinds[0].key if item.kinds else ""
        yield WRITE_REPLY.name, [render(WRITE_REPLY.name, {**text, "class": item, "kind": kind}) for text in spoken]
    for name in (SCORE_AMBIGUITY.name, WRITE_ONE_SPEAKER_REPLY.name):
        yield name, [render(name, text) for text in spoken]


def list_classes_with_kinds(pack: PromptPack) -> list[PackClass]:
    """Return the classes of which a kind has to be asked for."""
    return [item for item in pack.classes if len(item.kinds) > 1]


def _measure_common_start(texts: Sequence[str]) -> int:
    first, last = min(texts), max(texts)  # all others lie between
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _write_out(messages: Sequence[Message]) -> str:
    return "".join(message.content for message in messages)
