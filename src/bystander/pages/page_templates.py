"""The templates and style sheets that all pages share."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from bystander.pages.charts import show_key

if TYPE_CHECKING:
    from jinja2 import Template


def render_page(template: str, styles: tuple[str, ...] = (), script: str = "", **values: Any) -> str:
    """Return the page of a template that extends `page.html.j2`; `styles` follow the common style sheet.

    `script` is a file beside the templates. The page's security policy names its digest, so that no other script runs
    whatever texts the page holds.
    """
    code = read_page_files((script,)) if script else Markup("")
    digest = base64.b64encode(hashlib.sha256(f"\n{code}\n".encode()).digest()).decode() if script else ""
    style = read_page_files(("report.css", *styles))
    return _load_template(template).render(style=style, script=code, script_digest=digest, **values)


def render_page_alone(template: str, **values: Any) -> str:
    """Return the page of a template that stands by itself, with a style of its own."""
    return _load_template(template).render(**values)


def render_part(template: str, **values: Any) -> Markup:
    """Return what a template makes that is a part of a page."""
    return Markup(_load_template(template).render(**values))


@cache
def read_page_files(names: tuple[str, ...]) -> Markup:
    """Return style sheets or scripts that lie beside the templates, one after the other."""
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
