"""Results come back: what counts, what is rejected, who is dropped, and what the figures are."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bystander.cli.main import app
from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_config import Ratings
from bystander.schemas.study import StudyCell
from bystander.storage.filesystem import open_store
from bystander.storage.rating_files import read_ratings
from bystander.storage.study_files import read_answers, read_key
from bystander.tasks.import_study import import_study
from bystander.tasks.report_study import report_study
from study_samples import (
    GOOD,
    POOR,
    make_sample,
    make_study_rows,
    pass_traps,
    write_batch,
    write_bench,
    write_evaluation,
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sources")
    bench = write_bench(folder / "bench")

    def scores(system: str, at: int) -> tuple[int, int]:
        return (1, 5 - at % 2) if system == GOOD else (at % 2, 1 + at % 3)

    return bench, write_evaluation(folder / "evaluation", bench, scores)


def answer_twos_and_threes(number: int, cell: StudyCell, question: str) -> str:
    return pass_traps(cell, question, "2" if number % 2 else "3")


def test_a_batch_becomes_means_and_whoever_falls_into_a_trap_is_dropped(sources: Any, tmp_path: Path) -> None:
    made = make_sample(tmp_path, "realism", sources[0])

    def choose(number: int, cell: StudyCell, question: str) -> str | None:
        if number == 0 and cell.trap:  # falls into every trap
            [right] = cell.trap.expected[question]
            return "1" if right != "1" else "2"
        if number == 1 and cell.item:  # leaves everything but traps open
            return None
        return answer_twos_and_threes(number, cell, question)

    batch = write_batch(made.folder, tmp_path / "batch.csv", choose)
    taken = import_study(made.folder.uri, str(batch))
    assert (taken.answers, taken.raters, taken.rejected) == (10 * 7 - 5, 10, {})
    stored = b"".join(path.read_bytes() for path in (tmp_path / "studies" / "realism" / "answers").iterdir())
    assert b"WORKER" not in stored
    report = report_study(made.folder.uri).report
    assert (report.raters, report.kept, report.dropped) == (10, 8, {"failed_traps": 1, "unfinished": 1})
    assert (report.ratings, report.answers) == (40, 45)
    [question] = report.questions
    assert question.counts == {"1": 0, "2": 20, "3": 20}
    assert question.figure.mean == pytest.approx(2.5)
    assert (question.figure.n, question.figure.raters) == (40, 8)
    # Four raters say 2 and four 3, whatever they see: forty independent ratings would be far surer.
    assert question.figure.low is not None
    assert question.figure.clustered_low is not None
    assert question.figure.clustered_low < question.figure.low
    assert sum(figure.n for figure in question.breakdowns["scenario"].values()) == 40
    assert {trap.kind: trap.failed for trap in report.traps} == {"instruction": 1, "nonsense": 1}
    lenient = report_study(made.folder.uri, max_failed_traps=2, keep_unfinished=True).report
    assert (lenient.kept, lenient.ratings) == (10, 45)
    hurried = report_study(made.folder.uri, max_failed_traps=2, min_seconds=10).report
    assert hurried.dropped == {"too_fast": 10}
    assert hurried.questions[0].figure.mean is None
    page = (tmp_path / "studies" / "realism" / "report.html").read_text()
    assert "failed more traps" not in page
    assert "10 were too fast" in page


def test_what_is_wrong_in_a_file_is_rejected_with_its_reason(sources: Any, tmp_path: Path) -> None:
    made = make_sample(tmp_path, "realism", sources[0])
    batch = write_batch(made.folder, tmp_path / "batch.csv", answer_twos_and_threes)
    rows = list(csv.DictReader(batch.read_text().splitlines()))
    rows[0]["Answer.consent"] = ""
    rows[1]["Answer.p02.realism"] = "4"
    rows[2]["Answer.sheet"] = "sheet-9999"
    rows[3]["WorkerId"] = ""
    rows[4]["AssignmentStatus"] = "Rejected"
    rows[5]["Answer.p09.realism"] = "1"
    rows.append(rows[6])
    with batch.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, sorted({name for row in rows for name in row}))
        writer.writeheader()
        writer.writerows(rows)
    taken = import_study(made.folder.uri, str(batch))
    assert taken.rejected == {
        "no_consent": 1,
        "unknown_answer": 1,
        "unknown_sheet": 7,
        "no_rater": 1,
        "refused": 1,
        "unknown_item": 1,
        "repeated": 7,
    }
    assert taken.answers == 5 * 7 + 6
    rejects = [json.loads(line) for line in Path(taken.rejects_file).read_text().splitlines()]
    assert [r["line"] for r in rejects if r["reason"] == "unknown_answer"] == [2]
    again = import_study(made.folder.uri, str(batch))
    assert (again.answers, again.rejected["repeated"]) == (0, 5 * 7 + 6 + 7)
    with pytest.raises(InputError, match="unknown format"):
        import_study(made.folder.uri, str(tmp_path / "batch.xlsx"))


def test_a_line_an_answer_is_read_too_and_a_page_that_was_saved(sources: Any, tmp_path: Path) -> None:
    made = make_sample(tmp_path, "preference", *sources)
    key = read_key(made.folder)
    (sheet, cells), (other, others) = list(key.sheets.items())[:2]
    lines = [{"rater": "ann", "item": f"{sheet}.p00", "question": "consent", "answer": "yes"}]
    for place, cell in enumerate(cells, start=1):
        value = pass_traps(cell, "preference", "first")
        lines.append({"rater": "ann", "item": f"{sheet}.p{place:02d}", "question": "preference", "answer": value})
    lines.append({"rater": "bob", "item": key.items[0].id, "question": "preference", "answer": GOOD})
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    taken = import_study(made.folder.uri, str(path))
    assert (taken.answers, taken.rejected) == (7, {"no_consent": 1})
    taken = import_study(made.folder.uri, str(path), consented=True)
    assert (taken.answers, taken.rejected) == (1, {"repeated": 7})

    saved: dict[str, Any] = {"study": "preference", "rater": "", "sheet": other, "consent": "yes"}
    for place, cell in enumerate(others, start=1):
        saved |= {f"p{place:02d}.preference": pass_traps(cell, "preference", "tie"), f"p{place:02d}.seconds": "3.5"}
    (tmp_path / "page.json").write_text(json.dumps(saved))
    assert import_study(made.folder.uri, str(tmp_path / "page.json")).rejected == {"no_rater": 1}
    assert import_study(made.folder.uri, str(tmp_path / "page.json"), rater="cid").answers == 7

    report = report_study(made.folder.uri).report
    first = Counter(cell.first for cell in cells if cell.item)
    [whole] = [one for one in report.preferences if one.part is None]
    assert (whole.wins, whole.losses, whole.ties) == (first[GOOD] + 1, first[POOR], 5)
    assert report.kept == 3
    assert {one.rater for one in read_answers(made.folder)} & {"ann", "bob", "cid"} == set()


def test_sides_are_the_systems_that_stood_there(sources: Any, tmp_path: Path) -> None:
    made = make_sample(tmp_path, "preference", *sources, raters=12)

    def prefer_good(number: int, cell: StudyCell, question: str) -> str:
        return pass_traps(cell, question, "first" if cell.first == GOOD else "second")

    import_study(made.folder.uri, str(write_batch(made.folder, tmp_path / "batch.csv", prefer_good)))
    [whole] = [one for one in report_study(made.folder.uri).report.preferences if one.part is None]
    assert (whole.wins, whole.ties, whole.losses, whole.share) == (60, 0, 0, 1.0)
    assert whole.p == pytest.approx(2 * 0.5**60)
    assert whole.p_by_rater == pytest.approx(2 * 0.5**12)  # all of twelve raters' signs alike
    of_labels = [one for one in report_study(made.folder.uri).report.preferences if one.part]
    assert sum(one.wins for one in of_labels) == 60


def test_replies_are_compared_with_a_judge_and_given_to_evaluations(sources: Any, tmp_path: Path) -> None:
    made = make_sample(tmp_path, "reply", *sources, raters=12)
    rows = [row["id"] for row in make_study_rows()]
    items = {item.id: item for item in read_key(made.folder).items}

    def agree(number: int, cell: StudyCell, question: str) -> str:
        if cell.trap:
            return pass_traps(cell, question, "no" if question == "rsf" else "1")
        item = items[str(cell.item)]
        at = rows.index(item.row)
        if question == "oh":  # as the judge, one point lower where there is room
            return str((5 - at % 2) - 1 if item.system == GOOD else max(1, at % 3))
        return "yes" if item.system == GOOD or at % 2 else "no"

    import_study(made.folder.uri, str(write_batch(made.folder, tmp_path / "batch.csv", agree)))
    found = report_study(made.folder.uri)
    by = {(one.metric, one.system): one for one in found.report.correlations}
    assert by["rsf", None].pearson == pytest.approx(1)
    assert by["oh", None].spearman is not None
    assert 0.9 < by["oh", None].spearman < 1
    assert by["rsf", GOOD].undefined == "people give every row the score 1"
    assert {one.question: one.alpha for one in found.report.alphas} == {"rsf": 1, "oh": 1}
    ratings = read_ratings(Ratings(name="people", path=f"{found.folder.uri}/ratings.csv"))
    assert set(ratings) == {(system, metric) for system in (GOOD, POOR) for metric in ("rsf", "oh")}
    assert set(ratings[GOOD, "rsf"].values()) == {1.0}


def test_satisfaction_has_a_table_a_test_and_a_comparison(sources: Any, tmp_path: Path) -> None:
    made = make_sample(tmp_path, "satisfaction", *sources, raters=20)
    items = {item.id: item for item in read_key(made.folder).items}

    def choose(number: int, cell: StudyCell, question: str) -> str:
        system = items[cell.item].system if cell.item else None
        return pass_traps(cell, question, "preferred" if system == GOOD else ("neutral", "unpreferred")[number % 2])

    import_study(made.folder.uri, str(write_batch(made.folder, tmp_path / "batch.csv", choose)))
    report = report_study(made.folder.uri).report
    good, poor = [one for one in report.preferences if one.part is None]
    assert (good.first, good.second, good.wins, good.ties + good.losses) == (GOOD, None, 40, 0)
    assert (poor.wins, poor.ties + poor.losses) == (0, 40)
    assert report.comparisons[0].p is not None
    assert report.comparisons[0].p < 1e-10
    assert [one.figure.mean for one in report.questions if one.system == GOOD] == [1]


def test_the_commands_do_all_of_it(sources: Any, tmp_path: Path) -> None:
    def call(*arguments: Any) -> str:
        result = CliRunner().invoke(app, ["study", *map(str, arguments)], standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return result.output

    consent = tmp_path / "consent.txt"
    consent.write_text("We ask you\nthis.\n\nAnd that.\n")
    said = call(
        "make",
        "realism",
        "--bench",
        sources[0],
        "--out",
        tmp_path,
        "--name",
        "mine",
        "--raters",
        6,
        "--per-rater",
        4,
        "--consent",
        consent,
        "--traps",
        1,
    )
    assert "6 sheets, 6 traps" in said
    assert "± " in said
    folder = open_store(tmp_path / "studies" / "mine")
    assert json.loads(folder.read_bytes("study.json"))["wording"]["consent"] == ["We ask you this.", "And that."]
    batch = write_batch(folder, tmp_path / "batch.csv", answer_twos_and_threes)
    with pytest.raises(InputError, match="has no answers yet"):
        call("report", folder.uri)
    assert "30 answers of 6 raters" in call("import", folder.uri, batch)
    assert "6 of 6 raters kept, 24 ratings" in call("report", folder.uri)
    assert json.loads(call("report", folder.uri, "--json"))["questions"][0]["figure"]["mean"] == 2.5
    with pytest.raises(InputError, match="has answers already"):
        call("make", "realism", "--bench", sources[0], "--out", tmp_path, "--name", "mine")
    with pytest.raises(Exception, match="no such kind"):
        call("make", "beauty", "--bench", sources[0], "--out", tmp_path, "--name", "x")


def test_a_rater_who_takes_two_sheets_counts_once_for_a_scenario(sources: Any, tmp_path: Path) -> None:
    made = make_sample(tmp_path, "reply", *sources, raters=12)
    key = read_key(made.folder)
    groups = {item.id: item.group for item in key.items}
    batch = write_batch(
        made.folder, tmp_path / "batch.csv", lambda n, cell, q: pass_traps(cell, q, {"rsf": "yes"}.get(q, "3"))
    )
    batch.write_text(batch.read_text().replace("WORKER1\n", "WORKER0\n"))  # who took a second sheet
    taken = import_study(made.folder.uri, str(batch))
    first, second = (
        {groups[cell.item] for cell in key.sheets[sheet] if cell.item} for sheet in ("sheet-0001", "sheet-0002")
    )
    assert taken.rejected == ({"repeated": 2 * len(first & second)} if first & second else {})
    assert first & second
