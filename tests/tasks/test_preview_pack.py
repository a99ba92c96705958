"""Previews of packs: the rows, the prompts that a build would ask, and what comes of them."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bystander.cli.main import main
from bystander.pages.pack_preview import render_pack_preview
from bystander.schemas.config import load_config
from bystander.schemas.engines import RowFault, TextRequest
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError, InputError
from bystander.schemas.pack_preview import PackPreview
from bystander.schemas.taxonomy import Timing, load_taxonomy
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.preview_pack import preview_pack
from bystander.tasks.preview_rows import read_sample_rows
from bystander.tasks.texts.spoken_text import is_speakable
from html_pages import Page

TAXONOMY = load_taxonomy()


def test_own_rows_are_of_every_scenario_and_of_both_timings_in_every_category() -> None:
    rows = read_sample_rows(None, TAXONOMY, None, 100)
    assert sorted(row.scenario for row in rows) == sorted(TAXONOMY.keys)
    timings = defaultdict(set)
    for row in rows:
        timings[row.category].add(row.timing)
        assert is_speakable(row.primary_complete)
        assert is_speakable(row.third_party_text)
        assert row.third_party_text.endswith(TAXONOMY[row.scenario].ends_with)
        if row.timing is Timing.WITHIN_SENTENCE:
            assert row.primary_text.endswith("...")
            heard = row.primary_text.removesuffix("...")
            assert row.primary_complete.startswith(heard)
            assert len(heard) < len(row.primary_complete)
        else:
            assert row.primary_text == row.primary_complete
    assert all(len(found) == len(Timing) for found in timings.values())
    first = read_sample_rows(None, TAXONOMY, None, len(timings))
    assert {row.category for row in first} == set(timings)
    assert [row.id for row in read_sample_rows(None, TAXONOMY, "endorsement", 5)] == [
        row.id for row in rows if row.scenario == "endorsement"
    ]


def test_rows_of_a_file_are_filled_in_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "primary,third_party,timing,scenario,spoken\n"
        "Order a large pizza.,With olives.,,,\n"
        "Turn the lamp in the hall off.,No wait.,within_sentence,priority_alert,\n"
        "Play some music in here.,Not now.,,priority_alert,Play some...\n"
    )
    one, two, three = read_sample_rows(str(path), TAXONOMY, None, 10, seed=4)
    assert (one.scenario, one.timing, one.request) == (TAXONOMY.keys[0], Timing.AFTER_COMPLETION, one.primary_text)
    assert two.primary_complete == "Turn the lamp in the hall off."
    assert two.primary_text.endswith("...")
    assert (three.timing, three.primary_text) == (Timing.WITHIN_SENTENCE, "Play some...")
    assert read_sample_rows(str(path), TAXONOMY, None, 10, seed=4) == [one, two, three]
    assert read_sample_rows(str(path), TAXONOMY, "priority_alert", 1)[0].third_party_text == "With olives."


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rows.jsonl", '{"primary": "Turn it off."}', "rows.jsonl: row 1: has no third_party; rows need primary and"),
        ("rows.jsonl", '{"primary": "Turn it.", "third_party": 3}', "row 1: third_party is 3, not a text"),
        ("rows.jsonl", '{"primary": ', "row 1: is not valid JSON"),
        ("rows.jsonl", "", "there is no row in it"),
        ("rows.csv", "primary,third_party,scenario\nTurn it off.,No.,sleeping\n", "row 1: scenario 'sleeping' is none"),
        ("rows.csv", "primary,third_party,timing\nTurn it off.,No.,soon\n", "row 1: timing 'soon': write within_sent"),
        ("rows.csv", "primary,third_party,timing\nHm.,No.,within_sentence\n", "row 1: 'Hm.' has too few words to be"),
        ("rows.csv", "primary,primary,third_party\nA,B,C\n", "row 1: primary is the name of more than one column"),
        ("rows.parquet", "nonsense", "cannot be read as Parquet"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as fault:
        read_sample_rows(str(path), TAXONOMY, None, 5)
    assert words in str(fault.value)


def test_prompts_are_those_that_the_stages_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[TextRequest] = []
    generate = FakeTextEngine.generate

    def overhear(engine: FakeTextEngine, requests: Any, on_reply: Any = None) -> Any:
        asked.extend(requests)
        return generate(engine, requests, on_reply)

    monkeypatch.setattr(FakeTextEngine, "generate", overhear)
    preview = preview_pack("household", limit=12, config=load_config("fake", overrides={"store": str(tmp_path)}))
    shown = {
        (prompt.task, prompt.shown_class, tuple((m.role, m.content) for m in prompt.messages)): prompt
        for prompt in preview.prompts
    }
    assert {request.task for request in asked} == {"label_class", "label_kind", "write_reply"}
    for request in asked:
        messages = tuple((m.role, m.content) for m in request.messages)
        prompt = shown[request.task, request.variables["class"], messages]
        assert prompt.options == request.options
        assert prompt.characters == sum(len(m.content) for m in request.messages)
    # Every class but the last is asked about, of every row.
    assert sum(request.task == "label_class" for request in asked) == 12 * (len(preview.classes) - 1)


def test_every_class_has_a_score_and_the_highest_is_the_label(tmp_path: Path) -> None:
    overrides = {"store": str(tmp_path), "stages.label_actionability.thresholds": {"act": 0.7}}
    preview = preview_pack("household", limit=20, config=load_config("fake", overrides=overrides))
    (answers,) = preview.answers
    for answer in answers.answers:
        scores = {score.key: score.score for score in answer.scores}
        assert list(scores) == [item.key for item in preview.classes]
        assert answer.label is not None
        assert answer.label_score == pytest.approx(scores[answer.label])
        assert scores[answer.label] == max(scores.values())
        shifted = next(score for score in answer.scores if score.key == "act")
        assert shifted.probability is not None
        # The odds of each class against none at all, act's moved by its threshold; the last class is none at all.
        odds = {s.key: s.probability / (1 - s.probability) for s in answer.scores if s.probability is not None}
        odds["act"] *= 0.3 / 0.7
        assert shifted.score == pytest.approx(odds["act"] / (1 + sum(odds.values())))
        assert sum(scores.values()) == pytest.approx(1.0)
    assert len({answer.label for answer in answers.answers}) > 1


def fail_for(task: str) -> Callable[[TextRequest], RowFault | None]:
    return lambda request: RowFault("unparsable_reply", "said nonsense", "bla") if request.task == task else None


@pytest.mark.parametrize(("task", "stage"), [("label_class", "label_actionability"), ("write_reply", "write_replies")])
def test_rows_that_a_build_would_reject_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, stage: str
) -> None:
    answer = FakeTextEngine._answer
    fail = fail_for(task)
    monkeypatch.setattr(FakeTextEngine, "_answer", lambda engine, request: fail(request) or answer(engine, request))
    preview = preview_pack("reference", limit=2, config=load_config("fake", overrides={"store": str(tmp_path)}))
    for found in preview.answers[0].answers:
        assert found.fault is not None
        assert (found.fault.stage, found.fault.reason) == (stage, "unparsable_reply")
        assert (found.fault.detail, found.fault.raw_output) == ("said nonsense", "bla")
        assert found.reply is None
        assert (found.label is None) == (stage == "label_actionability")
        assert bool(found.scores) == (stage == "write_replies")
    page = Page(render_pack_preview(preview))
    assert f"A build rejects this row at {stage}: unparsable_reply" in page.text


def test_without_a_configuration_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTextEngine, "generate", lambda *_: pytest.fail("asked"))
    preview = preview_pack("strict_primary", limit=1, against=["reference"])
    assert preview.answers == ()
    assert preview.engines == {}
    tasks = [prompt.task for prompt in preview.prompts]
    assert tasks[0] == "write_interruption"
    assert "judge_strategy" in tasks


def test_the_same_pack_is_not_asked_twice(tmp_path: Path) -> None:
    config = load_config("fake", overrides={"store": str(tmp_path)})
    assert len(preview_pack("reference", limit=1, config=config, against=["reference"]).answers) == 1
    assert len(preview_pack("household", limit=1, config=config, against=["reference"]).answers) == 2


def test_an_engine_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    missing = load_config(
        "laptop", overrides={"store": str(tmp_path), "engines.writer.model": str(tmp_path / "a.gguf")}
    )
    with pytest.raises(Exception, match=r"a\.gguf"):
        preview_pack("reference", limit=1, config=missing)
    away = load_config(
        "fake",
        overrides={
            "store": str(tmp_path),
            "engines.writer": {"engine": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "x"},
        },
    )
    with pytest.raises((EngineSetupError, EngineUnavailableError), match="cannot be reached"):
        preview_pack("reference", limit=1, config=away)


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["bystander", "pack", "preview", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capfd.readouterr()
    return end.value.code, out, err


def test_the_command_shows_prompts_and_answers_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "preview.html"
    options = ["household", "--limit", "1", "--profile", "fake", "--store", str(tmp_path), "--out", str(page)]
    code, out, _ = run(monkeypatch, capfd, *options, "--task", "write_reply", "--class", "act")
    assert code == 0
    assert "write_reply, class act" in out
    assert "class ignore" not in out
    assert "household" in out.split("Asked: writer fake_text")[1]
    assert "reference" in out.split("Asked: writer fake_text")[1]
    assert page.read_text("utf-8") == render_pack_preview(
        preview_pack(
            "household",
            limit=1,
            task="write_reply",
            shown_class="act",
            config=load_config("fake", overrides={"store": str(tmp_path)}),
            against=["reference"],
        )
    )
    code, out, _ = run(monkeypatch, capfd, *options, "--json", "--alone")
    assert code == 0
    assert len(PackPreview.model_validate(json.loads(out)).answers) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "sing"], "--task 'sing': pack reference has write_interruption, "),
        (["--class", "sing"], "--class 'sing': pack reference has actionable, ignorable"),
        (["--scenario", "sing"], "--scenario 'sing': taxonomy reference-26 has endorsement, "),
        (["--rows", "nowhere.jsonl"], "nowhere.jsonl: is missing"),
        (["--rows", "nowhere"], "neither a finished build (no manifest.json in it) nor a file ending in .jsonl"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(monkeypatch, capfd, "reference", *options)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
