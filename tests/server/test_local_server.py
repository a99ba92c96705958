from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from bystander.schemas.errors import ConfigError, StorageError
from bystander.server.access import make_access
from bystander.server.guard import MOST_BODY_BYTES, OWN_HEADER
from bystander.server.local_server import build_app, read_json, running

TOKEN = "t" * 20
OWN = {OWN_HEADER: "1"}


class Sum(BaseModel):
    model_config = ConfigDict(extra="forbid")

    a: int
    b: int


async def show(_: Request) -> Response:
    return PlainTextResponse("hello")


async def add(request: Request) -> Response:
    given = await read_json(request, Sum)
    return JSONResponse({"sum": given.a + given.b})


async def fail(_: Request) -> Response:
    raise StorageError("the disk is full")


ROUTES = [Route("/", show), Route("/add", add, methods=["POST"]), Route("/fail", fail), Route("/a/b", show)]


def make_client(host: str = "127.0.0.1", token: str | None = None, names: tuple[str, ...] = ()) -> TestClient:
    app = build_app(ROUTES, make_access(host, 8000, token, names))
    return TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False)


@pytest.fixture
def client() -> Iterator[TestClient]:
    with make_client() as made:
        yield made


def test_every_answer_forbids_foreign_content(client: TestClient) -> None:
    for path in ("/", "/static/report.css", "/missing", "/fail"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy, path
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8000", 421),
        ("127.0.0.1:8000@evil.example", 421),
        ("10.0.0.1:8000", 421),
        ("", 421),
    ],
)
def test_foreign_names_are_refused(client: TestClient, host: str, status: int) -> None:
    assert client.get("/", headers={"host": host}).status_code == status


def test_a_name_that_is_allowed_passes() -> None:
    client = make_client(names=("Review.Example.org",))
    assert client.get("/", headers={"host": "review.example.org"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 200),
        (OWN | {"origin": "http://127.0.0.1:8000"}, 200),
        ({}, 403),
        (OWN | {"origin": "http://evil.example"}, 403),
        (OWN | {"origin": "http://127.0.0.1:9000"}, 403),
        (OWN | {"origin": "null"}, 403),
        (OWN | {"origin": "file://127.0.0.1:8000"}, 403),
    ],
)
def test_changes_come_from_own_pages(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.post("/add", json={"a": 1, "b": 2}, headers=headers).status_code == status


def test_requests_are_read_as_their_model(client: TestClient) -> None:
    assert client.post("/add", json={"a": 1, "b": 2}, headers=OWN).json() == {"sum": 3}
    wrong = client.post("/add", json={"a": 1, "c": 2}, headers=OWN)
    assert wrong.status_code == 400
    assert "b: Field required" in wrong.json()["error"]
    assert "c: no such field" in wrong.json()["error"]
    assert client.post("/add", content=b"{", headers=OWN).status_code == 400
    assert (client.get("/fail").status_code, client.get("/fail").json()) == (500, {"error": "the disk is full"})


def test_other_methods_are_refused(client: TestClient) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        assert client.request(method, "/", headers=OWN).status_code == 405


def test_big_bodies_are_refused_whether_or_not_they_say_so(client: TestClient) -> None:
    big = b" " * (MOST_BODY_BYTES + 1)

    def stream() -> Iterator[bytes]:
        for start in range(0, len(big), 100_000):
            yield big[start : start + 100_000]

    for content in (big, stream()):
        assert client.post("/add", content=content, headers=OWN).status_code == 413
    assert client.post("/add", content=b'{"a": 1, "b": 2}'.ljust(MOST_BODY_BYTES), headers=OWN).status_code == 200


@pytest.mark.parametrize("name", ["../local_server.py", "..%2flocal_server.py", "%2e%2e/guard.py", "/etc/passwd", "x"])
def test_nothing_but_the_files_of_pages_is_static(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404
    assert client.get("/static/report.css").headers["content-type"].startswith("text/css")


@pytest.mark.parametrize("given", [None, "wrong", "", TOKEN + "x", TOKEN[:-1], "ü" * 20])
def test_without_the_token_nothing_is_shown(given: str | None) -> None:
    client = make_client(token=TOKEN)
    for path in ("/", "/static/report.css", "/missing"):
        assert client.get(path, params={} if given is None else {"token": given}).status_code == 401
    assert client.post("/add", json={"a": 1, "b": 2}, headers=OWN).status_code == 401
    client.cookies.set("bystander-token-8000", "wrong")
    assert client.get("/").status_code == 401


def test_the_token_is_given_once_and_then_kept_in_a_strict_cookie() -> None:
    client = make_client(token=TOKEN)
    answer = client.get("/a/b", params={"token": TOKEN, "row": '"><b>'})
    assert answer.status_code == 200
    assert answer.headers["set-cookie"].split("; ", 1) == [
        f"bystander-token-8000={TOKEN}",
        "HttpOnly; Path=/; SameSite=strict",
    ]
    assert 'content="0; url=/a/b?row=%22%3E%3Cb%3E"' in answer.text
    assert TOKEN not in answer.text
    assert client.get("/").text == "hello"
    assert client.post("/add", json={"a": 1, "b": 2}, headers=OWN).json() == {"sum": 3}
    away = client.get("http://127.0.0.1:8000//evil.example/", params={"token": TOKEN})
    assert 'url=/evil.example/"' in away.text


def test_who_can_be_reached_demands_a_token() -> None:
    assert make_access("127.0.0.1").token is None
    assert make_access("localhost").token is None
    assert make_access("::1").token is None
    first, second = make_access("0.0.0.0", 80), make_access("192.168.1.5", 80)
    assert first.token is not None
    assert first.token != second.token
    assert first.knows_host("10.1.2.3:80")
    assert not second.knows_host("10.1.2.3:80")
    assert second.knows_host("192.168.1.5:80")
    assert not first.knows_host("evil.example")
    assert second.url_with_token == f"http://192.168.1.5:80/?token={second.token}"


@pytest.mark.parametrize(("field", "value"), [("token", "short"), ("token", "a b" * 10), ("host", "a/b"), ("host", "")])
def test_settings_that_make_no_sense_are_refused(field: str, value: str) -> None:
    with pytest.raises(ConfigError, match=field):
        make_access(**{field: value})  # type: ignore[arg-type]


def test_a_real_server_answers_on_a_free_port_and_a_taken_one_is_named() -> None:
    with running(ROUTES, make_access()) as access:
        with urllib.request.urlopen(access.url) as answer:
            assert answer.read() == b"hello"
            assert "server" not in answer.headers
        with pytest.raises(urllib.error.HTTPError, match="421"):
            urllib.request.urlopen(urllib.request.Request(access.url, headers={"Host": "evil.example"}))
        with pytest.raises(ConfigError, match="choose another --port"), running(ROUTES, access):
            pass
    with socket.create_server(("127.0.0.1", access.port)):
        pass
