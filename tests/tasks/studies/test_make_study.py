"""What raters see, and what is kept from them."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.study import StudySettings
from bystander.schemas.study_wording import load_wording
from bystander.storage.study_files import decode_sheet, read_key, read_salt
from bystander.tasks.studies.items import draw_items
from study_samples import GOOD, POOR, make_sample, make_study_rows, read_shown, write_bench, write_evaluation

KINDS = ("realism", "naturalness", "reply", "preference", "satisfaction")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A store, a bench and an evaluation."""
    folder = tmp_path_factory.mktemp("studies")
    bench = write_bench(folder / "bench")
    return folder / "store", bench, write_evaluation(folder / "evaluation", bench)


@pytest.mark.parametrize("kind", KINDS)
def test_every_sheet_has_its_items_and_traps_and_tells_nothing_of_them(place: Any, kind: str) -> None:
    made = make_sample(place[0], kind, *place[1:])
    key, shown = read_key(made.folder), read_shown(made.folder)
    rows = {row["id"]: row for row in make_study_rows()}
    items = {item.id: item for item in key.items}
    per_rater = made.manifest.settings.per_rater
    assert len(shown) == made.manifest.settings.raters == 10
    for sheet in shown:
        cells = key.sheets[sheet["sheet"]]
        assert [cell.trap is None for cell in cells].count(True) == per_rater
        assert len({items[cell.item].group for cell in cells if cell.item}) == per_rater
        for cell, item in zip(cells, sheet["items"], strict=True):
            for question in made.manifest.wording.questions:
                assert sorted(item["order"][question.name]) == sorted(o.value for o in question.options)
            if cell.item is None:
                continue
            row = rows[items[cell.item].row]
            assert [text for _, text in item["talk"]] == [row["primary_text"], row["third_party_text"]]
            if kind == "preference":
                assert item["replies"][0 if cell.first == GOOD else 1] == row["reply"]
            if kind in ("reply", "satisfaction"):
                assert (item["replies"] == [row["reply"]]) is (items[cell.item].system == GOOD)
    told = made.folder.read_bytes("sheets.json") + made.folder.read_bytes("crowd.html")
    secrets = [*rows, read_salt(made.folder), GOOD, POOR, *(item.id for item in key.items), "expected", "other_request"]
    if kind != "satisfaction":
        assert not [secret for secret in secrets if f'"{secret}'.encode() in told]
    # Traps and items have the same fields, filled alike but for the note of an instruction.
    shapes = {
        tuple(sorted(name for name, value in item.items() if value and name != "note"))
        for s in shown
        for item in s["items"]
    }
    assert len(shapes) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_traps_have_one_right_answer_and_stand_anywhere(place: Any, kind: str) -> None:
    made = make_sample(place[0], kind, *place[1:], name=f"{kind}-traps", raters=20)
    key, shown = read_key(made.folder), read_shown(made.folder)
    replies = {row["reply"] for row in make_study_rows()}
    places: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    for sheet in shown:
        for at, (cell, item) in enumerate(zip(key.sheets[sheet["sheet"]], sheet["items"], strict=True)):
            if cell.trap is None:
                continue
            places[at] += 1
            kinds[cell.trap.kind] += 1
            assert all(len(accepted) == 1 for accepted in cell.trap.expected.values())
            if cell.trap.kind == "instruction":
                for question in made.manifest.wording.questions:
                    label = {o.value: o.label for o in question.options}[cell.trap.expected[question.name][0]]
                    assert f"“{label}”" in item["note"]
            elif cell.trap.kind == "other_request":
                subject = item["talk"][0][1].split()[4]
                assert item["replies"][0] in replies
                assert subject not in item["replies"][0]
                assert cell.trap.expected == {"oh": ("1",)}
            elif kind == "preference":
                right = {"first": 0, "second": 1}[cell.trap.expected["preference"][0]]
                assert item["replies"][1 - right] not in replies
                assert item["replies"][right] in replies or "Sorry" in item["replies"][right]
    assert len(places) > 4
    assert sum(kinds.values()) == 40
    assert len(kinds) == (1 if kind == "naturalness" else 2)


def test_noise_is_a_clip_like_others(place: Any) -> None:
    made = make_sample(place[0], "naturalness", place[1], name="sound", clip_format="wav")
    key, shown = read_key(made.folder), read_shown(made.folder)
    rows = {row["id"]: row for row in make_study_rows()}
    items = {item.id: item for item in key.items}
    for sheet in shown:
        for cell, item in zip(key.sheets[sheet["sheet"]], sheet["items"], strict=True):
            samples, rate = soundfile.read(io.BytesIO(made.folder.read_bytes(f"clips/{item['clip']}")))
            if cell.item is None:
                assert 3 <= len(samples) / rate <= 6
                assert 0.005 < np.sqrt(np.mean(samples**2)) < 0.2
            else:
                original, _ = soundfile.read(io.BytesIO(rows[items[cell.item].row]["audio"]["bytes"]))
                assert np.array_equal(samples, original)
    for form in ("mp3", "ogg"):
        coded = make_sample(place[0], "naturalness", place[1], name=form, clip_format=form, raters=2, items=8)
        [first] = {item["clip"] for item in read_shown(coded.folder)[0]["items"][:1]}
        samples, rate = soundfile.read(io.BytesIO(coded.folder.read_bytes(f"clips/{first}")))
        assert rate == 24000
        assert len(samples) > rate


def test_the_same_seed_gives_the_same_sheets_and_another_one_others(place: Any) -> None:
    one = make_sample(place[0], "preference", *place[1:], name="one")
    again = make_sample(place[0], "preference", *place[1:], name="one")
    other = make_sample(place[0], "preference", *place[1:], name="one", seed=1)
    assert one.manifest.files == again.manifest.files
    assert other.manifest.files != one.manifest.files


def test_tasks_are_lines_that_any_template_carries(place: Any) -> None:
    made = make_sample(place[0], "reply", *place[1:], name="lines")
    lines = list(csv.DictReader(io.StringIO(made.folder.read_bytes("tasks.csv").decode())))
    assert [decode_sheet(line["task"]).model_dump(mode="json") for line in lines] == read_shown(made.folder)
    assert all(
        set(line["task"]) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") for line in lines
    )
    page = made.folder.read_bytes("crowd.html").decode()
    assert page.count("${") == page.count("${task}") == 1
    assert len(page) + max(len(line["task"]) for line in lines) < 65_535


def test_one_item_a_line_is_for_platforms_that_deal_out_themselves(place: Any) -> None:
    made = make_sample(place[0], "preference", *place[1:], name="items", layout="item", per_rater=5, traps_per_rater=1)
    key = read_key(made.folder)
    lone = [cell for (cell,) in key.sheets.values()]
    assert Counter(cell.item is None for cell in lone) == {False: 17, True: 3}  # a trap for five items
    assert len({cell.item for cell in lone if cell.item}) == made.manifest.items == 17
    assert abs(2 * sum(cell.first == GOOD for cell in lone if cell.item) - 17) <= 17  # each by chance
    assert "3 assignments" in " ".join(made.summary)


def test_twins_are_one_scenario(place: Any) -> None:
    made = make_sample(
        place[0],
        "satisfaction",
        *place[1:],
        name="twins",
        tests=("tpi_test", "janus_test"),
        items=54,
        raters=27,
        per_rater=4,
    )
    key = read_key(made.folder)
    groups = {item.row: item.group for item in key.items}
    assert groups["hn-0001"] == groups["row-0001"]
    same_voice = [i for sheet in read_shown(made.folder) for i in sheet["items"] if i["talk"][1][0] == "same_voice"]
    assert same_voice


def test_what_does_not_fit_is_said(place: Any) -> None:
    store, bench, evaluation = place
    with pytest.raises(InputError, match="between two systems, and there are 1"):
        make_sample(store, "preference", bench, evaluation, name="x", systems=(GOOD,))
    with pytest.raises(InputError, match="shows no replies"):
        make_sample(store, "realism", bench, name="x", systems=(GOOD,))
    with pytest.raises(InputError, match="--system bench"):
        make_sample(store, "reply", bench, name="x")
    with pytest.raises(InputError, match="is not in the evaluations; there are good, poor, bench"):
        make_sample(store, "reply", bench, evaluation, name="x", systems=("best",))
    with pytest.raises(ValueError, match="noise does not fit"):
        make_sample(store, "realism", bench, name="x", trap_kinds=("noise",))
    with pytest.raises(InputError, match="need as many scenarios"):
        make_sample(store, "realism", bench, name="x", per_rater=30)
    with pytest.raises(InputError, match="no row can be rated \\(same_answer: 24\\)"):
        make_sample(store, "preference", bench, evaluation, name="x", systems=(GOOD, "bench"))
    other = write_bench(bench.parent / "other", 5)
    write = other / "manifest.json"
    write.write_text(write.read_text().replace("a" * 64, "b" * 64))
    with pytest.raises(InputError, match="is of another bench"):
        make_sample(store, "reply", other, evaluation, name="x")


def test_words_of_ones_own_are_laid_over(place: Any, tmp_path: Path) -> None:
    wording = load_wording("realism", "title: Ist das echt?\nlanguage: de\nui: {next: Weiter}")
    assert (wording.title, wording.ui["next"], wording.ui["back"]) == ("Ist das echt?", "Weiter", "Back")
    assert wording.questions == load_wording("realism").questions
    for own, fault in (
        ("- a list", "must hold fields"),
        ("titel: x", "titel: no such field"),
        (
            "questions: [{name: q, text: q, options: [{value: a, label: a, score: 1}, {value: b, label: b, score: 2}]"
            "}]",
            "asks these",
        ),
        ("title: [", "not valid YAML"),
    ):
        with pytest.raises(ConfigError, match=fault):
            load_wording("realism", own)


def test_settings_describe_themselves() -> None:
    settings = StudySettings(kind="reply", bench="b", raters=50, per_rater=5)
    assert (settings.hears, settings.traps, settings.sd) == (False, ("other_request", "instruction"), 1.2)
    assert json.loads(settings.model_dump_json())["max_failed_traps"] == 0


def test_recordings_without_a_scenario_or_a_reply_can_be_rated() -> None:
    settings = StudySettings(kind="naturalness", bench="b", raters=2, per_rater=2)
    rows = [row | {"scenario": None, "category": None, "reply": None} for row in make_study_rows()]
    drawn = draw_items(rows, {}, settings, load_wording("naturalness"))
    assert {(item.scenario, item.category) for item in drawn.items} == {("none", "none")}
    spoken = StudySettings(kind="satisfaction", bench="b", raters=2, per_rater=2)
    with pytest.raises(InputError, match="no_answer: 27"):
        draw_items(rows, {"bench": {row["id"]: row["reply"] for row in rows}}, spoken, load_wording("satisfaction"))
