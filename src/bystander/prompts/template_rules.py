"""What a template may be written with: a list of Jinja's constructs, checked before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import cast

from jinja2 import Environment, TemplateError, meta, nodes
from jinja2.visitor import NodeTransformer

from bystander.prompts.template_work import FILTERS, ITERATE, TESTS

MAX_LOOP_DEPTH = 3
_MAX_NODES = 3_000
_MAX_LOOPS = 60
_MAX_DEPTH = 60
"""Of nodes within nodes. Jinja's code generator and Python's compiler recurse over them."""

ROLES = ("system", "user", "assistant")
SECTION = re.compile(rf"^=== ({'|'.join(ROLES)})[ \t]*$", re.MULTILINE)
"""The line of a prompt that begins a message."""
_SECTION_LIKE = re.compile(r"^[ \t]*={2,}[ \t]*(?P<role>\w+)[ \t]*(?::[ \t]*)?$", re.MULTILINE)
_OTHER_NAMES = {
    "ai": "assistant", "bot": "assistant", "model": "assistant", "human": "user", "prompt": "user",
    "developer": "system", "instructions": "system",
}  # fmt: skip
_PRINTED = "\0"
_MOST_SECTION_FAULTS = 20

TemplateFault = tuple[int | None, str]
"""Line and message."""

_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Name, nodes.Const, nodes.Tuple,
    nodes.List, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Getitem,
    nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand, nodes.Add, nodes.Sub, nodes.And, nodes.Or,
    nodes.Not, nodes.Neg, nodes.Pos,
)  # fmt: skip
_REFUSALS: dict[type[nodes.Node], str] = {
    nodes.Include: "a template may not include, import or extend another",
    nodes.Import: "a template may not include, import or extend another",
    nodes.FromImport: "a template may not include, import or extend another",
    nodes.Extends: "a template may not include, import or extend another",
    nodes.Call: "a template may not call anything",
    nodes.CallBlock: "a template may not call anything",
    nodes.Macro: "a template may not define macros",
    nodes.Assign: "a template may not set variables: write the value where it is used",
    nodes.AssignBlock: "a template may not set variables: write the value where it is used",
    nodes.With: "a template may not set variables: write the value where it is used",
    nodes.NSRef: "a template may not set variables: write the value where it is used",
    nodes.FilterBlock: "a filter is applied to a value, not to a block",
    nodes.Block: "a template may not define blocks: no other template can extend it",
    nodes.Mul: "the operator * is not allowed in a template",
    nodes.Pow: "the operator ** is not allowed in a template",
    nodes.Mod: "the operator % is not allowed in a template",
    nodes.Div: "the operator / is not allowed in a template",
    nodes.FloorDiv: "the operator // is not allowed in a template",
}
_LARGEST_NUMBER = 1_000_000
_RESERVED_NAMES = frozenset({"self", "super", "caller", "varargs", "kwargs"})


def find_rule_faults(tree: nodes.Template, variables: frozenset[str]) -> list[TemplateFault]:
    """Return where a template goes beyond what it may do, or uses other variables than those it declares."""
    shape = _find_shape_fault(tree)
    if shape is not None:
        return [shape]  # too deep or large for what follows, which recurses
    faults = [fault for node in _walk(tree) for fault in _find_node_faults(node)]
    loops = list(tree.find_all(nodes.For))
    if (deepest := _measure_loops(tree)) > MAX_LOOP_DEPTH:
        faults.append((loops[0].lineno, f"loops are nested deeper than {MAX_LOOP_DEPTH} ({deepest} levels)"))
    if len(loops) > _MAX_LOOPS:
        faults.append((loops[_MAX_LOOPS].lineno, f"has more than {_MAX_LOOPS} loops"))
        return faults
    used = _find_variables(tree)
    for name in sorted(used - variables - _RESERVED_NAMES):
        faults.append((_find_name(tree, name), f"uses {name}, which is not declared among the task's variables"))
    if unused := sorted(variables - used):
        faults.append((None, f"does not use its declared variables {', '.join(unused)}"))
    return faults


def find_section_faults(tokens: Iterable[tuple[int, str, str]]) -> list[TemplateFault]:
    """Return the lines of a template's own text that look as if they began a message, and begin none.

    `tokens` are those of Jinja's lexer. Blocks and comments print nothing; of what a value prints nothing is known, so
    a line with one is let be, as are texts of rows.
    """
    text = ""
    starts: list[tuple[int, int]] = []
    """Where each piece of text begins, and its line."""
    for line, kind, value in tokens:
        if kind == "data":
            starts.append((len(text), line))
            text += value
        elif kind == "variable_begin":
            text += _PRINTED
    faults: list[TemplateFault] = []
    for found in _SECTION_LIKE.finditer(text):
        if len(faults) < _MOST_SECTION_FAULTS and not SECTION.fullmatch(found.group()):
            at, line = next((at, line) for at, line in reversed(starts) if at <= found.start())
            role = _guess_role(found["role"])
            wanted = f"`=== {role}`" if role else "`=== system`, `=== user` or `=== assistant`"
            message = f"`{found.group()[:40]}` begins no message; write {wanted}, at the beginning of the line"
            faults.append((line + text.count("\n", at, found.start()), message))
    return faults


def _guess_role(word: str) -> str | None:
    word = word.casefold()
    return _OTHER_NAMES.get(word) or next(iter(get_close_matches(word, ROLES, 1)), None)


def rewrite_for_budget(tree: nodes.Template) -> nodes.Template:
    """Return the template with its loops and joined texts on the budget of its rendering; `tree` is changed."""
    rewritten = _BudgetRewriter().visit(tree)
    assert isinstance(rewritten, nodes.Template)
    return rewritten


def list_used_fields(tree: nodes.Template, variable: str) -> set[str]:
    """Return the fields of a variable that a template reads, e.g. `criteria` of `class`."""
    return {
        node.attr
        for node in tree.find_all(nodes.Getattr)
        if isinstance(node.node, nodes.Name) and node.node.name == variable
    }


class _BudgetRewriter(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - the visitor finds it by this name
        work = sum(1 for part in (*node.body, *([node.test] if node.test else [])) for _ in _walk(part)) + 1
        self.generic_visit(node)
        node.iter = _make_filter(node.iter, ITERATE, [nodes.Const(work)], node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _make_filter(nodes.List(node.nodes), "join", [], node.lineno)


def _make_filter(value: nodes.Node, name: str, args: list[nodes.Expr], line: int) -> nodes.Filter:
    made = nodes.Filter(cast(nodes.Expr, value), name, args, [], None, None)
    made.set_lineno(line)
    return made


def _find_node_faults(node: nodes.Node) -> Iterator[TemplateFault]:
    line = node.lineno
    if not isinstance(node, _ALLOWED):
        yield line, _REFUSALS.get(type(node), "a template may not use this tag")
    elif isinstance(node, nodes.Filter) and node.name not in FILTERS:
        yield line, f"no filter named {node.name!r}; there are {', '.join(sorted(FILTERS))}"
    elif isinstance(node, nodes.Test) and node.name not in TESTS:
        yield line, f"no test named {node.name!r}; there are {', '.join(TESTS)}"
    elif isinstance(node, nodes.For) and node.recursive:
        yield line, "a loop may not be recursive"
    elif isinstance(node, nodes.Name) and node.name in _RESERVED_NAMES:
        yield line, f"a template has no {node.name!r}"
    elif isinstance(node, nodes.Const) and not _is_plain(node.value):
        yield line, "holds a number that is too large"
    elif isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
        yield line, f"cannot be rendered: a template has no attributes that begin with an underscore ({node.attr})"
    elif isinstance(node, nodes.Filter | nodes.Test) and (node.dyn_args is not None or node.dyn_kwargs is not None):
        yield line, "arguments are written one by one, without * or **"


def _find_shape_fault(tree: nodes.Template) -> TemplateFault | None:
    # Without recursion: a hostile template is deeper than Python's stack.
    count = 0
    waiting: list[tuple[nodes.Node, int, int]] = [(tree, 1, 1)]
    while waiting:
        node, depth, above = waiting.pop()
        line = getattr(node, "lineno", None) or above
        count += 1
        if depth > _MAX_DEPTH:
            return line, f"expressions or blocks are nested deeper than {_MAX_DEPTH}"
        if count > _MAX_NODES:
            return line, f"has more than {_MAX_NODES} values, conditions and texts"
        waiting.extend((child, depth + 1, line) for child in node.iter_child_nodes())
    return None


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _measure_loops(node: nodes.Node) -> int:
    inner = max((_measure_loops(child) for child in node.iter_child_nodes()), default=0)
    return inner + (1 if isinstance(node, nodes.For) else 0)


def _find_variables(tree: nodes.Template) -> set[str]:
    generator = meta.TrackingCodeGenerator(cast(Environment, tree.environment))
    generator.optimizer = None  # it would try to compute every expression within every other
    try:
        generator.visit(tree)
        return generator.undeclared_identifiers
    except TemplateError:  # of an unknown filter, which has been found already
        names = list(tree.find_all(nodes.Name))
        return {name.name for name in names} - {name.name for name in names if name.ctx == "store"} - {"loop"}


def _is_plain(value: object) -> bool:
    return not isinstance(value, int | float) or abs(value) <= _LARGEST_NUMBER


def _find_name(tree: nodes.Template, name: str) -> int | None:
    return next((node.lineno for node in tree.find_all(nodes.Name) if node.name == name), None)
