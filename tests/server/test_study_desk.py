"""Who gets which sheet, what is written down, and what the pages refuse."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from bystander.schemas.errors import BuildError, InputError
from bystander.server.access import make_access
from bystander.server.local_server import build_app
from bystander.server.study_desk import ABANDONED_AFTER_S, StudyDesk
from bystander.server.study_pages import COOKIE, make_study_routes
from bystander.storage.study_files import read_answers
from study_samples import make_sample, write_bench

OWN = {"x-bystander": "1"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bench(tmp_path_factory.mktemp("sources") / "bench")


@pytest.fixture
def study(bench: Path, tmp_path: Path) -> Path:
    make_sample(tmp_path, "realism", bench, raters=2, per_rater=2, traps_per_rater=1)
    return tmp_path / "studies" / "realism"


def answer_all(desk: StudyDesk, rater: str, value: str = "2") -> None:
    for place in (1, 2, 3):
        desk.answer(rater, place, "realism", value, 2.5)


def test_each_rater_has_a_sheet_of_their_own_and_keeps_it(study: Path) -> None:
    desk = StudyDesk(str(study))
    assert desk.show("ann") == {"sheet": None, "state": None, "full": False}
    assert [desk.agree(who)["sheet"]["sheet"] for who in ("ann", "bob", "ann")] == [
        "sheet-0001",
        "sheet-0002",
        "sheet-0001",
    ]
    assert desk.agree("cid") == {"sheet": None, "state": None, "full": True}
    desk.answer("ann", 1, "realism", "3", 4.0)
    desk.answer("ann", 1, "realism", "1", 6.0)
    with pytest.raises(InputError, match="not answered yet"):
        desk.finish("ann")
    again = StudyDesk(str(study))  # stopped and started
    state = again.show("ann")["state"]
    assert state["items"][0] == {"answers": {"realism": "1"}, "seconds": 6.0, "heard": False}
    assert (state["at"], state["finished"]) == (1, False)
    answer_all(again, "ann")
    again.finish("ann")
    assert again.show("ann")["state"]["finished"]
    assert again.count() == (2, 2, 1)
    for change in (
        ("ann", 1, "realism", "2"),
        ("bob", 4, "realism", "2"),
        ("bob", 1, "oh", "2"),
        ("bob", 1, "realism", "9"),
    ):
        with pytest.raises(InputError):
            again.answer(*change, 1.0)
    with pytest.raises(InputError, match="nobody here has agreed"):
        again.answer("eve", 1, "realism", "2", 1.0)


def test_a_sheet_that_was_abandoned_goes_to_the_next(study: Path) -> None:
    now = [0.0]
    desk = StudyDesk(str(study), clock=lambda: now[0])
    desk.agree("ann")
    desk.agree("bob")
    answer_all(desk, "bob")
    desk.finish("bob")
    now[0] = ABANDONED_AFTER_S - 1
    assert desk.agree("cid")["full"]
    now[0] = ABANDONED_AFTER_S + 1
    assert desk.agree("cid")["sheet"]["sheet"] == "sheet-0001"
    assert desk.agree("dan")["full"]  # what was sent off is not given again


def test_a_line_that_was_half_written_is_cut_off(study: Path) -> None:
    desk = StudyDesk(str(study))
    desk.agree("ann")
    desk.answer("ann", 1, "realism", "3", 1.0)
    journal = study / "answers" / "served.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    again = StudyDesk(str(study))
    again.answer("ann", 2, "realism", "2", 1.0)
    assert [(one.place, one.value) for one in read_answers(make_store(study))] == [(0, "yes"), (2, "2")]


def make_store(folder: Path) -> Any:
    from bystander.storage.filesystem import open_store

    return open_store(folder)


def test_the_pages_tell_raters_apart_and_serve_nothing_else(bench: Path, tmp_path: Path) -> None:
    make_sample(tmp_path, "naturalness", bench, raters=2, per_rater=2, traps_per_rater=1)
    study = tmp_path / "studies" / "naturalness"
    routes = make_study_routes(StudyDesk(str(study)))
    app = build_app(routes, make_access(port=8000))
    with (
        TestClient(app, base_url="http://127.0.0.1:8000") as ann,
        TestClient(app, base_url="http://127.0.0.1:8000") as bob,
    ):
        page = ann.get("/")
        assert COOKIE not in page.cookies
        setup = json.loads(page.text.split('id="setup">')[1].split("</script>")[0])
        assert (setup["server"], setup["headers"]) == ("api/", OWN)
        assert "HttpOnly" in ann.get("/api/sheet").headers["set-cookie"]
        assert "SameSite=strict" in bob.get("/?rater=bob").headers["set-cookie"]
        sheets = [one.post("/api/agree", json={}, headers=OWN).json()["sheet"] for one in (ann, bob)]
        assert [sheet["sheet"] for sheet in sheets] == ["sheet-0001", "sheet-0002"]
        clip = sheets[0]["items"][0]["clip"]
        whole = ann.get(f"/clips/{clip}")
        assert whole.content == (study / "clips" / clip).read_bytes()
        part = ann.get(f"/clips/{clip}", headers={"range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, whole.content[10:20])
        for path in (
            "/clips/..%2Fkey.json",
            "/clips/%2e%2e/key.json",
            "/key.json",
            "/clips/nothing.mp3",
            "/study.json",
        ):
            assert ann.get(path).status_code == 404
        change = {"place": 1, "question": "naturalness", "value": "1", "seconds": 2}
        assert ann.post("/api/answer", json=change).status_code == 403
        assert ann.post("/api/answer", json=change, headers=OWN | {"origin": "http://evil.example"}).status_code == 403
        assert ann.post("/api/answer", json=change, headers=OWN).status_code == 200
        assert ann.post("/api/answer", json=change | {"value": "7"}, headers=OWN).status_code == 400
        assert ann.post("/api/answer", json=change | {"rater": "bob"}, headers=OWN).status_code == 400
        assert ann.get("/api/sheet").json()["state"]["items"][0]["answers"] == {"naturalness": "1"}
        assert bob.get("/api/sheet").json()["state"]["items"][0]["answers"] == {}
        ann.cookies.clear()
        assert ann.post("/api/agree", json={}, headers=OWN).status_code == 400


def test_only_whole_studies_of_sheets_are_served(study: Path, bench: Path, tmp_path: Path) -> None:
    make_sample(tmp_path, "realism", bench, name="lone", layout="item", raters=4, per_rater=2)
    with pytest.raises(InputError, match="--layout sheet"):
        StudyDesk(str(tmp_path / "studies" / "lone"))
    (study / "sheets.json").write_text("[]")
    with pytest.raises(BuildError, match=r"sheets\.json: is not what"):
        StudyDesk(str(study))


def test_ctrl_c_ends_the_server_with_a_sentence(study: Path) -> None:
    command = [sys.executable, "-m", "bystander.cli.main", "study", "serve", str(study)]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert served.stdout is not None
        assert served.stdout.readline() == "Study realism: 2 sheets, 0 begun, 0 sent off.\n"
        assert "For raters: http://127.0.0.1:" in served.stdout.readline()
        served.send_signal(signal.SIGINT)
        out, err = served.communicate(timeout=60)
    finally:
        served.kill()
    assert (served.returncode, err) == (0, "")
    assert out == "Ended; every answer is on the disk. 0 of 2 sheets were sent off, 0 begun.\n"
