"""Templates, scripts and style sheets of the served pages, all of which ship with the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from jinja2 import Environment

_KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


_SHARED = ("report.css", "sid_report.css", "listening.css", "listening.js")


@cache
def load_static_files() -> Mapping[str, tuple[bytes, str]]:
    """Return content and media type of what is served below `/static/`, by name: of `server/static`, and of what the
    pages of builds have, `_SHARED`."""
    folders = (resources.files("bystander.pages") / "templates", resources.files("bystander.server") / "static")
    return {
        file.name: (file.read_bytes(), _KINDS["." + file.name.rsplit(".", 1)[-1]])
        for folder, only in zip(folders, (_SHARED, ("",)), strict=True)
        for file in folder.iterdir()
        if file.name.endswith(tuple(_KINDS)) and file.name.startswith(only)
    }


def show_page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the page of a template in `server/templates`; every value is escaped."""
    return HTMLResponse(_load_environment().get_template(template).render(**values), status)


@cache
def _load_environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("bystander.server"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
