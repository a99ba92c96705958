"""`bystander review`: the server as a process of its own, killed as well, and what the other commands print."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from bystander.schemas.review import ReviewEntry, RowReview
from bystander.storage.filesystem import open_store
from bystander.storage.review_files import ReviewJournal, read_decisions, read_journal
from bystander.storage.review_rows import ReviewBuild, find_reviews_folder
from bystander.storage.stored_builds import list_stored_builds
from review_builds import HEADERS, write_tpi

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, "review")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tpi(tmp_path / "store")


def say(folder: Path, annotator: str, verdicts: str) -> list[str]:
    """Let an annotator accept (a) or reject (r) the first rows, and return the ids of all."""
    build = ReviewBuild(str(folder))
    journal = ReviewJournal(find_reviews_folder(build), build.make_header(annotator))
    said = {"a": RowReview(verdict="accept", note="ok"), "r": RowReview(verdict="reject", reason="bad_audio")}
    journal.append(
        ReviewEntry(row_id=row, changes=said[letter], client="test", seq=seq)
        for seq, (row, letter) in enumerate(zip(build.rows, verdicts, strict=False), 1)
    )
    journal.close()
    return list(build.rows)


class Served:
    """A server in a process of its own."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "bystander.cli.main", "review", *map(str, arguments), "--no-open"]
        self.process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self.stdout: IO[bytes] = self.process.stdout
        self.first = self.stdout.readline().decode()
        found = re.search(r"http://\S+", self.stdout.readline().decode())
        assert found, self.process.communicate()[1].decode()
        self.url = found[0]
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def ask(self, path: str, value: Any = None) -> Any:
        base = self.url.partition("?")[0]
        data = None if value is None else json.dumps(value).encode()
        with self.opener.open(urllib.request.Request(base + path, data, HEADERS)) as answer:
            return json.loads(answer.read())

    def end(self, signum: int) -> tuple[str, str]:
        self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=60)
        return out.decode(), err.decode()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(*arguments: object) -> Served:
        started.append(Served(*arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_a_killed_server_loses_nothing_that_it_had_answered(folder: Path, serve: Callable[..., Served]) -> None:
    server = serve(folder, "--annotator", "Ada")
    rows = server.ask("api/rows")["rows"]
    assert server.first.startswith(f"6 rows of tpi-bench/demo to review, journals in {folder.parents[1]}/reviews/")
    for seq, row in enumerate(rows, 1):
        entry = {"row_id": row["id"], "client": "tab", "seq": seq, "changes": {"verdict": "accept"}}
        assert server.ask("api/changes", {"annotator": "ada", "entries": [entry]}) == {"saved": seq}
    server.end(signal.SIGKILL)
    journal = folder.parents[1] / "reviews" / "tpi-bench" / "demo" / "ada.jsonl"
    with journal.open("rb+") as file:  # as if it had died within the last line
        file.truncate(file.seek(0, os.SEEK_END) - 5)
    again = serve(folder, "--annotator", "ada")
    reviews = again.ask("api/rows")["reviews"]
    assert [reviews.get(row["id"]) for row in rows] == [{"verdict": "accept"}] * 5 + [None]
    out, err = again.end(signal.SIGINT)
    assert again.process.returncode == 0
    assert "Ended; all that the page showed as saved is on the disk." in out
    assert "the last line of" in err
    assert "it is dropped" in err
    assert len(read_journal(journal).reviews) == 5


def test_whoever_can_be_reached_demands_its_token(folder: Path, serve: Callable[..., Served]) -> None:
    server = serve(folder, "--host", "0.0.0.0", "--annotator", "ada", "--only", "label=ignorable", "--sample", 1)
    assert server.first.startswith("1 rows of")
    token = server.url.partition("token=")[2]
    assert len(token) > 20
    port = re.search(r":(\d+)/", server.url)
    assert port is not None
    server.url = f"http://127.0.0.1:{port[1]}/"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        server.ask("api/rows")
    server.opener.open(f"{server.url}?token={token}").close()
    assert len(server.ask("api/rows")["rows"]) == 1
    server.end(signal.SIGTERM)


def test_agreement_is_printed(folder: Path, run: Run) -> None:
    ids = say(folder, "ada", "aaarra")
    say(folder, "ben", "aararr")
    code, out, _ = run("agreement", folder)
    assert code == 0
    assert "tpi-bench/demo: ada judged 6, ben judged 6" in out
    assert re.search(r"raw agreement: 0\.500 \[0\.\d+, 0\.\d+\] over 6 rows", out)
    assert "disagreements: 3" in out
    found = json.loads(run("agreement", folder, "--json")[1])
    assert found["pairs"][0]["kappa"]["value"] == pytest.approx(0.0)
    assert found["disagreements"] == sorted([ids[2], ids[3], ids[5]])


def test_decisions_are_exported_and_taken_back(folder: Path, run: Run, tmp_path: Path) -> None:
    ids = say(folder, "ada", "aar")
    say(folder, "ben", "arr")
    out_file = tmp_path / "decisions.jsonl"
    code, out, _ = run("export", folder, "--out", out_file)
    assert code == 0
    assert "1 accepted (0 of them edited), 1 rejected, 1 in conflict; 3 rows of the build are undecided." in out
    verdicts = {decision.row_id: decision.verdict for decision in read_decisions(str(out_file))}
    assert verdicts == {ids[0]: "accept", ids[1]: "conflict", ids[2]: "reject"}
    assert "2 accepted" in run("export", folder, "--out", out_file, "--rule", "ada")[1]
    code, out, _ = run("import", folder, out_file, "--reviews", tmp_path / "other")
    assert (code, out) == (0, "ada: 3 rows taken.\nben: 3 rows taken.\n")
    assert (
        run("agreement", folder, "--reviews", tmp_path / "other", "--json")[1] == run("agreement", folder, "--json")[1]
    )


def test_journals_and_studies_are_no_builds_to_whoever_lists_a_store(folder: Path) -> None:
    say(folder, "ada", "a")
    study = folder.parents[1] / "studies" / "realism" / "study.json"
    study.parent.mkdir(parents=True)
    study.write_text("{}")
    assert [build.name for build in list_stored_builds(open_store(folder.parents[1]))] == ["tpi-bench/demo"]


def test_label_studio_gets_its_files(folder: Path, run: Run, tmp_path: Path) -> None:
    code, out, _ = run("label-studio", folder, "--out", tmp_path / "ls", "--only", "label=hard_negative")
    assert code == 0
    assert "2 tasks in tasks.json" in out
    run("label-studio", folder, "--out", tmp_path / "by-url", "--audio-prefix", "http://127.0.0.1:8710/api/clips/")
    assert not (tmp_path / "by-url" / "clips").exists()
    task = json.loads((tmp_path / "by-url" / "tasks.json").read_text())[0]
    assert task["data"]["audio"] == f"http://127.0.0.1:8710/api/clips/{task['data']['row_id']}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "mood=bad"], "--only mood=bad: write FIELD=VALUE with one of the fields label"),
        (["--only", "label=bad"], "no row matches; in this build label is actionable or hard_negative or ignorable"),
        (["--annotator", "a/b"], "--annotator: an annotator's name has"),
        (["--token", "short"], "--token: give 16 to 200"),
        (["--rejects"], "has no rejects with audio to review"),
        (["--clips-for", "localhost"], "origin 'localhost': write protocol, name and port"),
    ],
)
def test_wrong_options_are_named(folder: Path, run: Run, arguments: list[str], message: str) -> None:
    code, _, err = run(folder, *arguments)
    assert code == 2
    assert message in err


def test_the_sample_hangs_on_the_seed_and_grows(folder: Path) -> None:
    from bystander.schemas.review_selection import select_rows

    rows = list(ReviewBuild(str(folder)).rows.values())
    two, four = (select_rows(rows, sample=n, seed=3) for n in (2, 4))
    assert {*two} < {*four}
    assert select_rows(rows[::-1], sample=4, seed=3) == four[::-1]
    assert any(select_rows(rows, sample=2, seed=seed) != two for seed in range(5))
    assert select_rows(rows, ["label=actionable,ignorable", "label=hard_negative"]) == [row.id for row in rows]
    assert select_rows(rows, ["label=ignorable", "split=tpi_test"]) == [r.id for r in rows if r.label == "ignorable"]


def test_a_damaged_shard_is_told_in_a_sentence(folder: Path, run: Run) -> None:
    shard = next((folder / "data").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:2000])
    _, _, err = run(folder, "--no-open")
    assert f"{shard.name}: cannot be read as Parquet" in err
    assert "Traceback" not in err
