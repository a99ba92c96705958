"""Loading prompts that do not depend on a response strategy: a folder with `rubrics.yaml`, without classes.

The folders in `rubrics/` are built in: `voicebench`, what judges of VoiceBench are asked, `sid`, what taggers and
script writers of SID builds are asked, and `curation`, what the judge of pairs from real recordings is asked. A user's
own folder has the tasks of one of these.

All faults are `PackError`s that name the folder, the file and the field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Template
from pydantic import BaseModel, ConfigDict, Field

from bystander.prompts.files import parse_manifest, read_pack_file
from bystander.prompts.render import compile_template, render_messages
from bystander.prompts.reply_schemas import check_answers_differ, check_reply_schema
from bystander.schemas.engines import Message
from bystander.schemas.errors import PackError
from bystander.schemas.identity import digest_json
from bystander.schemas.packs import PackClass
from bystander.schemas.text_tasks import CURATION_TASKS, NO, SID_TASKS, VOICEBENCH_JUDGE_TASKS, YES, TextTask

RUBRICS_MANIFEST = "rubrics.yaml"
_TASKS: Mapping[str, tuple[TextTask, ...]] = {
    "voicebench": VOICEBENCH_JUDGE_TASKS,
    "sid": SID_TASKS,
    "curation": CURATION_TASKS,
}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RubricTask(_Frozen):
    """One task: its template, the variables that it uses (all of the task's, if none are named), and its reply.

    A task that writes has a `reply_schema`. One that is scored by two options may name them in `answers`, the one that
    says so first; else they are Yes and No.
    """

    template: str = Field(min_length=1)
    variables: tuple[str, ...] | None = None
    reply_schema: dict[str, Any] | None = None
    answers: tuple[str, str] | None = None


class RubricsManifest(_Frozen):
    """`rubrics.yaml`. `name` says which built-in set's tasks these are."""

    name: str
    tasks: dict[str, RubricTask]


class RubricSet:
    """Validated prompts; implements `schemas.packs.PromptPack` with no class, so that stages take it for a pack."""

    def __init__(
        self, label: str, tasks: Mapping[str, RubricTask], templates: Mapping[str, Template], sources: Mapping[str, str]
    ) -> None:
        """Take what `rubrics.yaml` says, compiled templates and their texts, each by task; `label` is for messages."""
        self._label = label
        self._tasks = dict(tasks)
        self._templates = dict(templates)
        self._sources = dict(sources)

    @property
    def name(self) -> str:
        return self._label

    @property
    def digest(self) -> str:
        """SHA-256 over all that decides a prompt."""
        return hashlib.sha256(
            digest_json([self.task_digest(task) for task in sorted(self._tasks)]).encode()
        ).hexdigest()

    @property
    def tasks(self) -> frozenset[str]:
        """The names of its tasks."""
        return frozenset(self._tasks)

    @property
    def classes(self) -> tuple[PackClass, ...]:
        return ()

    def messages(self, task: str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        """Render the chat messages of a task.

        Raises:
            PackError: there is no such task, or its template fails.
        """
        self._entry(task)
        return render_messages(self._templates[task], variables, f"rubrics {self._label}: {task}")

    def reply_schema(self, task: str) -> Mapping[str, Any] | None:
        """Return the JSON schema of a task's reply, or None where it is scored by options."""
        return self._entry(task).reply_schema

    def answers(self, task: str) -> tuple[str, str]:
        """Return the two options of a task that is scored by them.

        Raises:
            PackError: there is no such task, or it writes.
        """
        entry = self._entry(task)
        if entry.reply_schema is not None:
            raise PackError(f"rubrics {self._label}: task {task!r} has no pair of answers")
        return entry.answers or (YES, NO)

    def describe_task(self, task: str) -> dict[str, Any]:
        """Return what decides a task's prompts."""
        entry = self._entry(task)
        return {
            "template": digest_json(self._sources[task]),
            "reply_schema": entry.reply_schema and digest_json(entry.reply_schema),
            "answers": list(entry.answers or ()),
        }

    def task_digest(self, task: str) -> str:
        """Return a digest over what decides a task's prompts."""
        return digest_json([task, self.describe_task(task)])

    def _entry(self, task: str) -> RubricTask:
        if task not in self._tasks:
            raise PackError(f"rubrics {self._label}: no task {task!r}; there are {', '.join(self._tasks)}")
        return self._tasks[task]


def list_rubrics() -> list[str]:
    """Return the names of the built-in sets."""
    return sorted(_TASKS)


def load_rubrics(source: str) -> RubricSet:
    """Load a built-in set by name, or a set from a folder.

    Raises:
        PackError: there is no such set, or it is invalid.
    """
    if source in _TASKS:
        built_in = resources.files("bystander.prompts").joinpath("rubrics").joinpath(source)
        with resources.as_file(built_in) as folder:
            return _load_folder(folder, source)
    folder = Path(source)
    if not folder.is_dir():
        raise PackError(
            f"rubrics {source!r}: there are none; there are {', '.join(list_rubrics())}, or give the path of a folder "
            f"with a {RUBRICS_MANIFEST}"
        )
    return _load_folder(folder, source)


def _load_folder(folder: Path, label: str) -> RubricSet:
    where = f"rubrics {label}"
    field = f"{where}: {RUBRICS_MANIFEST}"
    manifest = parse_manifest(RubricsManifest, read_pack_file(folder, RUBRICS_MANIFEST, where), field)
    if manifest.name not in _TASKS:
        raise PackError(f"{field}: name: {manifest.name!r} is no set of tasks; there are {', '.join(list_rubrics())}")
    known = {task.name: task for task in _TASKS[manifest.name]}
    if unknown := sorted(set(manifest.tasks) - set(known)):
        raise PackError(f"{field}: tasks: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    if missing := sorted(set(known) - set(manifest.tasks)):
        raise PackError(f"{field}: tasks: {', '.join(missing)} missing")
    sources: dict[str, str] = {}
    templates: dict[str, Template] = {}
    for name, task in known.items():
        entry = manifest.tasks[name]
        _check_task(entry, task, f"{field}: tasks.{name}")
        sources[name] = read_pack_file(folder, entry.template, f"{field}: tasks.{name}.template")
        variables = frozenset(entry.variables) if entry.variables is not None else task.variables
        templates[name] = compile_template(sources[name], variables, f"{where}: {entry.template}")
    return RubricSet(label, manifest.tasks, templates, sources)


def _check_task(entry: RubricTask, task: TextTask, where: str) -> None:
    if unknown := sorted(set(entry.variables or ()) - task.variables):
        known = ", ".join(sorted(task.variables))
        raise PackError(f"{where}.variables: {', '.join(unknown)} is not given to this task, which has {known}")
    check_reply_schema(entry.reply_schema, task, where)
    if entry.answers is not None:
        if entry.reply_schema is not None:
            raise PackError(f"{where}.answers: this task writes and has no options")
        check_answers_differ(entry.answers, where)
