"""The body of the served listening page: filters, a page of items, and the way to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bystander.pages.listening_items import FacetMenu, ListeningItem
from bystander.pages.page_templates import render_part


@dataclass(frozen=True, slots=True)
class ListeningPage:
    """What one page shows. `back` and `on` are addresses of its neighbours, empty where there is none."""

    title: str
    items: Sequence[ListeningItem]
    menus: Sequence[FacetMenu]
    chosen: Mapping[str, str]
    text: str
    found: int
    """Items that the filters leave."""
    first: int
    """Number of the first one shown, among them, from 1."""
    total: int
    page: int
    pages: int
    back: str
    on: str


def render_listening(page: ListeningPage) -> Markup:
    """Return the body."""
    return render_part("listening_page.html.j2", page=page)
