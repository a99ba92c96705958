from __future__ import annotations

from typing import Any

import pytest

from bystander.pages import clips
from bystander.pages.listening_items import describe_item, list_menus
from bystander.pages.listening_samples import HeardReject, choose_listening_samples
from bystander.pages.page_templates import render_page
from bystander.schemas.row_sounds import list_sounds
from final_rows import make_row, make_rows, make_table
from html_pages import Page
from sid_rows import make_sid_row
from tpi_rows import make_pair, make_tone


def make_reject(index: int = 3, **cells: Any) -> dict[str, Any]:
    """A row that was refused before it was mixed: it has tracks and no clip."""
    row = {name: value for name, value in make_row(index).items() if name not in ("audio", "segments", "duration_s")}
    refusal = {
        "reject_stage": "verify_speakers",
        "reject_reason": "voices_too_alike",
        "reject_detail": "similarity 0.9, at most 0.8 is asked for",
        "raw_output": None,
    }
    tracks = make_pair(make_tone(0.5), make_tone(0.4, hertz=300.0))
    return {**row, "tracks": tracks, **refusal, **cells}


def test_rows_have_what_they_are_filtered_by() -> None:
    row = make_row(1)
    item = describe_item("tpi", row, "row-1", [(sound, "x") for sound in list_sounds(row)])
    assert item.facets == {
        "state": "kept",
        "label": row["label"],
        "scenario": row["scenario"],
        "category": row["category"],
        "timing": row["timing"],
        "n_speakers": "2",
        "split": "train",
    }
    for text in (row["id"], row["third_party_text"], row["primary_voice"], row["reply"]):
        assert text.casefold() in item.find
    assert [player.title for player in item.players] == ["Clip"]


def test_a_reject_without_a_clip_is_heard_by_its_tracks() -> None:
    row = make_reject()
    sounds = list_sounds(row)
    assert [sound.speaker for sound in sounds] == ["primary", "third_party"]
    item = describe_item("tpi", row, "reject-1", [(sound, "x") for sound in sounds])
    assert (item.stage, item.reason, item.facets["state"]) == ("verify_speakers", "voices_too_alike", "rejected")
    waves = [Page(player.wave) for player in item.players]
    assert [wave.find("path")[0]["class"] for wave in waves] == ["primary", "third"]
    assert "at most 0.8" in item.detail
    silent = describe_item("tpi", {**row, "tracks": None}, "reject-1", [], "Nothing was kept.")
    assert (silent.silence, list(silent.players)) == ("Nothing was kept.", [])


def test_rejects_of_any_stage_can_be_described() -> None:
    early = {"query_text": "Play `x`", "reject_stage": "normalise_queries", "reject_reason": "has_code"}
    item = describe_item("tpi", early, "reject-1", [], "It was refused before it was spoken.")
    assert (item.name, item.lines[0].parts) == ("reject-1", ("Play `x`",))
    recording = {
        "recording_id": "rec-1",
        "audio": {"bytes": None, "path": "call.wav"},
        "language": "en",
        "reject_stage": "find_turns",
        "reject_reason": "no_overlap",
    }
    item = describe_item("sid", recording, "reject-2", [])
    assert (item.name, item.facets["language"], list_sounds(recording)) == ("rec-1", "en", [])
    turn = make_sid_row(0)
    assert describe_item("sid", turn, "row-1", []).facets["category"] == turn["category"]


def test_menus_are_those_that_can_tell_items_apart() -> None:
    facets = [{"state": "kept", "label": "a"}, {"state": "kept", "label": "b"}, {"state": "rejected", "label": "b"}]
    menus = {menu.field: menu.values for menu in list_menus("tpi", facets)}
    assert menus == {"state": [("kept", 2), ("rejected", 1)], "label": [("a", 1), ("b", 2)]}
    assert [menu.field for menu in list_menus("tpi", [{"state": "kept"}, {"state": "kept", "label": "a"}])] == ["label"]


def test_rejects_have_a_budget_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rejects = [HeardReject(row, list_sounds(row)) for row in (make_reject(3), make_reject(4))]
    monkeypatch.setattr(clips, "MOST_REJECT_AUDIO_BYTES", len(rejects[0].sounds[0].audio))
    samples = choose_listening_samples("tpi", make_table(make_rows(2, 0)), rejects, "tpi-train / demo")
    assert [[bool(player.source) for player in item.players] for item in samples.items] == [
        [True],
        [True],
        [True, False],
        [False, False],
    ]
    assert samples.command == "bystander listen STORE/tpi-train/demo"


def test_what_rows_say_cannot_become_markup() -> None:
    evil = '"><script>alert(1)</script>'
    reject = make_reject(third_party_text=evil, reject_detail=evil, raw_output=evil, scenario=evil, id=evil)
    samples = choose_listening_samples("tpi", make_table([]), [HeardReject(reject, list_sounds(reject))], "a / b")
    text = render_page(
        "dyadic_report.html.j2",
        data={"title": "t", "facts": [], "missing": [], "stages": []},
        tiles=[],
        charts=[],
        samples=samples,
        most_in=1,
        balanced=True,
        rejects={},
    )
    assert "<script>alert" not in text
    (article,) = Page(text).find("article")
    assert article["data-scenario"] == evil
