from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.review import ReviewEntry, RowReview
from bystander.storage.review_files import ReviewJournal, read_decisions, read_journal, read_reviews, write_decisions
from bystander.storage.review_rows import ReviewBuild, find_reviews_folder
from bystander.tasks.exchange_reviews import decide_rows, export_label_studio, import_reviews
from bystander.tasks.review.resolution import Resolution
from review_builds import write_sid, write_tpi


@pytest.fixture
def build(tmp_path: Path) -> ReviewBuild:
    return ReviewBuild(str(write_tpi(tmp_path)))


def say(build: ReviewBuild, annotator: str, **reviews: dict[str, Any]) -> Path:
    """Write what an annotator says about rows into their journal; `row_2` is the third row."""
    folder = find_reviews_folder(build)
    journal = ReviewJournal(folder, build.make_header(annotator))
    ids = list(build.rows)
    journal.append(
        ReviewEntry(row_id=ids[int(name[4:])], changes=RowReview.model_validate(review), client="t", seq=seq)
        for seq, (name, review) in enumerate(reviews.items(), 1)
    )
    journal.close()
    return folder


def label(task: dict[str, Any], *changes: Callable[[list[dict[str, Any]]], None], **fields: Any) -> dict[str, Any]:
    """Return a task as Label Studio exports it after somebody worked on it: the prediction, changed."""
    result = [
        {**json.loads(json.dumps(one)), "origin": "prediction-changed"} for one in task["predictions"][0]["result"]
    ]
    for name in ("verdict", "reason"):
        if name in fields:
            value = {"choices": [fields.pop(name)]}
            result.append({"id": name, "from_name": name, "to_name": "audio", "type": "choices", "value": value})
    if "note" in fields:
        value = {"text": [fields.pop("note")]}
        result.append({"id": "note", "from_name": "note", "to_name": "audio", "type": "textarea", "value": value})
    for change in changes:
        change(result)
    annotation = {"id": 7, "was_cancelled": False, "ground_truth": False, "completed_by": 3, "result": result} | fields
    return {"id": 1, "data": task["data"], "annotations": [annotation], "predictions": [], "file_upload": "tasks.json"}


def set_text(field: str, text: str) -> Callable[[list[dict[str, Any]]], None]:
    def change(result: list[dict[str, Any]]) -> None:
        [one] = [one for one in result if one["from_name"] == field]
        one["value"] = {"text": [text]}

    return change


def set_region(at: int, **value: float) -> Callable[[list[dict[str, Any]]], None]:
    return lambda result: [one for one in result if one["from_name"] == "regions"][at]["value"].update(value)


def export_tasks(build: ReviewBuild, folder: Path) -> list[dict[str, Any]]:
    export_label_studio(build, list(build.rows), str(folder))
    tasks: list[dict[str, Any]] = json.loads((folder / "tasks.json").read_text())
    return tasks


def take_back(build: ReviewBuild, folder: Path, tasks: list[Any], name: str = "export.json") -> dict[str, int]:
    (folder / name).write_text(json.dumps(tasks))
    return import_reviews(build, find_reviews_folder(build), str(folder / name))


def test_tasks_have_clips_and_controls_that_the_configuration_knows(build: ReviewBuild, tmp_path: Path) -> None:
    tasks = export_tasks(build, tmp_path / "ls")
    config = ElementTree.fromstring((tmp_path / "ls" / "labelling_config.xml").read_text())
    controls = {one.get("name"): one.tag.lower() for one in config.iter() if one.get("toName")}
    assert controls == {
        "regions": "labels",
        "verdict": "choices",
        "reason": "choices",
        "primary_text": "textarea",
        "third_party_text": "textarea",
        "note": "textarea",
    }
    assert len(tasks) == 6
    for task, (row_id, row) in zip(tasks, build.rows.items(), strict=True):
        clip = tmp_path / "ls" / "clips" / f"{row_id}.flac"
        assert task["data"]["audio"] == f"/data/local-files/?d=ls/clips/{row_id}.flac"
        assert clip.read_bytes() == build.read_row(row_id)["audio"]["bytes"]
        variables = {one.get("value", "")[1:] for one in config.iter() if one.get("value", "").startswith("$")}
        assert variables <= {*task["data"]}
        for result in task["predictions"][0]["result"]:
            assert result["type"] == controls[result["from_name"]]
            assert result.get("original_length", row.duration_s) == row.duration_s


def test_what_comes_back_unchanged_is_a_verdict_and_no_edit(build: ReviewBuild, tmp_path: Path) -> None:
    tasks = export_tasks(build, tmp_path / "ls")
    assert take_back(build, tmp_path, [label(task, verdict="accept") for task in tasks]) == {"label-studio-3": 6}
    reviews = read_reviews(find_reviews_folder(build), build.digest)["label-studio-3"]
    assert {row: review.model_dump(exclude_none=True) for row, review in reviews.items()} == {
        row: {"verdict": "accept"} for row in build.rows
    }


def test_edits_reasons_and_notes_come_back(build: ReviewBuild, tmp_path: Path) -> None:
    tasks = export_tasks(build, tmp_path / "ls")
    ada = {"id": 3, "email": "Ada.L@example.org", "first_name": "Ada"}
    own = build.read_row(tasks[0]["data"]["row_id"])["segments"]
    edited = label(
        tasks[0],
        set_text("third_party_text", "No, make it nine."),
        set_region(1, start=2.345, end=own[1]["end_s"]),
        verdict="accept",
        completed_by=ada,
    )
    rejected = label(tasks[1], verdict="reject", reason="bad_audio", note="hiss", completed_by=ada)
    skipped = label(tasks[2], verdict="accept", was_cancelled=True)
    assert take_back(build, tmp_path, [edited, rejected, skipped]) == {"ada.l-example.org": 2}
    reviews = read_reviews(find_reviews_folder(build), build.digest)["ada.l-example.org"]
    ids = list(build.rows)
    assert reviews[ids[0]].edits.given == {
        "third_party_text": "No, make it nine.",
        "segments": [own[0], own[1] | {"start_s": 2.345}],
    }
    assert (reviews[ids[1]].verdict, reviews[ids[1]].reason, reviews[ids[1]].note) == ("reject", "bad_audio", "hiss")
    assert ids[2] not in reviews


def test_the_same_file_counts_once_and_a_later_one_takes_back(build: ReviewBuild, tmp_path: Path) -> None:
    tasks = export_tasks(build, tmp_path / "ls")
    first = [label(tasks[0], set_text("primary_text", "Please!"), verdict="reject", reason="other")]
    assert take_back(build, tmp_path, first) == {"label-studio-3": 1}
    assert take_back(build, tmp_path, first) == {"label-studio-3": 0}
    assert take_back(build, tmp_path, [label(tasks[0], verdict="accept")]) == {"label-studio-3": 1}
    review = read_journal(find_reviews_folder(build) / "label-studio-3.jsonl").reviews[next(iter(build.rows))]
    assert review.model_dump(exclude_none=True) == {"verdict": "accept"}


def test_breaks_go_to_label_studio_and_back(tmp_path: Path) -> None:
    build = ReviewBuild(str(write_sid(tmp_path)))
    tasks = {
        task["data"]["label"] + (task["data"]["row_id"][-7:-5]): task for task in export_tasks(build, tmp_path / "l")
    }
    middle, uninterrupted, noise = tasks["middleen"], tasks["uninterrupteden"], tasks["noisexx"]
    assert noise["predictions"][0]["result"] == []
    done = [
        label(middle, set_region(0, start=0.9), set_text("text_with_break", "Right <break>yeah but"), verdict="accept"),
        label(tasks["beginningen"], lambda result: result.pop(0), verdict="accept"),
        label(uninterrupted, verdict="accept"),
        label(noise, verdict="reject", reason="bad_audio"),
    ]
    assert take_back(build, tmp_path, done) == {"label-studio-3": 4}
    reviews = read_reviews(find_reviews_folder(build), build.digest)["label-studio-3"]
    found = {row: review.edits.given for row, review in reviews.items()}
    beginning = tasks["beginningen"]["data"]["row_id"]
    assert found == {
        middle["data"]["row_id"]: {"break_time_s": 0.9, "text_with_break": "Right <break>yeah but"},
        beginning: {
            "break_time_s": build.rows[beginning].duration_s,
            "text_with_break": " but how much is it",
        },
        uninterrupted["data"]["row_id"]: {},
        noise["data"]["row_id"]: {},
    }


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t["data"].update(row_id="row-x"), r"task 1: data\.row_id: 'row-x' is no row of the build"),
        (lambda t: t["data"].update(build_digest="0" * 64), r"task 1: data\.build_digest: is that of other rows"),
        (lambda t: t.pop("data"), "task 1: has no data"),
        (lambda t: t.update(annotations=3), "task 1: annotations: is no list"),
        (lambda t: t["annotations"][0].update(result=None), "annotation 1: result: is no list"),
        (lambda t: t["annotations"][0].update(completed_by=None), "annotation 1: completed_by: is missing"),
        (lambda t: t["annotations"][0]["result"][0]["value"].update(start="x"), r"annotation 1: regions: start_s: "),
        (lambda t: t["annotations"][0]["result"][0]["value"].update(end=99), "one ends at 99 s, after the clip"),
        (lambda t: t["annotations"][0]["result"][0]["value"].update(labels=["dog"]), "regions: 'dog' is none of"),
        (lambda t: t["annotations"][0]["result"][-1]["value"].update(choices=["maybe"]), "annotation 1: verdict: "),
        (lambda t: t["annotations"][0]["result"][-1]["value"].update(choices=[]), "verdict: must be one choice"),
    ],
)
def test_faults_of_an_export_name_task_and_field(
    build: ReviewBuild, tmp_path: Path, spoil: Callable[[dict[str, Any]], Any], message: str
) -> None:
    task = label(export_tasks(build, tmp_path / "ls")[0], verdict="accept")
    spoil(task)
    with pytest.raises(InputError, match=message):
        take_back(build, tmp_path, [task])
    assert not find_reviews_folder(build).exists()


def test_what_is_no_export_is_refused(build: ReviewBuild, tmp_path: Path) -> None:
    for content, message in ((b"{", "is no JSON"), (b"{}", "holds no list of tasks"), (b"[]", "holds no annotation")):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(InputError, match=message):
            import_reviews(build, tmp_path / "reviews", str(tmp_path / "x.json"))


def test_decisions_go_out_and_come_back_into_journals(build: ReviewBuild, tmp_path: Path) -> None:
    folder = say(build, "ada", row_0={"verdict": "accept", "primary_text": "Please."}, row_1={"verdict": "reject"})
    say(build, "ben", row_1={"verdict": "reject", "reason": "bad_audio"}, row_2={"verdict": "accept"})
    decisions = decide_rows(build, folder, Resolution())
    write_decisions(str(tmp_path / "d.jsonl"), decisions)
    assert read_decisions(str(tmp_path / "d.jsonl"), build.digest) == decisions
    assert import_reviews(build, tmp_path / "elsewhere", str(tmp_path / "d.jsonl")) == {"ada": 2, "ben": 2}
    assert decide_rows(build, tmp_path / "elsewhere", Resolution()) == decisions


def test_undecided_builds_and_unknown_rules_are_named(build: ReviewBuild) -> None:
    with pytest.raises(InputError, match="nobody has judged a row yet"):
        decide_rows(build, find_reviews_folder(build), Resolution())
    folder = say(build, "ada", row_0={"verdict": "accept"})
    with pytest.raises(ConfigError, match="--rule eve: no annotator of that name"):
        decide_rows(build, folder, Resolution(rule="eve"))
