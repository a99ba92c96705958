"""A response pack together with prompts that do not depend on a response strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bystander.prompts.load_rubrics import RubricSet
from bystander.schemas.engines import Message
from bystander.schemas.packs import PackClass, PromptPack


class PackAndRubrics:
    """A pack that has the tasks of a set of rubrics too; implements `schemas.packs.PromptPack`.

    Its name, digest and classes are the pack's: rows are labelled by that alone. What the rubrics say is in the
    descriptions of the stages that ask by them.
    """

    def __init__(self, pack: PromptPack, rubrics: RubricSet) -> None:
        self._pack = pack
        self._rubrics = rubrics

    @property
    def name(self) -> str:
        return self._pack.name

    @property
    def digest(self) -> str:
        """That of the pack."""
        return self._pack.digest

    @property
    def classes(self) -> tuple[PackClass, ...]:
        return self._pack.classes

    def messages(self, task: str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        """Render the chat messages of a task."""
        return self._find(task).messages(task, variables)

    def reply_schema(self, task: str) -> Mapping[str, Any] | None:
        """Return the JSON schema of a task's reply, or None where it is scored by options."""
        return self._find(task).reply_schema(task)

    def answers(self, task: str) -> tuple[str, str]:
        """Return the two options of a task that is scored by them."""
        return self._find(task).answers(task)

    def describe_task(self, task: str) -> Mapping[str, Any]:
        """Return what decides a task's prompts."""
        return self._find(task).describe_task(task)

    def task_digest(self, task: str) -> str:
        """Return a digest over what decides a task's prompts."""
        return self._find(task).task_digest(task)

    def _find(self, task: str) -> PromptPack:
        return self._rubrics if task in self._rubrics.tasks else self._pack
