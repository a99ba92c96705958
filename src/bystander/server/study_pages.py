"""The pages of `study serve`: the same as on a crowd platform, with every answer kept at once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bystander.pages.study_page import SCRIPT, STYLE, read_asset, setup_of
from bystander.server.guard import OWN_HEADER
from bystander.server.local_server import read_json
from bystander.server.page_files import show_page
from bystander.server.study_desk import StudyDesk

COOKIE = "bystander-rater"
_RATER_PARAMETERS = ("rater", "PROLIFIC_PID", "workerId")
_MOST_ID = 200


class _Change(BaseModel):
    """An answer, or word that the clip of a place was heard."""

    model_config = ConfigDict(extra="forbid")

    place: int = Field(ge=1)
    question: str = ""
    value: str = ""
    seconds: float | None = Field(None, ge=0, le=1e7)
    heard: bool = False


def make_study_routes(desk: StudyDesk) -> list[BaseRoute]:
    """Return the routes of a study's pages.

    A rater is whoever a cookie says: an id drawn here, or that of the address (`?rater=`, or a platform's parameter).
    The id is never stored, only its digest with the study's salt.
    """

    async def show(request: Request) -> Response:
        given = next((request.query_params[name] for name in _RATER_PARAMETERS if request.query_params.get(name)), "")
        setup = setup_of(desk.manifest, clips_url="clips/", server="api/", headers={OWN_HEADER: "1"})
        wording = desk.manifest.wording
        page = show_page("study.html.j2", title=wording.title, language=wording.language, setup=Markup(setup))
        return _remember(page, given[:_MOST_ID]) if given else page

    async def show_sheet(request: Request) -> Response:
        # Not the page but this sets the cookie: after a link in a mail, browsers ask for the page without a strict one,
        # and a new one would take the old one's place.
        if COOKIE in request.cookies:
            return JSONResponse(await run_in_threadpool(desk.show, _read_rater(request)))
        rater = secrets.token_urlsafe(18)
        return _remember(JSONResponse(await run_in_threadpool(desk.show, rater)), rater)

    async def agree(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(desk.agree, _read_rater(request)))

    async def take_answer(request: Request) -> Response:
        change = await read_json(request, _Change)
        rater = _read_rater(request)
        if change.heard:
            await run_in_threadpool(desk.hear, rater, change.place)
        else:
            await run_in_threadpool(desk.answer, rater, change.place, change.question, change.value, change.seconds)
        return JSONResponse({})

    async def finish(request: Request) -> Response:
        await run_in_threadpool(desk.finish, _read_rater(request))
        return JSONResponse({})

    async def leave(_request: Request) -> Response:
        return _remember(JSONResponse({}), secrets.token_urlsafe(18))

    async def show_clip(request: Request) -> Response:
        path = desk.clips.get(request.path_params["name"])
        if path is None:
            raise HTTPException(404)
        return FileResponse(path)

    return [
        Route("/", show),
        Route("/api/sheet", show_sheet),
        Route("/api/agree", agree, methods=["POST"]),
        Route("/api/answer", take_answer, methods=["POST"]),
        Route("/api/finish", finish, methods=["POST"]),
        Route("/api/leave", leave, methods=["POST"]),
        Route("/clips/{name}", show_clip),
        Route("/study.js", _serve_asset(SCRIPT, "text/javascript; charset=utf-8")),
        Route("/study.css", _serve_asset(STYLE, "text/css; charset=utf-8")),
    ]


def _serve_asset(name: str, kind: str) -> Callable[[Request], Any]:
    async def serve(_request: Request) -> Response:
        return Response(str(read_asset(name)), media_type=kind)

    return serve


def _read_rater(request: Request) -> str:
    rater = request.cookies.get(COOKIE)
    if not rater:
        raise HTTPException(400, "Cookies are off; this page needs one to know your answers from those of others.")
    return unquote(rater)


def _remember(response: Response, rater: str) -> Response:
    response.set_cookie(COOKIE, quote(rater, safe=""), httponly=True, samesite="strict", path="/", max_age=30 * 86_400)
    return response
