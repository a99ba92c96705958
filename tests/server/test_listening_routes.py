from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
import soundfile
from starlette.testclient import TestClient

from bystander.schemas.errors import BuildError
from bystander.server.listening_index import PAGE_ITEMS, ListeningIndex
from bystander.storage.filesystem import open_store
from bystander.storage.releases import move_latest
from final_rows import SCENARIOS, make_row, write_build
from html_pages import Page
from listening_builds import HEARD, PAIRS, SILENT, body_of, list_shown, make_client, open_index, read_heard, write_heard
from real_world_builds import configure, curate_directly, write_headsets, write_talk
from review_builds import write_sid

XSS = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_heard(tmp_path_factory.mktemp("store") / "tpi-train" / "demo")


@pytest.fixture(scope="module")
def index(folder: Path) -> ListeningIndex:
    return open_index(folder)


@pytest.fixture
def client(index: ListeningIndex) -> TestClient:
    return make_client(index)


def ask(client: TestClient, **query: Any) -> list[str]:
    """Return the keys that all pages of a query show, in order."""
    found: list[str] = []
    for page in range(1, 100):
        text = client.get("/", params={**query, "page": page}).text
        found += list_shown(text)
        if 'rel="next"' not in text:
            return found
    raise AssertionError


def test_all_rows_and_rejects_are_shown_a_page_at_a_time(client: TestClient, index: ListeningIndex) -> None:
    rows = [f"kept-{number}" for number in range(1, PAIRS + 1)]
    assert ask(client)[:PAIRS] == rows
    assert len(ask(client)) == PAIRS + SILENT + HEARD
    first = client.get("/")
    assert list_shown(first.text) == rows[:PAGE_ITEMS]
    assert "1 to 20 of 35" in Page(body_of(first.text)).text
    assert "Page 1 of 2" in Page(body_of(first.text)).text
    for page in ("0", "-1", "x", "99999999999999999999", "٣"):
        assert list_shown(client.get("/", params={"page": page}).text) == rows[:PAGE_ITEMS]
    assert list_shown(client.get("/", params={"page": 5000}).text) == ask(client)[PAGE_ITEMS:]
    assert len(index.items) == PAIRS + SILENT + HEARD


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({"scenario": next(iter(SCENARIOS)), "state": "kept"}, range(0, PAIRS, 2)),
        ({"label": "ignorable", "state": "kept"}, [n for n in range(PAIRS) if n // 2 % 2]),
        ({"label": "ignorable", "scenario": list(SCENARIOS)[1], "state": "kept"}, range(3, PAIRS, 4)),
        ({"timing": "within_sentence", "state": "kept"}, range(0, PAIRS, 3)),
        ({"q": "table for 17"}, [17]),
        ({"q": "  ROW-0004 Eight "}, [4]),
        ({"label": "no such label"}, []),
        ({"q": "words that nobody says"}, []),
    ],
)
def test_rows_are_filtered(client: TestClient, query: dict[str, str], numbers: Any) -> None:
    assert ask(client, **query) == [f"kept-{number + 1}" for number in numbers]


def test_rejects_are_filtered_by_stage_and_reason(client: TestClient) -> None:
    assert ask(client, state="rejected") == [
        "rejected-31",
        "rejected-32",
        "rejected-33",
        "rejected-34",
        "rejected-35",
    ]
    assert ask(client, reject_reason="too_noisy") == ["rejected-35"]
    assert ask(client, reject_stage="normalise_queries", reject_reason="duplicate") == ["rejected-32"]
    assert ask(client, reject_stage="check_realism", reject_reason="duplicate") == []
    page = Page(body_of(client.get("/", params={"reject_reason": "too_noisy", "q": "refused"}).text))
    assert [option["value"] for option in page.find("option") if "selected" in option] == ["too_noisy"]
    assert page.find("input")[0]["value"] == "refused"
    assert "1 to 1 of 1, out of 35 rows and rejects" in page.text


def test_links_to_other_pages_keep_the_filters(client: TestClient) -> None:
    page = Page(body_of(client.get("/", params={"state": "kept", "q": "table & <b>"}).text))
    assert page.find("a") == [{"href": "/"}]
    page = Page(body_of(client.get("/", params={"state": "kept", "q": "seven"}).text))
    (on,) = (link for link in page.find("a") if link.get("rel") == "next")
    assert list_shown(client.get(on["href"]).text) == [f"kept-{number + 1}" for number in range(PAGE_ITEMS, PAIRS)]


def test_what_is_no_filter_changes_nothing(client: TestClient) -> None:
    assert ask(client, find="seven", audio="x", label="") == ask(client)


def test_rows_and_rejects_are_heard_whole_and_in_parts(client: TestClient, index: ListeningIndex) -> None:
    row = Page(body_of(client.get("/", params={"q": "row-0007"}).text))
    (source,) = (player["src"] for player in row.find("audio"))
    audio = index.rows.read(index.items[7].place)["audio"]["bytes"]
    whole = client.get(source)
    assert (whole.content, whole.headers["content-type"]) == (audio, "audio/flac")
    part = client.get(source, headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, audio[10:20])
    assert client.get(source, headers={"range": f"bytes={len(audio)}-"}).status_code == 416

    reject = Page(body_of(client.get("/", params={"reject_reason": "too_noisy"}).text))
    sources = [player["src"] for player in reject.find("audio")]
    assert sources == [f"/audio/{index.version}/34/0", f"/audio/{index.version}/34/1"]
    assert [soundfile.info(io.BytesIO(client.get(one).content)).duration for one in sources] == [1.0, 0.5]
    silent = Page(body_of(client.get("/", params={"reject_stage": "check_realism"}).text))
    assert silent.find("audio") == []
    assert "It was refused before it was spoken." in silent.text


@pytest.mark.parametrize(
    "path",
    [
        "V/35/0",
        "V/1/1",
        "V/1/99999999999999999999",
        "V/99999999999999999999/0",
        "V/1/-1",
        "V/-1/0",
        "V/1/x",
        "V/row-0001/0",
        "V/30/0",
        "000000000000/1/0",
        "../manifest.json",
        "..%2f..%2fmanifest.json/1/0",
        "%2fetc%2fpasswd/1/0",
        "V/data%2ftrain-00000-of-00001.parquet/0",
        "a%00b/1/0",
        "%ff/1/0",
        "V",
        "",
    ],
)
def test_sounds_are_looked_up_and_never_paths(client: TestClient, index: ListeningIndex, path: str) -> None:
    answer = client.get(f"/audio/{path.replace('V', index.version)}")
    assert (answer.status_code, "error" in answer.json()) == (404, True)


def test_nothing_can_be_changed(client: TestClient) -> None:
    for path in ("/", "/audio/v/1/0"):
        assert client.post(path, headers={"x-bystander": "1"}).status_code == 405
        assert client.delete(path).status_code == 405


def test_without_the_token_no_row_and_no_sound(index: ListeningIndex) -> None:
    client = make_client(index, token="t" * 20)
    for path in ("/", "/?q=seven", f"/audio/{index.version}/1/0", "/static/listening.js"):
        answer = client.get(path)
        assert (answer.status_code, "row-0001" in answer.text) == (401, False)
    entered = client.get("/", params={"token": "t" * 20, "label": "ignorable"})
    assert 'content="0; url=/?label=ignorable"' in entered.text
    assert client.get(f"/audio/{index.version}/1/0").status_code == 200


def test_other_sites_are_shut_out(index: ListeningIndex) -> None:
    client = make_client(index)
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    for path in ("/", f"/audio/{index.version}/1/0"):
        headers = client.get(path, headers={"origin": "http://evil.example"}).headers
        assert "access-control-allow-origin" not in headers
        assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy


def test_what_rows_and_queries_say_cannot_become_markup(tmp_path: Path) -> None:
    folder = write_heard(
        tmp_path / "tpi-train" / "odd", 2, third_party_text=XSS, scenario=XSS, reject_detail=XSS, id=XSS
    )
    client = make_client(open_index(folder))
    for query in ({}, {"q": XSS}, {"scenario": XSS}, {"state": XSS}):
        text = client.get("/", params=query).text
        assert "<script>alert" not in text
        Page(body_of(text))
    assert ask(client, scenario=XSS) == ["rejected-6"]


def test_ids_of_any_letters_are_heard(tmp_path: Path) -> None:
    names = ["talks/a 1", "50%", "a?b#c&d", "né", "..", "a/../b"]
    folder = tmp_path / "tpi-train" / "odd"
    write_build(folder, [{**make_row(n), "id": name} for n, name in enumerate(names)], build="odd")
    index = open_index(folder)
    client = make_client(index)
    page = Page(body_of(client.get("/", params={"state": "kept"}).text))
    sources = [player["src"] for player in page.find("audio")]
    assert len(sources) == len(names)
    for item, source in zip(index.items, sources, strict=False):
        assert client.get(source).content == index.rows.read(item.place)["audio"]["bytes"], item.position


def test_another_build_at_the_same_port_has_other_addresses(index: ListeningIndex, tmp_path: Path) -> None:
    other = open_index(write_heard(tmp_path / "tpi-train" / "other"))
    assert other.version != index.version
    assert make_client(other).get(f"/audio/{index.version}/1/0").status_code == 404


def test_a_sid_build_is_filtered_by_category_and_language(tmp_path: Path) -> None:
    client = make_client(open_index(write_sid(tmp_path)))
    rows = ask(client)
    chinese = ask(client, language="zh")
    assert 0 < len(chinese) < len(rows)
    page = Page(body_of(client.get("/", params={"category": "middle", "language": "zh"}).text))
    (article,) = page.find("article")
    assert (article["data-category"], article["data-language"]) == ("middle", "zh")
    assert client.get(page.find("audio")[0]["src"]).content.startswith(b"fLaC")


def test_a_build_of_real_recordings_is_heard(tmp_path: Path) -> None:
    built = curate_directly(
        configure(tmp_path / "store", write_talk(tmp_path / "talks"), write_headsets(tmp_path / "a"))
    )
    index = open_index(built.folder)
    client = make_client(index)
    rows = built.read_rows()
    assert len(ask(client, state="kept")) == len(rows) > 1
    by_corpus = {row["corpus"] for row in rows}
    assert by_corpus == {"talks"}
    one = rows[-1]
    page = Page(body_of(client.get("/", params={"q": one["id"], "state": "kept"}).text))
    (source,) = (player["src"] for player in page.find("audio"))
    assert client.get(source).content == one["audio"]["bytes"]
    refused = ask(client, state="rejected")
    assert len(refused) == sum(info.rows for info in built.manifest.rejects) > 0
    for menu in index.menus:
        for value, count in menu.values:
            assert len(ask(client, **{menu.field: value})) == count, (menu.field, value)


def test_latest_stands_for_the_release(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "tpi-train" / "demo")
    with pytest.raises(BuildError, match="nothing was released there yet"):
        open_index(tmp_path / "tpi-train" / "latest")
    move_latest(open_store(tmp_path), "tpi-train", "demo", read_heard(folder).content_digest)
    index = open_index(tmp_path / "tpi-train" / "latest")
    assert (index.rows.name, len(index.items)) == ("tpi-train/demo", PAIRS + SILENT + HEARD)


def test_what_is_damaged_is_said_where_it_is_heard(tmp_path: Path) -> None:
    folder = write_heard(tmp_path / "tpi-train" / "torn", 3)
    index = open_index(folder)
    client = make_client(index)
    (shard,) = (folder / "data").glob("*.parquet")
    whole = shard.read_bytes()
    place = whole.index(index.rows.read(index.items[0].place)["audio"]["bytes"][:64])
    shard.write_bytes(whole[: place - 30] + b"x" * 60 + whole[place + 30 :])  # the head of a page of clips
    client = make_client(open_index(folder))  # no column that it reads is damaged
    page = Page(body_of(client.get("/").text))
    assert f"{shard}: cannot be read as Parquet" in page.text
    assert len(page.find("article")) == 3 + SILENT + HEARD
    assert [player["src"].rsplit("/", 2)[1] for player in page.find("audio")] == ["6", "6", "7", "7"]
    answer = client.get(f"/audio/{index.version}/0/0")
    assert answer.status_code == 500
    assert "bystander verify" in answer.json()["error"]


@pytest.mark.parametrize("clip", [b"", b"no sound at all", None])
def test_clips_that_are_no_sound_do_not_hide_the_row(tmp_path: Path, clip: bytes | None) -> None:
    rows = [make_row(0), make_row(1)]
    rows[0]["audio"]["bytes"] = clip if clip is not None else rows[0]["audio"]["bytes"][:3000]
    write_build(tmp_path / "demo", rows)
    page = Page(body_of(make_client(open_index(tmp_path / "demo")).get("/", params={"state": "kept"}).text))
    assert len(page.find("article")) == 2
    assert len(page.find("audio")) == (1 if clip == b"" else 2)
