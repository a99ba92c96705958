"""The server that pages for people stand on: `review` here, `study` and `listen` beside it.

How a page is mounted:

1. Write handlers of Starlette (`async def show(request) -> Response`) and list them: `[Route("/", show), ...]`. What
   takes long (reading rows, decoding) runs by `await run_in_threadpool(...)`.
2. Put a template into `server/templates` that extends `frame.html.j2` (blocks `styles`, `scripts`, `content`; value
   `title`) and return `show_page("mine.html.j2", title=...)`. Values are escaped. No inline script or style runs: put
   them into `server/static/mine.js` and `mine.css`, served as `/static/mine.js`; data goes into a route of its own.
3. POST JSON with the header `x-bystander: 1`, as `static/requests.js` does; read it with `read_json(request, Model)`.
   A `UserError` becomes a 400, another `BystanderError` a 500, with `{"error": sentence}`.
4. `serve([...routes], make_access(host, port, token))` in the command prints the address and runs until Ctrl-C. Tests
   use `TestClient(build_app(routes, access), base_url="http://127.0.0.1:8000")`, or `running(routes, access)` for a
   browser. Look ids up in an index that you made beforehand; never make a path of what a request says.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bystander.schemas.errors import BystanderError, ConfigError, InputError, UserError
from bystander.schemas.field_faults import describe_field_faults
from bystander.server.access import Access
from bystander.server.guard import Guard
from bystander.server.page_files import load_static_files

if TYPE_CHECKING:
    import uvicorn

_Model = TypeVar("_Model", bound=BaseModel)


def build_app(routes: Sequence[BaseRoute], access: Access) -> Starlette:
    """Return the application of some routes behind the guard, with `/static/{name}` beside them."""
    return Starlette(
        routes=[*routes, Route("/static/{name}", _show_static)],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={BystanderError: _show_error, HTTPException: _show_http_error},
    )


async def read_json(request: Request, model: type[_Model]) -> _Model:
    """Return the JSON of a POST.

    Raises:
        InputError: it is none of this model; the message names the field.
    """
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as exc:
        raise InputError(f"request: {describe_field_faults(model, exc)}") from exc


def serve(
    routes: Sequence[BaseRoute], access: Access, announce: Callable[[Access], None], open_browser: bool = False
) -> None:
    """Serve until the process is told to stop, which raises what the signal's handler does.

    Args:
        routes: of the pages.
        access: who may use them; port 0 takes a free one.
        announce: called with the rules once pages are served, the port filled in.
        open_browser: whether to open the page here.

    Raises:
        ConfigError: the port cannot be opened.
    """
    with _open_socket(access) as listening:
        access = replace(access, port=listening.getsockname()[1])

        def tell() -> None:
            announce(access)
            if open_browser:
                threading.Thread(target=webbrowser.open, args=(access.url_with_token,), daemon=True).start()

        _make_server(routes, access, tell).run(sockets=[listening])


@contextlib.contextmanager
def running(routes: Sequence[BaseRoute], access: Access) -> Iterator[Access]:
    """Serve in a thread while the block runs; yields the rules with the port filled in."""
    with _open_socket(access) as listening:
        access = replace(access, port=listening.getsockname()[1])
        server = _make_server(routes, access)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield access
        finally:
            server.should_exit = True
            thread.join()


def _make_server(
    routes: Sequence[BaseRoute], access: Access, on_start: Callable[[], None] | None = None
) -> uvicorn.Server:
    """Return a server that calls `on_start` once it heeds signals: before, Ctrl-C would leave warnings behind."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if on_start is not None:
                on_start()

    config = uvicorn.Config(
        build_app(routes, access),
        log_level="warning",
        access_log=False,  # it would write down the token
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=2,
    )
    return Server(config)


@contextlib.contextmanager
def _open_socket(access: Access) -> Iterator[socket.socket]:
    """Open the port; connections that arrive before the server runs wait in the system's queue."""
    try:
        family, _, _, _, address = socket.getaddrinfo(access.host, access.port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family)
    except OSError as exc:
        reason = str(exc.strerror).partition(" (while")[0]  # some versions of Python add the address again
        raise ConfigError(
            f"{access.host}:{access.port}: cannot be listened on ({reason}); choose another --port or --host"
        ) from exc
    with listening:
        yield listening


async def _show_static(request: Request) -> Response:
    found = load_static_files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return Response(found[0], media_type=found[1], headers={"cache-control": "no-cache"})


async def _show_error(_request: Request, exc: Exception) -> Response:
    return JSONResponse({"error": str(exc)}, 400 if isinstance(exc, UserError) else 500)


async def _show_http_error(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    return JSONResponse({"error": exc.detail}, exc.status_code, exc.headers)
