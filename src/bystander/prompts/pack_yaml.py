"""YAML from strangers, read as plain JSON data, with the line of every field.

Aliases, tags, merge keys and repeated keys are refused, and so are deep nesting and numbers that JSON cannot say: a few
nested aliases can stand for gigabytes, and of two equal keys YAML silently takes the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from bystander.prompts.control_characters import find_control_character

MAX_DEPTH = 24
_LARGEST_INTEGER = 2**53
# libyaml's parser reads the same language; without it, PyYAML's own is ten times slower.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Path = tuple[str | int, ...]


@dataclass(slots=True)
class YamlText:
    """What a YAML text says. Where `faults` (line, field, message) has any, `data` may lack parts."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[tuple[int | None, Path, str]] = field(default_factory=list)
    name_span: tuple[int, int] | None = None
    """Where the value of the top-level key `name` begins and ends in the text, in characters."""

    def find_line(self, path: Sequence[str | int]) -> int | None:
        """Return the line of a field, or of the innermost one around it that is in the text."""
        for length in range(len(path), -1, -1):
            if (line := self.lines.get(tuple(path[:length]))) is not None:
                return line
        return None


def read_yaml(text: str) -> YamlText:
    """Read one YAML document; never raises for what is in the text."""
    found = YamlText()
    try:
        node = _compose(text, found)
        if node is not None and not found.faults:
            found.data = _construct(node, (), found)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        said = "; ".join(part for part in (exc.context, exc.problem) if part)
        found.faults.append((mark.line + 1 if mark else None, (), f"is not valid YAML ({said})"))
    except yaml.YAMLError as exc:
        found.faults.append((None, (), f"is not valid YAML ({' '.join(str(exc).split())})"))
    return found


def _compose(text: str, found: YamlText) -> yaml.Node | None:
    # Events come one by one, so this pass cannot run out of stack; composing recurses.
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            found.faults.append((line, (), "YAML aliases are not allowed: write the value out"))
        elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            found.faults.append((line, (), f"YAML anchors (&{event.anchor}) are not allowed: nothing may refer to one"))
        if getattr(event, "tag", None) is not None:
            found.faults.append((line, (), f"YAML tags ({event.tag}) are not allowed: write plain values"))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                found.faults.append((line, (), f"is nested deeper than {MAX_DEPTH} levels"))
                return None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None if found.faults else yaml.compose(text, Loader=_Loader)


def _construct(node: Any, path: Path, found: YamlText) -> Any:
    found.lines.setdefault(path, node.start_mark.line + 1)
    if path == ("name",):
        found.name_span = (node.start_mark.index, node.end_mark.index)
    if isinstance(node, yaml.MappingNode):
        return _construct_mapping(node, path, found)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*path, i), found) for i, item in enumerate(node.value)]
    return _construct_scalar(node, path, found)


def _construct_mapping(node: yaml.MappingNode, path: Path, found: YamlText) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key, str):
            found.faults.append((line, path, "a key must be a word, not a list or mapping"))
        elif key_node.tag != "tag:yaml.org,2002:str":
            found.faults.append(
                (line, path, f"the key {key[:40]!r} is no text to YAML: put it in quotes, or choose another")
            )
        elif key in data:
            first = found.lines[(*path, key)]
            found.faults.append(
                (line, (*path, key), f"occurs twice, first in line {first}; of two, YAML would drop one")
            )
        else:
            found.lines[(*path, key)] = line
            data[key] = _construct(value_node, (*path, key), found)
    return data


def _construct_scalar(node: yaml.ScalarNode, path: Path, found: YamlText) -> Any:
    kind = node.tag.rpartition(":")[2]
    if kind not in ("null", "bool", "int", "float"):
        if any("\ud800" <= sign <= "\udfff" for sign in node.value):
            found.faults.append((node.start_mark.line + 1, path, "holds half a character (a lone surrogate)"))
            return ""
        if (unseen := find_control_character(node.value)) is not None:
            found.faults.append((node.start_mark.line + 1, path, unseen[1]))
        return node.value
    try:
        value = getattr(yaml.constructor.SafeConstructor(), f"construct_yaml_{kind}")(node)
    except ValueError:  # e.g. more digits than Python reads
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        found.faults.append((node.start_mark.line + 1, path, f"{node.value[:40]!r} is no number that JSON can say"))
        return None
    if type(value) is int and abs(value) > _LARGEST_INTEGER:
        found.faults.append((node.start_mark.line + 1, path, "is a whole number beyond 2^53"))
        return None
    return value
