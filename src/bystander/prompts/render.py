"""Templates in a sandbox: text in, chat messages out.

A template renders to sections, each begun by a line `=== system`, `=== user` or `=== assistant`; the text up to the
next such line, without blank lines around it, is the message. A template that writes the row's part last lets model
servers reuse the computed prefix of the constant part.

Templates are data from strangers: they may use filters of a short list, loops and conditions, and may not call
anything, include files, or see attributes that start with an underscore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from jinja2 import StrictUndefined, Template, TemplateError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bystander.schemas.engines import Message
from bystander.schemas.errors import PackError

MAX_PROMPT_CHARACTERS = 20_000
_MAX_LOOP_DEPTH = 3
_FILTERS = ("capitalize", "first", "join", "last", "length", "lower", "replace", "title", "tojson", "trim", "upper")
_SECTION = re.compile(r"^=== (system|user|assistant)[ \t]*$", re.MULTILINE)


class _PackEnvironment(ImmutableSandboxedEnvironment):
    """Nothing can be called, and no operator can blow a text up."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_callable(self, obj: Any) -> bool:
        del obj
        return False

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        del context, left, right
        raise SecurityError(f"the operator {operator} is not allowed in a template")


def make_environment() -> ImmutableSandboxedEnvironment:
    """Return the Jinja environment that pack templates are compiled in."""
    environment = _PackEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False
    )
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters["plain"] = strip_punctuation
    environment.filters["tojson"] = _dump_json
    return environment


def strip_punctuation(text: str) -> str:
    """Return `text` in lower case without . , ? ! : what a typed query looks like (the filter `plain`)."""
    return re.sub(r"[.,?!]+", "", text).lower()


def _dump_json(value: Any) -> str:
    # Jinja's own filter escapes for HTML: it would show models \\u0027 for an apostrophe.
    return json.dumps(value, ensure_ascii=False)


def compile_template(source: str, variables: frozenset[str], where: str) -> Template:
    """Compile a template and check that it uses exactly the declared variables.

    Raises:
        PackError: names `where` and the fault: syntax, another file included, loops too deep, an unknown filter, or
            variables that are not those declared.
    """
    environment = make_environment()
    try:
        tree = environment.parse(source)
        if next(meta.find_referenced_templates(tree), "") != "" or _uses_other_files(tree):
            raise PackError(f"{where}: a template may not include, import or extend another")
        used = meta.find_undeclared_variables(tree)
        if extra := sorted(used - variables):
            raise PackError(f"{where}: uses undeclared variables {', '.join(extra)}")
        if unused := sorted(variables - used):
            raise PackError(f"{where}: does not use its declared variables {', '.join(unused)}")
        if _measure_loops(tree) > _MAX_LOOP_DEPTH:
            raise PackError(f"{where}: loops are nested deeper than {_MAX_LOOP_DEPTH}")
        return environment.from_string(source)
    except TemplateError as exc:
        line = getattr(exc, "lineno", None)
        raise PackError(f"{where}{f', line {line}' if line else ''}: {exc}") from exc


def render_messages(template: Template, variables: Mapping[str, Any], where: str) -> tuple[Message, ...]:
    """Render chat messages.

    Raises:
        PackError: the template fails on these variables, renders more than `MAX_PROMPT_CHARACTERS`, has text before its
            first section or an empty section, or does not end with a user's message.
    """
    pieces: list[str] = []
    length = 0
    try:
        for piece in template.generate(**{key: _Literal.wrap(value) for key, value in variables.items()}):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_PROMPT_CHARACTERS:
                raise PackError(f"{where}: renders more than {MAX_PROMPT_CHARACTERS} characters")
    except (TemplateError, TypeError, ValueError, AttributeError, RecursionError) as exc:
        raise PackError(f"{where}: cannot be rendered ({exc})") from exc
    return _split_sections("".join(pieces), where)


def _split_sections(text: str, where: str) -> tuple[Message, ...]:
    parts = _SECTION.split(text)
    if parts[0].strip():
        raise PackError(f"{where}: text before the first section; begin with a line '=== system' or '=== user'")
    messages = [
        Message(cast(Any, role), _Literal.unwrap(content.strip()))
        for role, content in zip(parts[1::2], parts[2::2], strict=True)
    ]
    if not messages:
        raise PackError(f"{where}: has no section; begin with a line '=== system' or '=== user'")
    for number, message in enumerate(messages, start=1):
        if not message.content:
            raise PackError(f"{where}: section {number} ({message.role}) is empty")
        if message.role == "system" and number > 1:
            raise PackError(f"{where}: section {number} is a system message; only the first may be one")
    if messages[-1].role != "user":
        raise PackError(f"{where}: the last section must be '=== user', which the model answers")
    return tuple(messages)


class _Literal:
    """Keeps a row's text from being read as a section: `=== user` in a query stays part of the query."""

    MARK = "\ue000"

    @classmethod
    def wrap(cls, value: Any) -> Any:
        return value.replace("===", cls.MARK * 3) if isinstance(value, str) else value

    @classmethod
    def unwrap(cls, text: str) -> str:
        return text.replace(cls.MARK, "=")


def _uses_other_files(tree: nodes.Template) -> bool:
    kinds = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
    return any(next(tree.find_all(kind), None) is not None for kind in kinds)


def _measure_loops(node: nodes.Node) -> int:
    inner = max((_measure_loops(child) for child in node.iter_child_nodes()), default=0)
    return inner + (1 if isinstance(node, nodes.For) else 0)
