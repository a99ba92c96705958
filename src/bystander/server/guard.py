"""What every request to a local server must pass, and the headers that every answer has."""

from __future__ import annotations

import html
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bystander.server.access import Access

MOST_BODY_BYTES = 1_000_000
OWN_HEADER = "x-bystander"
"""Pages send it with each POST: scripts of other sites cannot, unless we allow it."""
CLIPS_PATH = "/api/clips/"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """ASGI middleware: host, token, origin and size of each request are checked before an application sees it."""

    def __init__(self, app: ASGIApp, access: Access, most_body_bytes: int = MOST_BODY_BYTES) -> None:
        self._app = app
        self._access = access
        self._most_body_bytes = most_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nothing of ours is a web socket

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [*message["headers"], *self._share_clips(scope)]
                given = {name.lower() for name, _ in own}
                message["headers"] = [*own, *(pair for pair in _HEADERS if pair[0] not in given)]
            await send(message)

        refusal = self._refuse(scope)
        if refusal is None and scope["method"] == "POST":
            body = await self._read_body(receive)
            if body is None:
                refusal = _say(413, f"A request may have {self._most_body_bytes:,} bytes at most.")
            else:
                receive = _replay(body, receive)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _share_clips(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the headers that let a page of another site read a clip, where that site may."""
        if not self._access.clip_origins or not scope["path"].startswith(CLIPS_PATH):
            return []
        origin = Headers(scope=scope).get("origin")
        shared = [(b"cross-origin-resource-policy", b"cross-origin"), (b"vary", b"origin")]
        if origin in self._access.clip_origins:
            shared.append((b"access-control-allow-origin", str(origin).encode()))
        return shared

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the answer to a request that may not pass."""
        headers, access = Headers(scope=scope), self._access
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not access.knows_host(hosts[0]):
            return _say(421, "This server does not go by that name; use the address that the command printed.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _say(405, "Only GET and POST are answered here.")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [None])[0]
        if not access.lets_in(given if given is not None else _read_cookie(headers, access.token_cookie)):
            return _say(401, "Open the address with the token that the command printed.")
        if scope["method"] == "POST":
            origin = headers.get("origin")
            if OWN_HEADER not in headers or (origin is not None and not access.is_own_origin(origin, hosts[0])):
                return _say(403, "Changes are taken from this server's own pages only.")
            if int(_as_number(headers.get("content-length"))) > self._most_body_bytes:
                return _say(413, f"A request may have {self._most_body_bytes:,} bytes at most.")
        elif given is not None and access.token is not None and not scope["path"].startswith(CLIPS_PATH):
            return _keep_token(scope, access)
        return None

    async def _read_body(self, receive: Receive) -> bytes | None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return body
            body += bytes(message.get("body", b""))
            if len(body) > self._most_body_bytes:
                return None
            if not message.get("more_body"):
                return body


def _keep_token(scope: Scope, access: Access) -> Response:
    """Put the token into a cookie and go on to the same page without it.

    The page goes on by itself instead of being a redirection: after a link in a mail, browsers would not send a strict
    cookie with what they are redirected to.
    """
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    rest = urlencode([(name, value) for name, values in query.items() if name != "token" for value in values])
    target = html.escape("/" + scope["path"].lstrip("/\\") + (f"?{rest}" if rest else ""))  # never another host
    response = HTMLResponse(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
        f'<title>Bystander</title><a href="{target}">Go on</a>'
    )
    response.set_cookie(access.token_cookie, access.token or "", httponly=True, samesite="strict", path="/")
    return response


def _read_cookie(headers: Headers, name: str) -> str | None:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return cookie.value if cookie is not None else None


def _replay(body: bytes, receive: Receive) -> Receive:
    pending = [body]

    async def receive_again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_again


def _as_number(text: str | None) -> str:
    return text if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else "0"


def _say(status: int, sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status)
