"""Files of packs and rubrics: read within their folder, parsed, and their reply formats checked.

All faults are `PackError`s that name the folder, the file and the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel, ValidationError

from bystander.schemas.errors import PackError
from bystander.schemas.text_tasks import TextTask

MAX_FILE_BYTES = 64 * 1024

_Manifest = TypeVar("_Manifest", bound=BaseModel)


def read_pack_file(folder: Path, name: str, where: str) -> str:
    """Return a UTF-8 text file of a pack's folder, with line feeds only.

    Raises:
        PackError: it lies elsewhere, cannot be read, is too large, or is no UTF-8 text.
    """
    root = folder.resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(root):
        raise PackError(f"{where}: {name}: lies outside the pack's folder")
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise PackError(f"{where}: {name}: cannot be read ({exc.strerror})") from exc
    if len(raw) > MAX_FILE_BYTES:
        raise PackError(f"{where}: {name}: is larger than {MAX_FILE_BYTES} bytes")
    try:
        return raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise PackError(f"{where}: {name}: is not UTF-8 text") from exc


def parse_manifest(kind: type[_Manifest], text: str, where: str) -> _Manifest:
    """Parse a YAML manifest into its typed form.

    Raises:
        PackError: it is no YAML, has aliases, or does not fit the form.
    """
    try:
        # A few nested aliases can stand for gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise PackError(f"{where}: YAML aliases are not allowed")
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as exc:
        raise PackError(f"{where}: is not valid YAML ({exc})") from exc
    try:
        return kind.model_validate(data)
    except ValidationError as exc:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in exc.errors())
        raise PackError(f"{where}: {faults}") from exc


def check_answers_differ(answers: tuple[str, str], where: str) -> None:
    """Raise a `PackError` if two options cannot be told apart by the first token of the answer."""
    first, second = (answer.strip() for answer in answers)
    if not first or not second or first[0].casefold() == second[0].casefold():
        raise PackError(f"{where}.answers: {answers[0]!r} and {answers[1]!r} must begin with different characters")


def check_reply_schema(schema: Mapping[str, Any] | None, task: TextTask, where: str) -> None:
    """Raise a `PackError` unless `schema` is a JSON schema of the task's reply, none where it is scored by options."""
    keys = (*task.reply, *task.integers, *(("score",) if task.score else ()))
    if not keys:
        if schema is not None:
            raise PackError(f"{where}.reply_schema: this task is scored by options and takes no schema")
        return
    if schema is None:
        raise PackError(f"{where}.reply_schema: missing; the reply has the fields {', '.join(keys)}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as exc:
        raise PackError(f"{where}.reply_schema: is no JSON schema ({exc.message})") from exc
    properties = schema.get("properties", {})
    for key in task.reply:
        if key not in schema.get("required", ()) or properties.get(key, {}).get("type") != "string":
            raise PackError(f"{where}.reply_schema: needs a required property {key!r} of type string")
        if "maxLength" not in properties[key]:
            raise PackError(f"{where}.reply_schema.properties.{key}: needs a maxLength, so that a reply ends")
    for key in task.integers:
        if key not in schema.get("required", ()) or properties.get(key, {}).get("type") != "integer":
            raise PackError(f"{where}.reply_schema: needs a required property {key!r} of type integer")
    if task.score:
        _check_score(schema, task.score, where)


def _check_score(schema: Mapping[str, Any], bounds: tuple[int, int], where: str) -> None:
    """Hold the schema of a verdict to its scale, and to reasons that come before what follows from them."""
    lowest, highest = bounds
    properties = schema["properties"]
    score = properties.get("score", {})
    if "score" not in schema.get("required", ()) or score.get("type") != "integer":
        raise PackError(f"{where}.reply_schema: needs a required property 'score' of type integer")
    scale = [*range(lowest, highest + 1)]
    if "enum" in score:
        fits = sorted(map(repr, score["enum"])) == sorted(map(repr, scale))
    else:
        fits = (score.get("minimum"), score.get("maximum")) == bounds
    if not fits:
        raise PackError(
            f"{where}.reply_schema.properties.score: give it minimum {lowest} and maximum {highest}, or enum {scale}"
        )
    if list(properties).index("score") < list(properties).index("rationale"):
        raise PackError(
            f"{where}.reply_schema.properties: 'rationale' comes before 'score', so that reasons come first"
        )
