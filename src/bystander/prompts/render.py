"""Templates in a sandbox: text in, chat messages out.

A template renders to sections, each begun by a line `=== system`, `=== user` or `=== assistant`; the text up to the
next such line, without blank lines around it, is the message. A template that writes the row's part last lets model
servers reuse the computed prefix of the constant part.

Templates are data from strangers: they may read the fields of what they are given, use filters of a short list, loops
and conditions. They may not call anything, include files, set variables, or do more work than a prompt can need.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, cast

from jinja2 import StrictUndefined, Template, TemplateError, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel

from bystander.prompts.template_rules import (
    SECTION,
    TemplateFault,
    find_rule_faults,
    find_section_faults,
    rewrite_for_budget,
)
from bystander.prompts.template_work import (
    BUDGET,
    FILTERS,
    ITERATE,
    MAX_PROMPT_CHARACTERS,
    TESTS,
    Budget,
    iterate,
    name_type,
    print_value,
)
from bystander.schemas.engines import Message
from bystander.schemas.errors import PackError
from bystander.schemas.packs import PackClass, PackKind
from bystander.schemas.taxonomy import Scenario, ScenarioExample

_LOOP_FIELDS = frozenset(
    {"depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex", "revindex0"}
)
_NAMES: Mapping[type, str] = {
    PackClass: "class",
    Scenario: "scenario",
    ScenarioExample: "an example",
    PackKind: "a kind",
}
_MOST_FIELDS_SAID = 20
_MAX_TOKENS = 6_000
_LARGEST_NUMBER = 1_000_000


class PromptRenderError(PackError):
    """A template failed on its variables: `reason` says how, `line` where, if that can be told."""

    def __init__(self, message: str, reason: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.line = line

    @classmethod
    def at(cls, where: str, reason: str, line: int | None = None) -> PromptRenderError:
        """Return the error of the template `where`."""
        return cls(f"{where}{f', line {line}' if line else ''}: {reason}", reason, line)


class _PackEnvironment(ImmutableSandboxedEnvironment):
    """Values have their data and nothing else: no methods, no attributes of Python's."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})

    def is_safe_callable(self, obj: Any) -> bool:
        del obj
        return False

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        del context
        numbers = all(type(value) is int and abs(value) <= _LARGEST_NUMBER for value in (left, right))
        if operator not in "+-" or not numbers:
            raise SecurityError(f"the operator {operator} is not allowed in a template but for adding small numbers")
        return left + right if operator == "+" else left - right

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, StrictUndefined):
            return obj  # which says what is missing first
        if isinstance(obj, BaseModel):
            known = attribute in type(obj).model_fields or attribute in getattr(type(obj), "SHOWN_PROPERTIES", ())
        elif isinstance(obj, LoopContext):
            known = attribute in _LOOP_FIELDS
        elif isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        else:
            known = False
        return getattr(obj, attribute) if known else self.undefined(_describe_missing(obj, attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, str):
            return self.getattr(obj, argument)
        if isinstance(obj, str | list | tuple) and isinstance(argument, int | slice):
            try:
                return obj[argument]
            except (IndexError, TypeError, ValueError):
                pass
        return obj if isinstance(obj, StrictUndefined) else self.undefined(_describe_missing(obj, argument))


def _describe_missing(obj: Any, name: Any) -> str:
    said = str(name)[:40]
    if isinstance(obj, str | list | tuple) and not isinstance(name, str):
        return f"{_name_value(obj)} has no item {said}"
    fields: list[str] = []
    if isinstance(obj, BaseModel):
        fields = [*type(obj).model_fields, *sorted(getattr(type(obj), "SHOWN_PROPERTIES", ()))]
    elif isinstance(obj, Mapping):
        fields = [str(key)[:40] for key in obj][:_MOST_FIELDS_SAID]
    return f"{_name_value(obj)} has no field {said}" + (f"; there are {', '.join(fields)}" if fields else "")


def _name_value(obj: Any) -> str:
    return _NAMES.get(type(obj)) or f"a {name_type(obj)}"


def make_environment() -> ImmutableSandboxedEnvironment:
    """Return the Jinja environment that pack templates are compiled in."""
    environment = _PackEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        optimized=False,  # it would run filters while it compiles, on no budget
        finalize=print_value,
    )
    environment.globals.clear()
    environment.filters = {**FILTERS, ITERATE: iterate}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    return environment


def parse_template(source: str) -> nodes.Template:
    """Return the syntax tree of a template.

    Raises:
        TemplateSyntaxError: it has no valid syntax.
        RecursionError, ValueError: it is nested too deeply, or has a number of too many digits, for Jinja's parser.
    """
    environment = make_environment()
    # The parser takes a hundred times as long as the lexer, which can be stopped.
    for count, (line, _, _) in enumerate(environment.lex(source)):
        if count > _MAX_TOKENS:
            raise TemplateSyntaxError(f"has more than {_MAX_TOKENS} words and signs of code", line)
    return environment.parse(source)


def try_compile(source: str, variables: frozenset[str]) -> tuple[Template | None, list[TemplateFault]]:
    """Compile a template that uses exactly the declared variables; or return None and all that is wrong with it.

    Faults are (line, message): syntax, constructs that a template may not use, too much nesting, unknown filters,
    variables that are not those declared, and lines that look like the beginning of a message and are none.
    """
    try:
        tree = parse_template(source)
        if faults := [*find_rule_faults(tree, variables), *find_section_faults(make_environment().lex(source))]:
            return None, faults
        environment = make_environment()
        code = environment.compile(rewrite_for_budget(tree))
        return Template.from_code(environment, code, environment.make_globals(None)), []
    except TemplateError as exc:
        return None, [(getattr(exc, "lineno", None), str(exc.message))]
    except (RecursionError, MemoryError, SyntaxError):
        # Python refuses code that is nested too deeply, each version at another depth.
        return None, [(None, "expressions or blocks are nested too deeply")]
    except (ValueError, OverflowError) as exc:
        return None, [(None, f"holds what Jinja cannot read ({exc})")]


def compile_template(source: str, variables: frozenset[str], where: str) -> Template:
    """Compile a template and check that it uses exactly the declared variables.

    Raises:
        PackError: names `where` and the faults of `try_compile`.
    """
    template, faults = try_compile(source, variables)
    if template is None:
        raise PackError("; ".join(f"{where}{f', line {line}' if line else ''}: {message}" for line, message in faults))
    return template


def render_messages(template: Template, variables: Mapping[str, Any], where: str) -> tuple[Message, ...]:
    """Render chat messages.

    Raises:
        PromptRenderError: the template fails on these variables, renders more than `MAX_PROMPT_CHARACTERS`, does more
            work than a prompt can need, has text before its first section or an empty section, or does not end with a
            user's message.
    """
    pieces: list[str] = []
    length = 0
    given = {key: _Literal.wrap(value) for key, value in variables.items()}
    try:
        for piece in template.generate({**given, BUDGET: Budget()}):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_PROMPT_CHARACTERS:
                raise PromptRenderError.at(where, f"renders more than {MAX_PROMPT_CHARACTERS} characters")
    except PackError:
        raise
    # Whatever a stranger's template makes Python raise is the template's fault.
    except Exception as exc:
        line = _find_template_line(exc.__traceback__)
        raise PromptRenderError.at(where, f"cannot be rendered ({exc})", line) from exc
    return _split_sections("".join(pieces), where)


def _find_template_line(trace: TracebackType | None) -> int | None:
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _split_sections(text: str, where: str) -> tuple[Message, ...]:
    parts = SECTION.split(text)
    if parts[0].strip():
        raise PromptRenderError.at(where, "text before the first section; begin with a line '=== system' or '=== user'")
    messages = [
        Message(cast(Any, role), _Literal.unwrap(content.strip()))
        for role, content in zip(parts[1::2], parts[2::2], strict=True)
    ]
    if not messages:
        raise PromptRenderError.at(where, "has no section; begin with a line '=== system' or '=== user'")
    for number, message in enumerate(messages, start=1):
        if not message.content:
            raise PromptRenderError.at(where, f"section {number} ({message.role}) is empty")
        if message.role == "system" and number > 1:
            raise PromptRenderError.at(where, f"section {number} is a system message; only the first may be one")
    if messages[-1].role != "user":
        raise PromptRenderError.at(where, "the last section must be '=== user', which the model answers")
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
