"""The typed form of a pack's `pack.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.packs import PackClass, ReplyExample
from bystander.schemas.text_tasks import PACK_TASKS

PROMPT_VARIABLES: dict[str, frozenset[str]] = {name: task.variables for name, task in PACK_TASKS.items()}
"""Variables that a template of a task may use, by task.

Stages pass some of them as objects: `scenario` has `key`, `category`, `definition`, `examples` (each with `primary`,
`third_party`, `request`), `openings` and `ends_with`; `class` has `key`, `criteria`, `policy`, `mentions_third_party`
and `kinds` (each with `key` and `definition`). All others are strings.
"""
EXAMPLES = "examples"
"""Variable that the template of a task with examples may declare: its `ReplyExample`s, with `given` and `reply`."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskManifest(_Frozen):
    """One task of a pack: its template, the variables that the template uses, and the reply's JSON schema.

    `reply_schema` is needed by the tasks that write, and refused for those that are scored by options. `answers` are
    the two options of `label_class` or `check_realism` as the template asks for them, the one that says so first;
    without it they are Yes and No. Small models choose better between the letters A and B, each explained.

    `examples` are replies as the task should have them, checked against its schema; a template shows them by declaring
    the variable `examples`.
    """

    template: str = Field(min_length=1)
    variables: tuple[str, ...]
    reply_schema: dict[str, Any] | None = None
    answers: tuple[str, str] | None = None
    examples: tuple[ReplyExample, ...] = ()

    def fill(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the template's variables with their values, of which the task's examples are its own.

        Raises:
            KeyError: the name of a variable that is not given.
        """
        known = {**given, EXAMPLES: [example.model_dump(mode="json") for example in self.examples]}
        return {name: known[name] for name in self.variables}


class PackManifest(_Frozen):
    """`pack.yaml`. The last class is the default: an interruption belongs to it when no other class fits.

    `read_pack` checks more than these types: that keys differ, schemas are of the tasks' replies, templates are sound.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    description: str = Field(min_length=1)
    language: str = Field(pattern=r"^[a-z]{2,3}$")
    classes: tuple[PackClass, ...] = Field(min_length=2)
    tasks: dict[str, TaskManifest]

    @property
    def has_kinds(self) -> bool:
        return any(item.kinds for item in self.classes)
