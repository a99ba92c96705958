"""Loading the rubrics of an evaluation that does not depend on a response strategy: a folder here, without classes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import yaml
from jinja2 import Template

from bystander.prompts.render import compile_template, render_messages
from bystander.schemas.engines import Message
from bystander.schemas.errors import PackError
from bystander.schemas.identity import digest_json
from bystander.schemas.packs import PackClass
from bystander.schemas.text_tasks import VOICEBENCH_JUDGE_TASKS, TextTask

_MANIFEST = "rubrics.yaml"
_TASKS: Mapping[str, tuple[TextTask, ...]] = {"voicebench": VOICEBENCH_JUDGE_TASKS}


class RubricSet:
    """Built-in rubrics; implements `schemas.packs.PromptPack` with no class, so that stages take it for a pack."""

    def __init__(
        self, name: str, templates: Mapping[str, Template], schemas: Mapping[str, Any], sources: Mapping[str, str]
    ) -> None:
        """Take compiled templates, reply schemas and the templates' texts, each by task."""
        self._name = name
        self._templates = dict(templates)
        self._schemas = dict(schemas)
        self._sources = dict(sources)

    @property
    def name(self) -> str:
        return self._name

    @property
    def digest(self) -> str:
        """SHA-256 over templates and schemas."""
        return hashlib.sha256(digest_json([self._sources, self._schemas]).encode()).hexdigest()

    @property
    def classes(self) -> tuple[PackClass, ...]:
        return ()

    def messages(self, task: str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        """Render the chat messages of a task.

        Raises:
            PackError: there is no such task, or its template fails.
        """
        self._require(task)
        return render_messages(self._templates[task], variables, f"rubrics {self._name}: {task}")

    def reply_schema(self, task: str) -> Mapping[str, Any] | None:
        """Return the JSON schema of a task's reply."""
        self._require(task)
        schema: Mapping[str, Any] = self._schemas[task]
        return schema

    def answers(self, task: str) -> tuple[str, str]:
        """Raise a `PackError`: no rubric is answered by one of two options."""
        raise PackError(f"rubrics {self._name}: task {task!r} has no pair of answers")

    def task_digest(self, task: str) -> str:
        """Return a digest over what decides this task's prompts."""
        self._require(task)
        return digest_json([task, self._sources[task], self._schemas[task]])

    def _require(self, task: str) -> None:
        if task not in self._templates:
            raise PackError(f"rubrics {self._name}: no task {task!r}; there are {', '.join(self._templates)}")


def load_rubrics(name: str) -> RubricSet:
    """Load built-in rubrics by name.

    Raises:
        PackError: there are none of this name.
    """
    if name not in _TASKS:
        raise PackError(f"rubrics {name!r}: there are none; there are {', '.join(_TASKS)}")
    folder = resources.files("bystander.prompts").joinpath("rubrics").joinpath(name)
    manifest = yaml.safe_load(folder.joinpath(_MANIFEST).read_text("utf-8"))
    tasks = {task.name: task for task in _TASKS[name]}
    sources = {task: folder.joinpath(manifest["tasks"][task]["template"]).read_text("utf-8") for task in tasks}
    templates = {
        task: compile_template(source, tasks[task].variables, f"rubrics {name}: {task}")
        for task, source in sources.items()
    }
    schemas = {task: manifest["tasks"][task]["reply_schema"] for task in tasks}
    return RubricSet(name, templates, schemas, sources)
