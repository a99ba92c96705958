"""Reading a pack whole: its manifest, templates and reply formats, and all that is wrong with them at once.

What is sound in a faulty pack is kept, so that the rest of it can be checked as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jinja2 import Template
from pydantic import BaseModel, ValidationError

from bystander.prompts.class_rules import find_class_faults
from bystander.prompts.control_characters import find_control_character
from bystander.prompts.files import read_text
from bystander.prompts.find_packs import MANIFEST_NAME, FoundPack, find_pack, list_built_in_packs
from bystander.prompts.manifest import EXAMPLES, PROMPT_VARIABLES, PackManifest, TaskManifest
from bystander.prompts.manifest_faults import list_manifest_faults
from bystander.prompts.pack_faults import Level, PackFault, order_faults
from bystander.prompts.pack_yaml import YamlText, read_yaml
from bystander.prompts.render import try_compile
from bystander.prompts.reply_schemas import find_answers_fault, find_reply_faults, find_schema_faults
from bystander.schemas.errors import PackError
from bystander.schemas.packs import PackClass
from bystander.schemas.text_tasks import JUDGE_TASKS, LABEL_KIND, PACK_TASKS, TASKS, TWO_OPTION_TASKS

Path = tuple[str | int, ...]
_LEAST_CLASSES = 2
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(slots=True)
class PackParts:
    """What there is of a pack. `manifest` is None where it has errors; then `classes` and `tasks` hold the sound ones.

    `files` has the texts of the files that were read, by name, `classes` the sound classes by position, `templates` the
    sound templates by task, and `sources` the texts of all that could be read.
    """

    yaml: YamlText = field(default_factory=YamlText)
    manifest: PackManifest | None = None
    classes: dict[int, PackClass] = field(default_factory=dict)
    tasks: dict[str, TaskManifest] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    faults: list[PackFault] = field(default_factory=list)

    def add(self, path: Path, message: str, level: Level = "error", line: int | None = None) -> None:
        """Add a fault of the manifest's field at `path`; its line is found by it where none is given."""
        name = self.name_field(path)
        self.faults.append(PackFault(MANIFEST_NAME, line or self.yaml.find_line(path), name, message, level))

    def name_field(self, path: Path) -> str:
        """Return a field's dotted name, with a class by its key rather than by its position."""
        names: list[str] = []
        value: Any = self.yaml.data
        for step in path:
            value = _get(value, step)
            key = value.get("key") if isinstance(step, int) and isinstance(value, dict) else None
            names.append(key if isinstance(key, str) else str(step))
        return ".".join(names)

    @property
    def errors(self) -> list[PackFault]:
        return [fault for fault in self.faults if fault.level == "error"]


def read_pack(found: FoundPack) -> PackParts:
    """Read a pack and check all of its files; never raises for what is in them."""
    parts = PackParts()
    _read_manifest(found, parts)
    if isinstance(parts.yaml.data, dict):
        for path, message, level in find_class_faults(parts.classes):
            parts.add(path, message, level)
        _check_task_names(parts)
        for task in sorted(parts.tasks):
            _check_task(task, found, parts)
        _check_name(found, parts)
    parts.faults = order_faults(parts.faults)
    return parts


def _read_manifest(found: FoundPack, parts: PackParts) -> None:
    assert found.folder is not None
    try:
        text = parts.files[MANIFEST_NAME] = read_text(found.folder, MANIFEST_NAME)
    except PackError as exc:
        parts.faults.append(PackFault(MANIFEST_NAME, None, "", str(exc)))
        return
    parts.yaml = read_yaml(text)
    for line, path, message in parts.yaml.faults:
        parts.add(path, message, line=line)
    data = parts.yaml.data
    if not isinstance(data, dict):
        if not parts.yaml.faults:
            fields = ", ".join(PackManifest.model_fields)
            parts.add((), f"file: must be a mapping with the fields {fields}")
        return
    try:
        parts.manifest = PackManifest.model_validate(data)
    except ValidationError as exc:
        for path, message in list_manifest_faults(exc):
            parts.add(path, message)
    classes = data.get("classes")
    if isinstance(classes, list) and len(classes) < _LEAST_CLASSES:
        parts.add(("classes",), f"has {len(classes)} of at least {_LEAST_CLASSES} classes; the last is the default")
    parts.classes = dict(_salvage_list(PackClass, classes))
    parts.tasks = dict(_salvage_mapping(TaskManifest, data.get("tasks")))


def _salvage_list(kind: type[_Model], items: Any) -> Iterator[tuple[int, _Model]]:
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if (model := _salvage(kind, item)) is not None:
            yield number, model


def _salvage_mapping(kind: type[_Model], items: Any) -> Iterator[tuple[str, _Model]]:
    for name, item in items.items() if isinstance(items, dict) else ():
        if (model := _salvage(kind, item)) is not None:
            yield name, model


def _salvage(kind: type[_Model], data: Any) -> _Model | None:
    """Return the model of `data` without its faulty fields, or None where it needs them."""
    try:
        return kind.model_validate(data)
    except ValidationError as exc:
        faulty = {fault["loc"][0] for fault in exc.errors() if fault["loc"]}
    if not isinstance(data, dict) or not faulty:
        return None
    try:
        return kind.model_validate({key: value for key, value in data.items() if key not in faulty})
    except ValidationError:
        return None


def _check_task_names(parts: PackParts) -> None:
    named = parts.yaml.data.get("tasks")
    if not isinstance(named, dict):
        return
    for task in sorted(set(named) - set(PACK_TASKS)):
        line = parts.yaml.find_line(("tasks", task))
        parts.add(("tasks",), f"unknown {task}; known are {', '.join(PACK_TASKS)}", line=line)
        parts.tasks.pop(task, None)
    has_kinds = any(item.kinds for item in parts.classes.values())
    needed = {task.name for task in TASKS} - (set() if has_kinds else {LABEL_KIND.name})
    if missing := sorted(needed - set(named)):
        parts.add(("tasks",), f"{', '.join(missing)} missing")
    if unjudged := [task.name for task in JUDGE_TASKS if task.name not in named]:
        parts.add(
            ("tasks",),
            f"no {', '.join(unjudged)}: the pack builds data, but an evaluation cannot score by it",
            "warning",
        )


def _check_task(name: str, found: FoundPack, parts: PackParts) -> None:
    task, entry, here = PACK_TASKS[name], parts.tasks[name], ("tasks", name)
    schema_faults = find_schema_faults(entry.reply_schema, task)
    for path, message in schema_faults:
        parts.add((*here, "reply_schema", *path), message)
    if entry.answers is not None:
        if name not in TWO_OPTION_TASKS:
            only = " and ".join(sorted(TWO_OPTION_TASKS))
            parts.add((*here, "answers"), f"only {only} are asked for one of two")
        elif (fault := find_answers_fault(entry.answers)) is not None:
            parts.add((*here, "answers"), fault)
    _check_variables(name, parts)
    for number, example in enumerate(entry.examples):
        for path, message in _find_example_faults(name, example.given, parts):
            parts.add((*here, "examples", number, *path), message)
        if entry.reply_schema is not None and not schema_faults:
            for path, message in find_reply_faults(entry.reply_schema, example.reply):
                parts.add((*here, "examples", number, "reply", *path), f"does not fit the task's schema: {message}")
    _read_template(name, found, parts)


def _check_variables(name: str, parts: PackParts) -> None:
    entry, here = parts.tasks[name], ("tasks", name, "variables")
    given = PROMPT_VARIABLES[name] | ({EXAMPLES} if entry.examples else frozenset())
    if unknown := sorted(set(entry.variables) - given):
        known = ", ".join(sorted(given))
        parts.add(here, f"{', '.join(unknown)} is not given to this task, which has {known}")
    if doubled := sorted({item for item in entry.variables if entry.variables.count(item) > 1}):
        parts.add(here, f"{', '.join(doubled)} twice; once is enough", "warning")
    if entry.examples and EXAMPLES not in entry.variables:
        parts.add(here, f"the task's examples are not shown: declare the variable {EXAMPLES}", "warning")


def _find_example_faults(name: str, given: Mapping[str, str], parts: PackParts) -> Iterator[tuple[Path, str]]:
    if parts.tasks[name].reply_schema is None:
        yield (), "this task is scored by options, so a reply to it is none of JSON"
    known = PROMPT_VARIABLES[name]
    for variable in given:
        if variable not in known:
            yield ("given", variable), f"is no variable of this task, which has {', '.join(sorted(known))}"
    keys = _list_class_keys(parts)
    if "class" in known and "class" in given and given["class"] not in keys:
        yield ("given", "class"), f"{given['class']!r} is no class; there are {', '.join(keys)}"


def _list_class_keys(parts: PackParts) -> list[str]:
    # A class that has faults is a class nevertheless.
    classes = parts.yaml.data.get("classes")
    keys = [_get(item, "key") for item in classes] if isinstance(classes, list) else []
    return [key for key in keys if isinstance(key, str)]


def _read_template(name: str, found: FoundPack, parts: PackParts) -> None:
    entry = parts.tasks[name]
    file = entry.template
    assert found.folder is not None
    if file not in parts.files:
        try:
            parts.files[file] = read_text(found.folder, file)
        except PackError as exc:
            shown = file if file.isprintable() else repr(file)
            parts.add(("tasks", name, "template"), f"{shown[:200]}: {exc}")
            return
    parts.sources[name] = parts.files[file]
    template, faults = try_compile(parts.sources[name], frozenset(entry.variables))
    if (unseen := find_control_character(parts.sources[name])) is not None:
        position, message = unseen
        faults = [(parts.sources[name].count("\n", 0, position) + 1, message), *faults]
    parts.faults.extend(PackFault(file, line, "", message) for line, message in faults)
    if template is not None:
        parts.templates[name] = template


def _check_name(found: FoundPack, parts: PackParts) -> None:
    name = parts.yaml.data.get("name")
    if not isinstance(name, str) or found.origin == "built-in":
        return
    if found.origin == "installed" and name != found.source:
        parts.add(("name",), f"{name!r} must be the name of the entry point, {found.source!r}, that offers the pack")
    if name in list_built_in_packs() and not _is_unchanged(parts, find_pack(name)):
        parts.add(("name",), f"{name!r} is the name of a pack that comes with Bystander; give yours another name")


def _is_unchanged(parts: PackParts, original: FoundPack) -> bool:
    assert original.folder is not None
    try:
        return all(read_text(original.folder, file) == text for file, text in parts.files.items())
    except PackError:  # it has no such file
        return False


def _get(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None
