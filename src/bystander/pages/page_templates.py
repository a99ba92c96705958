"""The templates and style sheets that all pages share."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from bystander.pages.charts import show_key

if TYPE_CHECKING:
    from jinja2 import Template


def render_page(template: str, styles: tuple[str, ...] = (), **values: Any) -> str:
    """Return the page of a template that extends `page.html.j2`; `styles` follow the common style sheet."""
    return _load_template(template).render(style=_read_styles(("report.css", *styles)), **values)


def render_page_alone(template: str, **values: Any) -> str:
    """Return the page of a template that stands by itself, with a style of its own."""
    return _load_template(template).render(**values)


@cache
def _read_styles(names: tuple[str, ...]) -> Markup:
    folder = resources.files("bystander.pages").joinpath("templates")
    return Markup("").join(Markup(folder.joinpath(name).read_text("utf-8")) for name in names)


@cache
def _load_template(name: str) -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bystander.pages"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["show_key"] = show_key
    return environment.get_template(name)
