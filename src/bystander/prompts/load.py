"""Loading a prompt pack: a folder with `pack.yaml` and one template a task.

All faults are `PackError`s that name the pack, the file and the field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Template

from bystander.prompts.files import check_answers_differ, check_reply_schema, parse_manifest, read_pack_file
from bystander.prompts.manifest import EXAMPLES, PROMPT_VARIABLES, PackManifest, TaskManifest
from bystander.prompts.render import compile_template, render_messages
from bystander.schemas.engines import Message
from bystander.schemas.errors import PackError
from bystander.schemas.identity import digest_json
from bystander.schemas.packs import PackClass
from bystander.schemas.text_tasks import JUDGE_TASKS, LABEL_KIND, NO, TASKS, TWO_OPTION_TASKS, YES

MANIFEST_NAME = "pack.yaml"


class LoadedPack:
    """A validated pack; implements `schemas.packs.PromptPack`."""

    def __init__(
        self, manifest: PackManifest, templates: Mapping[str, Template], sources: Mapping[str, str], digest: str
    ) -> None:
        """`templates` and `sources` (the templates' texts) go by task; `digest` is over the pack's files."""
        self._manifest = manifest
        self._templates = dict(templates)
        self._sources = dict(sources)
        self._digest = digest

    @property
    def name(self) -> str:
        return self._manifest.name

    @property
    def language(self) -> str:
        return self._manifest.language

    @property
    def description(self) -> str:
        return self._manifest.description

    @property
    def digest(self) -> str:
        """SHA-256 over the pack's files."""
        return self._digest

    @property
    def classes(self) -> tuple[PackClass, ...]:
        return self._manifest.classes

    def messages(self, task: str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        """Render the chat messages of a task.

        Raises:
            PackError: the pack has no such task, a variable is missing, or the template fails.
        """
        entry = self._entry(task)
        known = {**variables, EXAMPLES: [example.model_dump(mode="json") for example in entry.examples]}
        if missing := sorted(set(entry.variables) - set(known)):
            raise PackError(f"pack {self.name}: task {task}: no value for {', '.join(missing)}")
        given = {key: known[key] for key in entry.variables}
        return render_messages(self._templates[task], given, f"pack {self.name}: {entry.template}")

    def reply_schema(self, task: str) -> Mapping[str, Any] | None:
        """Return the JSON schema of a task's reply, or None where it is scored by options."""
        return self._entry(task).reply_schema

    def answers(self, task: str) -> tuple[str, str]:
        """Return the two options of a task of `TWO_OPTION_TASKS`: the one that says so, and the other."""
        return self._entry(task).answers or (YES, NO)

    def task_digest(self, task: str) -> str:
        """Return a digest over the task's template, options and reply schema, and the classes where it shows them."""
        entry = self._entry(task)
        # How many rows a class should have is nothing that a prompt shows.
        classes = [item.model_dump(mode="json", exclude={"share"}, exclude_none=True) for item in self.classes]
        classes = classes if "class" in entry.variables else []
        asked = [entry.reply_schema, list(entry.answers or ())]
        shown = [item.model_dump(mode="json") for item in entry.examples] if EXAMPLES in entry.variables else []
        return digest_json(
            [task, self._sources[task], list(entry.variables), asked, classes, *([shown] if shown else [])]
        )

    def source(self, task: str) -> str:
        """Return the text of a task's template."""
        return self._sources[task]

    def describe_manifest(self) -> dict[str, Any]:
        """Return `pack.yaml` as data, to be written out again; the caller's to change."""
        return self._manifest.model_dump(mode="json", exclude_unset=True)

    def require_rubrics(self) -> None:
        """Raise a `PackError` if the pack cannot score a system: a pack may leave its rubrics out until then."""
        if missing := [task.name for task in JUDGE_TASKS if task.name not in self._manifest.tasks]:
            raise PackError(
                f"pack {self.name}: {MANIFEST_NAME}: tasks: no {', '.join(missing)}; an evaluation judges by these "
                "rubrics, so add them or score with another pack"
            )

    def _entry(self, task: str) -> TaskManifest:
        try:
            return self._manifest.tasks[task]
        except KeyError:
            raise PackError(f"pack {self.name}: {MANIFEST_NAME}: tasks: no task {task!r}") from None


def list_packs() -> list[str]:
    """Return the names of the built-in packs."""
    folder = resources.files("bystander.prompts").joinpath("packs")
    return sorted(entry.name for entry in folder.iterdir() if entry.joinpath(MANIFEST_NAME).is_file())


def load_pack(source: str) -> LoadedPack:
    """Load a built-in pack by name, or a pack from a folder.

    Raises:
        PackError: there is no such pack, or it is invalid.
    """
    if source in list_packs():
        with resources.as_file(resources.files("bystander.prompts").joinpath("packs").joinpath(source)) as folder:
            return _load_folder(folder, source)
    folder = Path(source)
    if not folder.is_dir():
        raise PackError(
            f"pack {source!r}: neither a built-in pack ({', '.join(list_packs())}) nor a folder with a {MANIFEST_NAME}"
        )
    return _load_folder(folder, source)


def _load_folder(folder: Path, label: str) -> LoadedPack:
    where = f"pack {label}"
    files = {MANIFEST_NAME: read_pack_file(folder, MANIFEST_NAME, where)}
    manifest = _parse_manifest(files[MANIFEST_NAME], where)
    _check_tasks(manifest, where)
    templates: dict[str, Template] = {}
    sources: dict[str, str] = {}
    for task, entry in sorted(manifest.tasks.items()):
        field = f"{where}: {MANIFEST_NAME}: tasks.{task}"
        variables = frozenset(entry.variables)
        given = PROMPT_VARIABLES[task] | ({EXAMPLES} if entry.examples else frozenset())
        if unknown := sorted(variables - given):
            known = ", ".join(sorted(given))
            raise PackError(f"{field}.variables: {', '.join(unknown)} is not given to this task, which has {known}")
        files[entry.template] = read_pack_file(folder, entry.template, f"{field}.template")
        sources[task] = files[entry.template]
        templates[task] = compile_template(sources[task], variables, f"{where}: {entry.template}")
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(digest_json([name, files[name]]).encode())
    return LoadedPack(manifest, templates, sources, digest.hexdigest())


def _parse_manifest(text: str, where: str) -> PackManifest:
    return parse_manifest(PackManifest, text, f"{where}: {MANIFEST_NAME}")


def _check_tasks(manifest: PackManifest, where: str) -> None:
    known = {task.name: task for task in (*TASKS, *JUDGE_TASKS)}
    needed = {task.name for task in TASKS} - (set() if manifest.has_kinds else {LABEL_KIND.name})
    if unknown := sorted(set(manifest.tasks) - set(known)):
        raise PackError(f"{where}: {MANIFEST_NAME}: tasks: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    if missing := sorted(needed - set(manifest.tasks)):
        raise PackError(f"{where}: {MANIFEST_NAME}: tasks: {', '.join(missing)} missing")
    for name, entry in manifest.tasks.items():
        field = f"{where}: {MANIFEST_NAME}: tasks.{name}"
        check_reply_schema(entry.reply_schema, known[name], field)
        _check_answers(entry.answers, name, field)


def _check_answers(answers: tuple[str, str] | None, task: str, where: str) -> None:
    if answers is None:
        return
    if task not in TWO_OPTION_TASKS:
        raise PackError(f"{where}.answers: only {' and '.join(sorted(TWO_OPTION_TASKS))} are asked for one of two")
    check_answers_differ(answers, where)
