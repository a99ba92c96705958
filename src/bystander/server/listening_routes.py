"""Routes of the listening page: a page of items by the query string, and sounds by position."""

from __future__ import annotations

from math import ceil
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bystander.pages.listening_page import ListeningPage, render_listening
from bystander.server.clip_answer import answer_clip
from bystander.server.listening_index import PAGE_ITEMS, ListeningIndex
from bystander.server.page_files import show_page

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self'; "
    "media-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The guard's, and places of segments in waveforms, which stand in style attributes."""
_MOST_TEXT = 200


def make_listening_routes(index: ListeningIndex) -> list[Route]:
    """Return the routes of a build's listening page."""
    fields = [menu.field for menu in index.menus]

    async def show(request: Request) -> Response:
        given = request.query_params
        chosen = {name: given[name] for name in fields if given.get(name)}
        text = given.get("q", "")[:_MOST_TEXT]
        asked = given.get("page", "1")
        number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 1
        body = await run_in_threadpool(_render, index, chosen, text, number)
        response = show_page("listening.html.j2", title=f"Listen: {index.rows.name}", body=body)
        response.headers["content-security-policy"] = _POLICY
        return response

    async def play(request: Request) -> Response:
        given = request.path_params
        audio = await run_in_threadpool(index.read_sound, given["version"], given["position"], given["number"])
        if audio is None:
            raise HTTPException(404, "There is no such sound.")
        return answer_clip(request, audio)

    return [Route("/", show), Route("/audio/{version}/{position:int}/{number:int}", play)]


def _render(index: ListeningIndex, chosen: dict[str, str], text: str, number: int) -> str:
    found = index.select(chosen, text)
    pages = max(1, ceil(len(found) / PAGE_ITEMS))
    number = min(max(number, 1), pages)
    query = {**chosen, **({"q": text} if text else {})}

    def link(to: int) -> str:
        return f"/?{urlencode({**query, 'page': to})}"

    shown = found[(number - 1) * PAGE_ITEMS : number * PAGE_ITEMS]
    return render_listening(
        ListeningPage(
            title=index.rows.name,
            items=[index.describe(item) for item in shown],
            menus=index.menus,
            chosen=chosen,
            text=text,
            found=len(found),
            first=(number - 1) * PAGE_ITEMS + 1,
            total=len(index.items),
            page=number,
            pages=pages,
            back=link(number - 1) if number > 1 else "",
            on=link(number + 1) if number < pages else "",
        )
    )
