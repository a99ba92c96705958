from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
from starlette.testclient import TestClient

from bystander.schemas.errors import InputError
from bystander.server.access import make_access
from bystander.server.local_server import build_app
from bystander.server.review_routes import make_review_routes
from bystander.server.review_session import ReviewSession
from bystander.storage.review_files import read_journal
from review_builds import HEADERS, make_client, open_session, write_sid, write_tpi

XSS = "<script>alert(1)</script>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tpi(tmp_path, third_party_text=XSS)


@pytest.fixture
def session(folder: Path) -> Iterator[ReviewSession]:
    opened = open_session(folder)
    yield opened
    opened.close()


@pytest.fixture
def client(session: ReviewSession) -> TestClient:
    return make_client(session)


def send(client: TestClient, seq: int, row_id: str, annotator: str = "ada", **changes: Any) -> Any:
    entry = {"row_id": row_id, "client": "tab", "seq": seq, "changes": changes}
    return client.post("/api/changes", json={"annotator": annotator, "entries": [entry]})


def read_reviews(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/rows").json()["reviews"]
    return found


def test_rows_are_listed_and_shown_with_peaks(client: TestClient, session: ReviewSession) -> None:
    found = client.get("/api/rows").json()
    assert (found["annotator"], found["kind"], len(found["rows"])) == ("ada", "tpi", 6)
    assert [row["id"] for row in found["rows"]] == list(session.row_ids)
    row_id = found["rows"][0]["id"]
    row = client.get(f"/api/rows/{row_id}").json()
    stored = session.build.read_row(row_id)
    assert row["segments"] == stored["segments"]
    assert {one["field"]: one["text"] for one in row["texts"]} == {
        "primary_text": stored["primary_text"],
        "third_party_text": XSS,
    }
    assert len(row["peaks"]) == 1200
    assert max(max(abs(low), abs(high)) for low, high in row["peaks"]) == 100


def test_sid_rows_have_words_and_their_places_in_the_text(tmp_path: Path) -> None:
    session = open_session(write_sid(tmp_path))
    client = make_client(session)
    for listed in client.get("/api/rows").json()["rows"]:
        row = client.get(f"/api/rows/{listed['id']}").json()
        if listed["label"] in ("silence", "noise"):
            assert (row["words"], row["texts"], row["break_time_s"]) == ([], [], None)
            continue
        assert [row["text"].index(word["word"], word["at"]) for word in row["words"]] == [w["at"] for w in row["words"]]
        assert row["has_break"] == (listed["label"] != "uninterrupted")
        assert row["context"] == {"start_s": 0.0, "end_s": min(1.2, listed["duration_s"])}
    session.close()


def test_clips_are_sent_whole_and_in_parts(client: TestClient, session: ReviewSession) -> None:
    row_id = session.row_ids[0]
    whole = client.get(f"/api/clips/{row_id}")
    audio = session.build.read_row(row_id)["audio"]["bytes"]
    assert (whole.content, whole.headers["content-type"]) == (audio, "audio/flac")
    assert soundfile.info(io.BytesIO(whole.content)).samplerate == 24000
    for given, start, end in (("10-19", 10, 20), ("100-", 100, len(audio)), ("-7", len(audio) - 7, len(audio))):
        part = client.get(f"/api/clips/{row_id}", headers={"range": f"bytes={given}"})
        assert (part.status_code, part.content) == (206, audio[start:end])
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{len(audio)}"
    assert client.get(f"/api/clips/{row_id}", headers={"range": f"bytes={len(audio)}-"}).status_code == 416
    assert client.get(f"/api/clips/{row_id}", headers={"range": "bytes=-"}).content == audio


@pytest.mark.parametrize(
    "row_id", ["nothing", "..", "../../manifest.json", "..%2f..%2fmanifest.json", "%2fetc%2fpasswd", "a%00b", "%ff"]
)
def test_ids_are_looked_up_and_never_paths(client: TestClient, row_id: str) -> None:
    for kind in ("rows", "clips"):
        assert client.get(f"/api/{kind}/{row_id}").status_code == 404


def test_changes_are_on_the_disk_when_they_are_answered(client: TestClient, session: ReviewSession) -> None:
    one, other = session.row_ids[:2]
    assert send(client, 1, one, verdict="reject", reason="bad_audio").json() == {"saved": 1}
    assert send(client, 2, one, note=XSS, third_party_text="no, make it nine").json() == {"saved": 2}
    assert send(client, 3, other, verdict="accept").json() == {"saved": 3}
    assert send(client, 2, one, note="again").json() == {"saved": 2}
    journal = read_journal(session.folder / "ada.jsonl")
    assert journal.reviews[one].model_dump(exclude_none=True) == {
        "verdict": "reject",
        "reason": "bad_audio",
        "note": XSS,
        "third_party_text": "no, make it nine",
    }
    assert read_reviews(client)[other] == {"verdict": "accept"}
    session.close()
    again = open_session(Path(session.build.store.uri))
    assert read_reviews(make_client(again)) == {
        row: review.model_dump(exclude_none=True) for row, review in journal.reviews.items()
    }
    again.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verdict": "perhaps"}, "changes.verdict"),
        ({"mood": "good"}, "changes.mood: no such field"),
        ({"primary_text": ""}, "changes.primary_text"),
        ({"primary_text": "a" * 2001}, "changes.primary_text"),
        ({"note": "a" * 2001}, "changes.note"),
        ({"break_time_s": 1.0}, "no such field in a TPI row"),
        ({"segments": []}, "changes.segments"),
        ({"segments": [{"speaker": "dog", "start_s": 0, "end_s": 1}]}, "is no speaker of the row"),
        ({"segments": [{"speaker": "primary", "start_s": 1, "end_s": 1}]}, "before it has begun"),
        ({"segments": [{"speaker": "primary", "start_s": 0, "end_s": 99}]}, "after the clip"),
        ({"segments": [{"speaker": "primary", "start_s": -1, "end_s": 1}]}, "changes.segments.0.start_s"),
    ],
)
def test_changes_that_make_no_sense_are_refused(
    client: TestClient, session: ReviewSession, changes: dict[str, Any], message: str
) -> None:
    answer = send(client, 1, session.row_ids[0], **changes)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert not (session.folder / "ada.jsonl").exists()


def test_a_batch_with_an_unknown_row_is_not_written_at_all(client: TestClient, session: ReviewSession) -> None:
    entries = [
        {"row_id": row_id, "client": "tab", "seq": seq, "changes": {"verdict": "accept"}}
        for seq, row_id in enumerate((session.row_ids[0], "row-of-another-build"), 1)
    ]
    answer = client.post("/api/changes", json={"annotator": "ada", "entries": entries})
    assert answer.status_code == 400
    assert "is not among the rows" in answer.json()["error"]
    assert read_reviews(client) == {}


def test_texts_are_never_markup(client: TestClient, session: ReviewSession) -> None:
    send(client, 1, session.row_ids[0], verdict="accept", note=XSS)
    with make_client(session, "ben") as ben:
        send(ben, 1, session.row_ids[0], "ben", verdict="reject", note=XSS)
    for path in ("/", "/annotator", "/agreement"):
        page = client.get(path)
        assert XSS not in page.text
        assert page.headers["content-type"].startswith("text/html")
    assert client.get("/agreement").text.count("&lt;script&gt;") == 2
    for path in (f"/api/rows/{session.row_ids[0]}", "/api/rows", "/api/others"):
        assert client.get(path).headers["content-type"] == "application/json"


def test_names_are_asked_for_and_checked(session: ReviewSession) -> None:
    client = make_client(session, None)
    assert 'id="annotator"' in client.get("/").text
    assert client.get("/api/rows").status_code == 400
    for name in ("", "../ada", "a b", XSS, "majority"):
        assert client.post("/api/annotator", json={"name": name}).status_code == 400
    answer = client.post("/api/annotator", json={"name": " Zoë "})
    assert answer.json() == {"annotator": "zoë"}
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert client.get("/api/rows").json()["annotator"] == "zoë"
    assert 'id="sheet"' in client.get("/").text
    assert send(client, 1, session.row_ids[0], "ada", verdict="accept").status_code == 409


def test_the_name_that_the_command_is_given_goes_before_that_of_another_review(session: ReviewSession) -> None:
    app = build_app(make_review_routes(session, "张三"), make_access(port=8000))
    client = make_client(session, "ada")
    given = TestClient(app, base_url="http://127.0.0.1:8000", headers=HEADERS, cookies=client.cookies)
    assert given.get("/api/rows").json()["annotator"] == "张三"
    given.post("/api/annotator", json={"name": "ben"})
    assert given.get("/api/rows").json()["annotator"] == "ben"


def test_without_the_token_no_row_and_no_clip(session: ReviewSession) -> None:
    client = make_client(session, token="t" * 20)
    for path in ("/", "/api/rows", f"/api/rows/{session.row_ids[0]}", f"/api/clips/{session.row_ids[0]}"):
        assert client.get(path).status_code == 401
    assert send(client, 1, session.row_ids[0], verdict="accept").status_code == 401


def test_annotators_write_at_once_each_into_a_journal_of_their_own(session: ReviewSession) -> None:
    names = ("ada", "ben", "cem", "dee")
    faults: list[Any] = []

    def work(name: str) -> None:
        client = make_client(session, name)
        for seq in range(1, 26):
            answer = send(client, seq, session.row_ids[seq % 6], name, note=f"{name} {seq}")
            if answer.status_code != 200:
                faults.append(answer.text)

    threads = [threading.Thread(target=work, args=(name,)) for name in names for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    for name in names:
        lines = (session.folder / f"{name}.jsonl").read_text().splitlines()
        assert len(lines) == 26
        reviews = read_journal(session.folder / f"{name}.jsonl").reviews
        assert {review.note for review in reviews.values()} == {f"{name} {seq}" for seq in range(20, 26)}


def test_a_torn_line_is_dropped_and_said(folder: Path, session: ReviewSession, client: TestClient) -> None:
    send(client, 1, session.row_ids[0], verdict="accept")
    session.close()
    path = session.folder / "ada.jsonl"
    with path.open("ab") as file:
        file.write(b'{"row_id":"row-0000","changes":{"verd')
    heard: list[str] = []
    again = open_session(folder, heard)
    client = make_client(again)
    assert read_reviews(client) == {session.row_ids[0]: {"verdict": "accept"}}
    assert heard == [f"the last line of {path} was not whole, since its writer was stopped; it is dropped (37 bytes)"]
    assert send(client, 2, session.row_ids[0], verdict="reject").status_code == 200
    again.close()
    assert read_journal(path).reviews[session.row_ids[0]].verdict == "reject"


def test_others_are_shown_where_verdicts_differ(client: TestClient, session: ReviewSession) -> None:
    one, other = session.row_ids[:2]
    ben = make_client(session, "ben")
    for seq, row_id in enumerate((one, other), 1):
        send(client, seq, row_id, verdict="accept")
    send(ben, 1, one, "ben", verdict="reject", reason="wrong_text")
    send(ben, 2, other, "ben", verdict="accept")
    assert client.get("/api/others").json() == {
        one: {"ada": {"verdict": "accept"}, "ben": {"verdict": "reject", "reason": "wrong_text"}}
    }
    page = client.get("/agreement").text
    assert f'href="/?others#{one}"' in page
    assert "ada, ben" in page


def test_other_builds_are_refused(tmp_path: Path) -> None:
    folder = write_tpi(tmp_path)
    moved = folder.rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="name a folder with --reviews"):
        open_session(moved)


def test_a_label_studio_may_read_clips_and_nothing_else(session: ReviewSession) -> None:
    token, origin = "t" * 20, "http://localhost:8080"
    access = make_access(port=8000, token=token, clip_origins=(origin,))
    client = TestClient(build_app(make_review_routes(session, "ada"), access), base_url="http://127.0.0.1:8000")
    clip = client.get(f"/api/clips/{session.row_ids[0]}?token={token}", headers={"origin": origin})
    assert clip.headers["access-control-allow-origin"] == origin
    assert clip.headers["cross-origin-resource-policy"] == "cross-origin"
    assert clip.content.startswith(b"fLaC")
    foreign = client.get(f"/api/clips/{session.row_ids[0]}?token={token}", headers={"origin": "http://evil.example"})
    assert "access-control-allow-origin" not in foreign.headers
    client.get("/", params={"token": token})
    rows = client.get("/api/rows", headers={"origin": origin})
    assert "access-control-allow-origin" not in rows.headers
    assert rows.headers["cross-origin-resource-policy"] == "same-origin"
