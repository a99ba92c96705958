"""The routes of the review page."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bystander.schemas.errors import InputError
from bystander.schemas.review import REASONS_IN_WORDS, ReviewEntry, list_reasons, normalise_annotator
from bystander.schemas.review_rows import describe_row
from bystander.server.clip_answer import answer_clip
from bystander.server.local_server import read_json
from bystander.server.page_files import show_page
from bystander.server.review_session import ReviewSession
from bystander.storage.clip_peaks import read_peaks
from bystander.tasks.metrics.review_agreement import find_disagreements, measure_review_agreement

ANNOTATOR_COOKIE = "bystander-annotator"
_YEAR_S = 365 * 86400


class Annotator(BaseModel):
    """Who reviews."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(max_length=100)]


class Changes(BaseModel):
    """Changes of one annotator that a page sends, in their order."""

    model_config = ConfigDict(extra="forbid")

    annotator: str
    entries: Annotated[list[ReviewEntry], Field(min_length=1, max_length=500)]


def make_review_routes(session: ReviewSession, annotator: str | None = None, seed: int = 0) -> list[Route]:
    """Return the routes of a review.

    Args:
        session: the rows and journals.
        annotator: the name that a browser has before it gives another.
        seed: of the intervals of agreement.
    """
    return _ReviewPages(session, annotator, seed).list_routes()


class _ReviewPages:
    def __init__(self, session: ReviewSession, annotator: str | None, seed: int) -> None:
        self._session = session
        self._default = annotator
        # A name that the command was given goes before one that the browser kept from another review.
        self._cookie = f"{ANNOTATOR_COOKIE}-for-{quote(annotator)}" if annotator else ANNOTATOR_COOKIE
        self._seed = seed
        self._describe = lru_cache(8)(self._describe_anew)

    def list_routes(self) -> list[Route]:
        return [
            Route("/", self.show_review),
            Route("/annotator", self.show_annotator),
            Route("/agreement", self.show_agreement),
            Route("/api/annotator", self.set_annotator, methods=["POST"]),
            Route("/api/rows", self.list_rows),
            Route("/api/rows/{row_id}", self.show_row),
            Route("/api/clips/{row_id}", self.play_clip),
            Route("/api/changes", self.take_changes, methods=["POST"]),
            Route("/api/others", self.show_others),
        ]

    async def show_review(self, request: Request) -> Response:
        if self._find_annotator(request) is None:
            return await self.show_annotator(request)
        return show_page("review.html.j2", title=self._title, build=self._session.build.name)

    async def show_annotator(self, request: Request) -> Response:
        name = self._find_annotator(request) or ""
        return show_page("annotator.html.j2", title=self._title, build=self._session.build.name, annotator=name)

    async def set_annotator(self, request: Request) -> Response:
        given = await read_json(request, Annotator)
        try:
            name = normalise_annotator(given.name)
        except ValueError as exc:
            raise InputError(str(exc)) from exc
        await run_in_threadpool(self._session.enter, name)
        response = JSONResponse({"annotator": name})
        response.set_cookie(self._cookie, quote(name), max_age=_YEAR_S, httponly=True, samesite="strict")
        return response

    async def list_rows(self, request: Request) -> Response:
        session, annotator = self._session, self._demand_annotator(request)
        await run_in_threadpool(session.enter, annotator)
        reviews = session.get_reviews(annotator)
        kind = session.build.kind
        return JSONResponse(
            {
                "annotator": annotator,
                "build": session.build.name,
                "digest": session.build.digest,
                "kind": kind,
                "reasons": [{"key": reason, "words": REASONS_IN_WORDS[reason]} for reason in list_reasons(kind)],
                "rows": [asdict(session.build.rows[row_id]) for row_id in session.row_ids],
                "reviews": {
                    row_id: review.model_dump(mode="json", exclude_none=True) for row_id, review in reviews.items()
                },
            }
        )

    async def show_row(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._describe, self._find_row(request)))

    async def play_clip(self, request: Request) -> Response:
        row = await run_in_threadpool(self._session.build.read_row, self._find_row(request))
        return answer_clip(request, row["audio"]["bytes"] or b"")

    async def take_changes(self, request: Request) -> Response:
        given, annotator = await read_json(request, Changes), self._demand_annotator(request)
        if given.annotator != annotator:  # the name was changed in another tab
            return JSONResponse({"error": f"This browser's annotator is {annotator} now; load the page again."}, 409)
        await run_in_threadpool(self._session.append, annotator, given.entries)
        return JSONResponse({"saved": given.entries[-1].seq})

    async def show_others(self, request: Request) -> Response:
        """Return the rows on which annotators do not agree, with what each said."""
        self._demand_annotator(request)
        reviews = await run_in_threadpool(self._session.collect_reviews)
        shown = {
            row_id: {
                name: said[row_id].model_dump(mode="json", exclude_none=True)
                for name, said in reviews.items()
                if row_id in said and said[row_id].verdict is not None
            }
            for row_id in find_disagreements(reviews)
        }
        return JSONResponse(shown)

    async def show_agreement(self, request: Request) -> Response:
        if self._find_annotator(request) is None:
            return await self.show_annotator(request)
        reviews = await run_in_threadpool(self._session.collect_reviews)
        agreement = await run_in_threadpool(measure_review_agreement, reviews, seed=self._seed)
        rows = [
            (self._session.build.rows[row_id], [(n, said[row_id]) for n, said in reviews.items() if row_id in said])
            for row_id in agreement.disagreements
            if row_id in self._session.build.rows
        ]
        return show_page(
            "agreement.html.j2",
            title=f"Agreement on {self._session.build.name}",
            agreement=agreement,
            disagreements=rows,
            words=REASONS_IN_WORDS,
        )

    @property
    def _title(self) -> str:
        return f"Review of {self._session.build.name}"

    def _describe_anew(self, row_id: str) -> dict[str, Any]:
        row = self._session.build.read_row(row_id)
        peaks = read_peaks(row["audio"]["bytes"] or b"")
        return {**describe_row(row, self._session.build.kind), "peaks": peaks}

    def _find_row(self, request: Request) -> str:
        row_id = str(request.path_params["row_id"])
        if row_id not in self._session.build.rows:
            raise HTTPException(404, "There is no such row.")
        return row_id

    def _find_annotator(self, request: Request) -> str | None:
        try:
            return normalise_annotator(unquote(request.cookies.get(self._cookie, "")))
        except ValueError:
            return self._default

    def _demand_annotator(self, request: Request) -> str:
        name = self._find_annotator(request)
        if name is None:
            raise InputError("annotator: is not known; load the page again and give a name")
        return name
