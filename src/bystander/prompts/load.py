"""Loading a prompt pack: a folder with `pack.yaml` and one template a task.

All faults are `PackError`s that name the pack, the file, the line and the field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template

from bystander.prompts.class_fields import describe_class_fields, find_class_fields
from bystander.prompts.find_packs import MANIFEST_NAME, find_pack
from bystander.prompts.manifest import EXAMPLES, PackManifest, TaskManifest
from bystander.prompts.pack_faults import PackFault
from bystander.prompts.read_pack import read_pack
from bystander.prompts.render import render_messages
from bystander.schemas.engines import Message
from bystander.schemas.errors import PackError
from bystander.schemas.identity import digest_json
from bystander.schemas.packs import PackClass
from bystander.schemas.text_tasks import JUDGE_TASKS, NO, YES

_MOST_SHOWN = 20


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
        if missing := sorted(set(entry.variables) - {*variables, EXAMPLES}):
            raise PackError(f"pack {self.name}: task {task}: no value for {', '.join(missing)}")
        given = entry.fill(variables)
        return render_messages(self._templates[task], given, f"pack {self.name}: {entry.template}")

    def reply_schema(self, task: str) -> Mapping[str, Any] | None:
        """Return the JSON schema of a task's reply, or None where it is scored by options."""
        return self._entry(task).reply_schema

    def answers(self, task: str) -> tuple[str, str]:
        """Return the two options of a task of `TWO_OPTION_TASKS`: the one that says so, and the other."""
        return self._entry(task).answers or (YES, NO)

    def describe_task(self, task: str) -> dict[str, Any]:
        """Return what decides a task's prompts: template, reply schema, options, and of classes what they show."""
        entry = self._entry(task)
        fields = find_class_fields(self._sources[task]) if "class" in entry.variables else frozenset()
        shown = [item.model_dump(mode="json") for item in entry.examples] if EXAMPLES in entry.variables else []
        return {
            "template": digest_json(self._sources[task]),
            "reply_schema": entry.reply_schema and digest_json(entry.reply_schema),
            "answers": list(entry.answers or ()),
            "examples": digest_json(shown) if shown else None,
            "classes": describe_class_fields(self.classes, fields) if fields else {},
        }

    def task_digest(self, task: str) -> str:
        """Return a digest over what decides a task's prompts."""
        return digest_json([task, self.describe_task(task)])

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


def load_pack(source: str) -> LoadedPack:
    """Load a built-in pack by name, a pack from a folder, or an installed package's pack by name.

    Raises:
        PackError: there is no such pack, or it is invalid: the message has every error, with file and line.
    """
    parts = read_pack(find_pack(source))
    require_no_errors(source, parts.errors)
    assert parts.manifest is not None
    return LoadedPack(parts.manifest, parts.templates, parts.sources, digest_files(parts.files))


def require_no_errors(source: str, errors: Sequence[PackFault]) -> None:
    """Raise a `PackError` that names the errors of a pack, if there are any."""
    if errors:
        shown = "; ".join(map(str, errors[:_MOST_SHOWN]))
        more = len(errors) - _MOST_SHOWN
        raise PackError(
            f"pack {source}: {shown}" + (f"; and {more} more, see `bystander pack check {source}`" if more > 0 else "")
        )


def digest_files(files: Mapping[str, str]) -> str:
    """Return the SHA-256 over a pack's files, given as texts by name."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(digest_json([name, files[name]]).encode())
    return digest.hexdigest()
