"""Which fields of a class a template shows: a change of another one leaves its prompts as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from jinja2 import nodes

from bystander.prompts.render import make_environment
from bystander.schemas.identity import digest_json
from bystander.schemas.packs import PackClass

_CLASS = "class"
_NOT_SHOWN = frozenset({"share"})
"""Fields that decide how many rows there are, not what is said in one. A template that names one still shows it."""


def find_class_fields(source: str) -> frozenset[str]:
    """Return the fields of the variable `class` that a template can read, found without rendering it.

    It is all of them where the class is handed on whole: printed, filtered, bound to another name, looked up by
    something that is no constant.
    """
    tree = make_environment().parse(source)
    everything = frozenset(PackClass.model_fields) - _NOT_SHOWN
    named: set[str] = set()
    whole = sum(1 for name in tree.find_all(nodes.Name) if name.name == _CLASS)
    read = [(node.node, node.attr) for node in tree.find_all(nodes.Getattr)]
    read += [(node.node, _read_constant(node.arg)) for node in tree.find_all(nodes.Getitem)]
    for owner, field in read:
        if isinstance(owner, nodes.Name) and owner.name == _CLASS and field in PackClass.model_fields:
            named.add(field)
            whole -= 1
    return everything | named if whole else frozenset(named)


def _read_constant(node: nodes.Node) -> str:
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else ""


def describe_class_fields(classes: Sequence[PackClass], fields: AbstractSet[str]) -> dict[str, dict[str, str]]:
    """Return, for each class by its key, the digest of each of these fields."""
    return {item.key: dict(_digest_fields(item, fields)) for item in classes}


def _digest_fields(item: PackClass, fields: AbstractSet[str]) -> Iterable[tuple[str, str]]:
    for name, value in item.model_dump(mode="json", include={*fields}).items():
        yield name, digest_json(value)
