"""The served listening page: every row and reject found by its filters, and heard."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from bystander.schemas.sid import SID_FINAL
from bystander.server.listening_index import PAGE_ITEMS, ListeningIndex
from final_rows import make_bench_rows, write_build
from html_pages import Page
from listening_builds import build_with_rejects, make_listener, open_index
from review_builds import write_sid
from tpi_builds import Built

FILTERS = ("state", "label", "scenario", "reject_stage", "reject_reason")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    with pytest.MonkeyPatch.context() as patch:
        return build_with_rejects(tmp_path_factory.mktemp("listen") / "store", patch)


@pytest.fixture(scope="module")
def index(built: Built) -> ListeningIndex:
    return open_index(built.folder)


@pytest.fixture(scope="module")
def client(index: ListeningIndex) -> TestClient:
    return make_listener(index)


def list_keys(client: TestClient, address: str) -> list[str]:
    """Return the items of all pages from an address on."""
    keys: list[str] = []
    for _ in range(100):
        page = Page(client.get(address).text)
        keys += [str(article["id"]) for article in page.find("article")]
        following = [link["href"] for link in page.find("a") if link.get("rel") == "next"]
        if not following:
            return keys
        address = str(following[0])
    raise AssertionError("the pages do not end")


def test_every_row_and_every_reject_is_there_once(client: TestClient, built: Built) -> None:
    keys = list_keys(client, "/")
    rows = built.read_rows()["id"].to_pylist()
    assert keys[: len(rows)] == rows
    rejects = Counter(key[1:].partition(".")[0] for key in keys[len(rows) :])
    assert rejects == {stage.stage: stage.rejected for stage in built.outcome.manifest.stages if stage.rejected}
    assert len(set(keys)) == len(keys) > PAGE_ITEMS


def test_filters_find_what_the_files_hold(client: TestClient, built: Built) -> None:
    rows = built.read_rows().to_pylist()
    label, scenario = rows[0]["label"], rows[0]["scenario"]
    wanted = [row["id"] for row in rows if (row["label"], row["scenario"]) == (label, scenario)]
    assert list_keys(client, f"/?state=kept&label={label}&scenario={scenario}") == wanted
    rejected = built.read_rejects("normalise_queries")
    assert {row["reject_reason"] for row in rejected} == {"empty", "url", "duplicate"}
    assert len(list_keys(client, "/?reject_reason=url")) == 1
    assert len(list_keys(client, "/?state=rejected&reject_stage=normalise_queries")) == 3
    words = "+".join(rows[3]["third_party_text"].split()[:3])
    found = list_keys(client, f"/?q={quote(words, safe='+')}")
    assert rows[3]["id"] in found
    assert len(found) < 12
    nothing = client.get("/?label=nonsense&q=%3Cscript%3E")
    assert "Nothing is left by these filters." in nothing.text
    assert "<script>" not in nothing.text.replace("<script src=", "")


@pytest.mark.parametrize("page", ["0", "-1", "99999999999", "x", "٣"])
def test_pages_that_are_not_there_are_the_nearest(client: TestClient, page: str) -> None:
    assert client.get(f"/?page={page}").status_code == 200


@given(chosen=st.dictionaries(st.sampled_from(FILTERS), st.integers(0, 5)), text=st.sampled_from(["", "the", "a i"]))
def test_more_filters_leave_fewer_items_in_the_same_order(
    index: ListeningIndex, chosen: dict[str, int], text: str
) -> None:
    values = {menu.field: [value for value, _ in menu.values] for menu in index.menus}
    facets = {name: values[name][number % len(values[name])] for name, number in chosen.items() if name in values}
    found = [item.key for item in index.select(facets, text)]
    everything = [item.key for item in index.items]
    assert found == [key for key in everything if key in set(found)]
    for name, value in facets.items():
        assert set(found) <= {item.key for item in index.select({name: value})}


def test_rows_and_rejects_are_heard(client: TestClient, built: Built, index: ListeningIndex) -> None:
    row = built.read_rows().slice(2, 1).to_pylist()[0]
    heard = client.get(f"/audio/{row['id']}/0")
    assert (heard.content, heard.headers["content-type"]) == (row["audio"]["bytes"], "audio/flac")
    part = client.get(f"/audio/{row['id']}/0", headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, row["audio"]["bytes"][10:20])
    left_over = next(item.key for item in index.items if item.facets.get("reject_reason") == "quota_filled")
    quota = built.read_rejects("select_quotas")[0]
    assert client.get(f"/audio/{left_over}/0").content == quota["audio"]["bytes"]


def test_failed_speech_is_found_among_the_calls_that_the_store_keeps(client: TestClient, index: ListeningIndex) -> None:
    failed = [item for item in index.items if item.facets.get("reject_stage") == "synthesise_speech"]
    assert failed
    for item in failed:
        players = index.describe(item).players
        assert players[0].title == "Primary speaker, attempt 1"
        answer = client.get(players[0].source)
        samples, _ = soundfile.read(io.BytesIO(answer.content))
        assert 0.2 < len(samples) / 24000 < 30
        assert abs(samples).max() > 0.01


def test_where_nothing_can_be_heard_it_says_why(index: ListeningIndex, built: Built, tmp_path: Path) -> None:
    early = next(item for item in index.items if item.facets.get("reject_stage") == "normalise_queries")
    assert index.describe(early).silence == "It was refused before it was spoken."
    away = tmp_path / "away"  # without its store
    away.mkdir()
    for path in built.folder.rglob("*"):
        if path.is_file():
            target = away / path.relative_to(built.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    moved = open_index(away)
    failed = next(item for item in moved.items if item.facets.get("reject_stage") == "synthesise_speech")
    assert moved.describe(failed).silence.startswith("It was spoken and failed.")
    assert len(moved.items) == len(index.items)


@pytest.mark.parametrize(
    "address",
    ["/audio/nobody/0", "/audio/{row}/1", "/audio/{row}/x", "/audio/~select_quotas.99999/0", "/manifest.json"],
)
def test_what_is_no_sound_of_the_build_is_not_served(client: TestClient, built: Built, address: str) -> None:
    row = built.read_rows()["id"][0].as_py()
    assert client.get(address.format(row=row)).status_code == 404
    for path in ("/audio/../manifest.json/0", "/audio/%2e%2e%2fmanifest.json/0", "/static/../../pyproject.toml"):
        assert client.get(path).status_code == 404


def test_strangers_are_refused(index: ListeningIndex) -> None:
    assert make_listener(index).get("/", headers={"host": "evil.example"}).status_code == 421
    closed = make_listener(index, token="open-sesame-open-sesame")
    assert closed.get("/").status_code in (401, 403)
    assert closed.get("/?token=open-sesame-open-sesame", follow_redirects=True).status_code == 200
    assert make_listener(index).post("/").status_code == 403


def test_benches_and_sid_builds_have_their_own_filters(tmp_path: Path) -> None:
    bench = tmp_path / "tpi-bench" / "demo"
    write_build(bench, make_bench_rows(4, 2, 1), by_split=True, kind="tpi_bench", dataset="tpi-bench", build="demo")
    assert {"split", "label"} <= {menu.field for menu in open_index(bench).menus}
    folder = write_sid(tmp_path)
    index = open_index(folder)
    assert {"category", "language"} <= {menu.field for menu in index.menus}
    shard = next((folder / "data").glob("*.parquet"))
    assert set(pq.read_schema(shard).names) == set(SID_FINAL.names)
    client = make_listener(index)
    row = pq.read_table(shard).to_pylist()[0]
    assert client.get(f"/audio/{row['id']}/0").content == row["audio"]["bytes"]
    page = client.get("/?category=middle&language=en").text
    assert page.count("<article") == 1
    assert "<mark>break</mark>" in page
