"""How much of each prompt a model server need compute only once: the part that all rows share, and rows of a group.

    python benchmarks/shared_prefixes.py

Rows of a group have the class, or the scenario, in common. Shares are of characters of all messages; a row's own texts
are taken to have the length of the sentences here. A server's cache works in blocks of some tokens (vLLM: 16), so that
it saves a little less.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from bystander.prompts.find_packs import list_built_in_packs
from bystander.prompts.load import load_pack
from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.engines import Message
from bystander.schemas.packs import PromptPack
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.text_tasks import JUDGE_TASKS, SID_TASKS, TASKS, VOICEBENCH_JUDGE_TASKS

ROWS: tuple[Mapping[str, str], Mapping[str, str]] = (
    {
        "request": "remind me to water the plants on friday",
        "primary": "Remind me to water the plants on Friday.",
        "third_party": "We are away on Friday, make it Thursday.",
        "answer": "Someone with you says that you are away on Friday. Shall I take Thursday?",
        "reference": "Thursday",
        "text": "Right, and how long does that take?",
        "words": "1 Right 2 and 3 how 4 long 5 does 6 that 7 take",
        "stretch": "how long does that take?",
        "heard": "Right, and how long does that take?",
        "context": "The bread has to rest in a warm place until it has doubled",
        "topic": "baking bread",
        "category": "middle",
        "timing": "within_sentence",
        "kind": "",
    },
    {
        "request": "what is the tallest building in chicago",
        "primary": "What's the tallest building in Chicago?",
        "third_party": "I always liked the one with the antennas.",
        "answer": "The Willis Tower, at four hundred and forty two metres.",
        "reference": "The Willis Tower",
        "text": "Uh huh, okay.",
        "words": "1 Uh 2 huh 3 okay",
        "stretch": "Uh huh, okay.",
        "heard": "Uh huh, okay.",
        "context": "Your train leaves from platform four, and before that you can still",
        "topic": "catching a train",
        "category": "uninterrupted",
        "timing": "after_completion",
        "kind": "",
    },
)
"""Two rows that have no beginning in common."""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Characters of a task's prompt: in all, shared within a group, shared by all rows."""

    task: str
    group: str
    characters: int
    in_group: int
    in_all: int


def flatten(messages: tuple[Message, ...]) -> str:
    """Return a prompt as one text, as a chat template does."""
    return "".join(f"<{message.role}>{message.content}\n" for message in messages)


def measure_common(one: str, other: str) -> int:
    """Return how many characters two texts have in common before they first differ."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def list_prompts() -> Iterator[tuple[PromptPack, str, str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield pack, task, and for each of its groups the name, its variables, and those of another group."""
    taxonomy = load_taxonomy()
    packs = [load_pack(name) for name in sorted(list_built_in_packs(), key=lambda name: (name != "reference", name))]
    for pack, task in itertools.product(packs, (*TASKS, *JUDGE_TASKS)):
        if "class" in task.variables:
            for item, other in zip(pack.classes, pack.classes[::-1], strict=True):
                if task.name != "label_kind" or item.kinds:
                    yield pack, task.name, item.key, {"class": item}, {"class": other}
        elif "scenario" in task.variables:
            one, two = taxonomy["recall_assistance"], taxonomy["priority_alert"]
            yield pack, task.name, one.key, {"scenario": one}, {"scenario": two}
        else:
            yield pack, task.name, "", {}, {}
    for name, tasks in (("sid", SID_TASKS), ("voicebench", VOICEBENCH_JUDGE_TASKS)):
        for task in tasks:
            yield load_rubrics(name), task.name, "", {}, {}


def measure_prefixes() -> Iterator[SharedPrefix]:
    """Yield the shares of every task of the built-in packs and rubrics."""
    for pack, task, group, own, others in list_prompts():
        first, second = (flatten(pack.messages(task, {**row, **own})) for row in ROWS)
        elsewhere = flatten(pack.messages(task, {**ROWS[1], **others}))
        yield SharedPrefix(task, group, len(first), measure_common(first, second), measure_common(first, elsewhere))


if __name__ == "__main__":
    print(f"{'task':32}{'group':20}{'characters':>11}{'in group':>10}{'in all':>8}")
    for found in measure_prefixes():
        in_group, in_all = found.in_group / found.characters, found.in_all / found.characters
        print(f"{found.task:32}{found.group:20}{found.characters:>11}{in_group:>10.0%}{in_all:>8.0%}")
