"""Raters at work in a real browser: a whole study on the local server, and the page of crowd platforms."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from bystander.schemas.study import StudyCell
from bystander.server.access import make_access
from bystander.server.local_server import running
from bystander.server.study_desk import StudyDesk
from bystander.server.study_pages import make_study_routes
from bystander.storage.study_files import hash_rater, read_answers, read_key, read_salt
from bystander.tasks.import_study import import_study
from bystander.tasks.report_study import report_study
from chromium import open_chromium
from study_samples import GOOD, make_sample, pass_traps, write_bench, write_evaluation


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sources")
    bench = write_bench(folder / "bench")
    return bench, write_evaluation(folder / "evaluation", bench)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page of a phone's width that remembers nothing of other tests."""
    context = chromium.new_context(viewport={"width": 360, "height": 800}, accept_downloads=True)
    yield context.new_page()
    context.close()


def begin(page: Any) -> None:
    page.wait_for_selector("#agree")
    assert page.is_disabled("button.main")
    assert page.query_selector("fieldset") is None  # nothing of the study before consent
    page.click("#agree")
    page.click("button.main")
    page.wait_for_selector("fieldset")


def choose(page: Any, question: str, value: str) -> None:
    page.click(f"fieldset[data-question={question}] label:has(input[value='{value}'])")


def go_on(page: Any) -> None:
    before = page.inner_text(".head .soft")
    page.click("button.main")
    page.wait_for_function("before => document.querySelector('.head .soft')?.textContent !== before", arg=before)


def watch(page: Any) -> list[str]:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    return faults


def test_raters_do_a_whole_study_and_the_report_has_what_they_said(page: Any, sources: Any, tmp_path: Path) -> None:
    study = make_sample(tmp_path, "preference", *sources, raters=4, per_rater=4)
    key = read_key(study.folder)
    first, second = list(key.sheets.values())[:2]
    tied = next(at for at in range(1, 5) if first[at].item)

    def prefer_good(cell: StudyCell) -> str:
        return pass_traps(cell, "preference", "first" if cell.first == GOOD else "second")

    with running(make_study_routes(StudyDesk(study.folder.uri)), make_access()) as access:
        faults = watch(page)
        page.goto(f"{access.url}?rater=zo%C3%AB")
        begin(page)
        assert page.url == access.url
        for at, cell in enumerate(first):
            assert page.inner_text(".head .soft") == f"{at + 1} of 6"
            page.click("button.main")  # not without an answer
            assert page.inner_text("#fault") == "Please answer every question first."
            choose(page, "preference", prefer_good(cell))
            if at == tied:
                go_on(page)
                page.click("text=Back")
                assert page.is_checked(f"input[value='{prefer_good(cell)}']")
                choose(page, "preference", "tie")
                page.wait_for_load_state("networkidle")
                page.reload()  # in the middle: the page comes back where something is left to do
                page.wait_for_selector("fieldset")
                assert page.inner_text(".head .soft") == f"{tied + 2} of 6"
                continue
            page.click("button.main") if at == 5 else go_on(page)
        page.wait_for_selector(".end")
        page.click("text=Someone else takes part here")
        begin(page)
        for at, cell in enumerate(second):  # by keys; falls into traps
            wrong = {"first": "second", "second": "tie", "tie": "first"}
            value = wrong[cell.trap.expected["preference"][0]] if cell.trap else "tie"
            order = page.eval_on_selector_all("fieldset input", "all => all.map(one => one.value)")
            page.keyboard.press(str(order.index(value) + 1))
            before = page.inner_text(".head .soft")
            page.keyboard.press("Enter")
            if at < 5:
                page.wait_for_function(
                    "before => document.querySelector('.head .soft').textContent !== before", arg=before
                )
        page.wait_for_selector(".end")
        assert faults == []
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert hash_rater(read_salt(study.folder), "zoë") in {one.rater for one in read_answers(study.folder)}
    assert "zo" not in (tmp_path / "studies/preference/answers/served.jsonl").read_text()
    report = report_study(study.folder.uri).report
    assert (report.raters, report.kept, report.dropped) == (2, 1, {"failed_traps": 1})
    [whole] = [one for one in report.preferences if one.part is None]
    assert (whole.wins, whole.ties, whole.losses) == (3, 1, 0)
    assert report.median_seconds is not None
    assert 0 <= report.median_seconds < 60


def test_a_clip_is_to_be_heard_before_it_is_rated(page: Any, sources: Any, tmp_path: Path) -> None:
    study = make_sample(
        tmp_path, "naturalness", sources[0], raters=2, per_rater=2, traps_per_rater=1, clip_format="wav"
    )
    with running(make_study_routes(StudyDesk(study.folder.uri)), make_access()) as access:
        page.goto(access.url)
        begin(page)
        choose(page, "naturalness", "3")
        page.click("button.main")
        assert page.inner_text("#fault") == "Please play the recording first."
        page.eval_on_selector("audio", "clip => { clip.playbackRate = 16; return clip.play(); }")
        page.wait_for_function("() => document.querySelector('audio').ended")
        go_on(page)
        page.reload()
        page.wait_for_selector("fieldset")
        assert page.inner_text(".head .soft") == "2 of 3"


class _Platform(ThreadingHTTPServer):
    forms: list[dict[str, str]]


@contextmanager
def run_platform() -> Iterator[_Platform]:
    """A server that takes forms as a crowd platform does."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            fields = parse_qs(body, keep_blank_values=True)
            assert all(len(values) == 1 for values in fields.values())
            server.forms.append({"path": self.path, **{name: values[0] for name, values in fields.items()}})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<p id=taken>taken</p>")

        def log_message(self, *_: Any) -> None:
            pass

    server = _Platform(("127.0.0.1", 0), Handler)
    server.forms = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fill_in(study: Any, folder: Path, line: int = 0, wrap: bool = False) -> Path:
    """Put a line's field into the page, as a platform does; with `wrap`, inside a form of the platform's own."""
    task = list(csv.DictReader(study.folder.read_bytes("tasks.csv").decode().splitlines()))[line]["task"]
    page = study.folder.read_bytes("crowd.html").decode().replace("${task}", task)
    if wrap:
        page = page.replace(
            "<body>",
            "<body><form name='mturk_form' method='post' id='mturk_form'>"
            "<input type='hidden' value='' name='assignmentId' id='assignmentId'/>",
        )
    path = folder / f"filled-{line}-{wrap}.html"
    path.write_text(page)
    return path


@pytest.mark.parametrize("wrap", [False, True])
def test_the_page_of_crowd_platforms_sends_the_form_that_is_read_back(
    page: Any, sources: Any, tmp_path: Path, wrap: bool
) -> None:
    study = make_sample(tmp_path, "reply", *sources, raters=3, per_rater=3)
    cells = read_key(study.folder).sheets["sheet-0002"]
    place = fill_in(study, tmp_path, 1, wrap).as_uri()
    given = [
        {"rsf": pass_traps(cell, "rsf", "yes"), "oh": pass_traps(cell, "oh", str(at % 5 + 1))}
        for at, cell in enumerate(cells)
    ]
    with run_platform() as platform:
        faults = watch(page)
        page.goto(f"{place}?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE")
        page.wait_for_selector("text=This is a preview")
        assert page.query_selector("#agree") is None
        assert page.is_disabled("button.main")
        host = f"http://127.0.0.1:{platform.server_port}"
        page.goto(f"{place}?assignmentId=AS17&workerId=W5&hitId=H9&turkSubmitTo={host}")
        begin(page)
        for at, answers in enumerate(given):
            for question, value in answers.items():
                choose(page, question, value)
            if at == 1:
                page.reload()
                page.wait_for_selector("fieldset")
                assert page.is_checked(f"fieldset[data-question=oh] input[value='{answers['oh']}']")
            page.click("button.main") if at == 4 else go_on(page)
        page.wait_for_selector("#taken")
        assert faults == []
        [form] = platform.forms
    assert (form.pop("path"), form.pop("assignmentId"), form["sheet"]) == (
        "/mturk/externalSubmit",
        "AS17",
        "sheet-0002",
    )
    seconds = [float(form.pop(f"p{at:02d}.seconds")) for at in range(1, 6)]
    assert all(0 <= one < 60 for one in seconds)
    wanted = {f"p{at:02d}.{name}": value for at, one in enumerate(given, 1) for name, value in one.items()}
    assert form == {"sheet": "sheet-0002", "consent": "yes", "workerId": "W5", "hitId": "H9", **wanted}
    batch = tmp_path / "batch.csv"
    with batch.open("w", newline="") as sink:
        row = {"WorkerId": "W5", "AssignmentStatus": "Submitted", **{f"Answer.{name}": v for name, v in form.items()}}
        writer = csv.DictWriter(sink, list(row))
        writer.writeheader()
        writer.writerow(row)
    assert import_study(study.folder.uri, str(batch)).answers == 10
    assert report_study(study.folder.uri).report.kept == 1


def test_without_a_platform_a_sheet_comes_from_a_file_and_answers_go_into_one(
    page: Any, sources: Any, tmp_path: Path
) -> None:
    study = make_sample(tmp_path, "realism", sources[0], raters=2, per_rater=2, traps_per_rater=1)
    place = (tmp_path / "studies/realism").as_uri()
    page.goto(f"{place}/crowd.html?rater=kim")
    page.set_input_files("input[type=file]", tmp_path / "studies/realism/study.json")
    page.wait_for_function("() => document.querySelector('.fault').textContent !== ''")
    page.set_input_files("input[type=file]", tmp_path / "studies/realism/sheets.json")
    page.wait_for_selector("select")
    page.select_option("select", "sheet-0002")
    page.click("button.main")
    begin(page)
    cells = read_key(study.folder).sheets["sheet-0002"]
    for cell in cells[:-1]:
        choose(page, "realism", pass_traps(cell, "realism", "2"))
        go_on(page)
    choose(page, "realism", pass_traps(cells[-1], "realism", "2"))
    with page.expect_download() as waiting:
        page.click("button.main")
    saved = tmp_path / "saved.json"
    waiting.value.save_as(saved)
    assert waiting.value.suggested_filename == "realism-sheet-0002.json"
    assert json.loads(saved.read_text())["rater"] == "kim"
    assert import_study(study.folder.uri, str(saved)).answers == 3
    assert report_study(study.folder.uri).report.questions[0].figure.mean == 2
