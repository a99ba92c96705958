"""Which utterances become pairs, and why the others do not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.real_world import UTTERANCE
from bystander.schemas.real_world_params import PairUtterances
from bystander.schemas.stages import StageContext
from bystander.tasks.stages.pair_utterances import STAGE

Said = tuple[str, float, float, str]


def make_rows(*said: Said, fault: str | None = None) -> pa.Table:
    rows = [
        {
            "corpus": "c",
            "recording": "m",
            "place": f"m: line {number}",
            "speaker": speaker,
            "channel": ord(speaker) - ord("A"),
            "start_s": start,
            "end_s": end,
            "text": text,
            "source_text": text or "[laugh]",
            "language": "en",
            "licence": "CC0",
            "fault": fault,
        }
        for number, (speaker, start, end, text) in enumerate(said, 1)
    ]
    return pa.Table.from_pylist(rows, schema=UTTERANCE)


def pair(*said: Said, fault: str | None = None, **params: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the pairs, and the reason of each utterance that is none, by its place."""
    context = StageContext(0, PairUtterances(**params), None, None)  # type: ignore[arg-type]
    output = STAGE(make_rows(*said, fault=fault), context)
    rejected = {row["place"]: row["reject_reason"] for row in output.rejected.to_pylist()}
    return output.kept.to_pylist(), rejected


ASKS: Said = ("A", 1.0, 3.0, "What time does it open?")
CUTS_IN: Said = ("B", 2.5, 4.0, "It is closed today.")


def test_an_utterance_and_the_next_one_of_somebody_else_are_a_pair() -> None:
    (found,), rejected = pair(ASKS, CUTS_IN)
    assert rejected == {"m: line 2": "no_next_turn"}
    assert {name: found[name] for name in found if name != "id"} == {
        "corpus": "c",
        "recording": "m",
        "place": "m: line 1",
        "language": "en",
        "licence": "CC0",
        "primary_speaker": "A",
        "third_party_speaker": "B",
        "primary_channel": 0,
        "third_party_channel": 1,
        "primary_start_s": 1.0,
        "primary_end_s": 3.0,
        "third_party_start_s": 2.5,
        "third_party_end_s": 4.0,
        "others_s": 0.0,
        "speakers": '["A", "B"]',
        "primary_source_text": "What time does it open?",
        "third_party_source_text": "It is closed today.",
        "primary_text": "What time does it open?",
        "third_party_text": "It is closed today.",
    }


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (ASKS, ("B", 3.71, 5.0, "It is closed."), "long_pause"),
        (ASKS, ("B", 3.7, 5.0, "It is closed."), None),
        (ASKS, ("A", 3.2, 5.0, "On Sundays I mean."), "same_speaker_goes_on"),
        (ASKS, ("B", 1.3, 4.0, "It is closed today."), "simultaneous_start"),
        (ASKS, ("B", 1.5, 2.0, "Oh dear me."), "primary_goes_on"),
        (("A", 1.0, 5.0, ASKS[3]), ("B", 2.0, 6.0, "It is closed today."), "overlap_too_long"),
        (ASKS, ("B", 3.0, 21.5, "It is closed today, and so on, and so on."), "pair_too_long"),
        (("A", 3.0, 3.0, "What?"), CUTS_IN, "negative_length"),
        (("A", 3.0, 1.0, "What?"), CUTS_IN, "negative_length"),
        (("A", 1.0, 2.0, ""), CUTS_IN, "vocal_sound_only"),
        (("A", 1.0, 1.04, "What time?"), CUTS_IN, "text_without_speech"),
        (("A", 1.0, 1.5, "What time does it open again?"), CUTS_IN, "implausible_rate"),
        (("A", 1.0, 31.0, "What time does it open?"), CUTS_IN, "implausible_rate"),
    ],
)
def test_reasons(first: Said, second: Said, reason: str | None) -> None:
    kept, rejected = pair(first, second)
    assert rejected.get("m: line 1") == reason
    assert len(kept) == (reason is None)


def test_a_row_that_could_not_be_read_is_rejected_with_its_place() -> None:
    context = StageContext(0, PairUtterances(), None, None)  # type: ignore[arg-type]
    rejected = STAGE(make_rows(ASKS, fault="field 'start' is 'x'"), context).rejected.to_pylist()
    assert [(row["reject_reason"], row["reject_detail"]) for row in rejected] == [
        ("invalid_row", "m: line 1: field 'start' is 'x'")
    ]


def test_a_speaker_who_says_two_things_at_once_is_a_fault_of_the_annotation() -> None:
    _, rejected = pair(ASKS, ("A", 2.0, 3.5, "And when does it close?"), CUTS_IN)
    assert rejected["m: line 2"] == "own_overlap"


def test_laughs_between_two_turns_are_no_turns() -> None:
    (found,), rejected = pair(ASKS, ("C", 2.2, 2.4, ""), CUTS_IN)
    assert found["third_party_speaker"] == "B"
    assert rejected["m: line 2"] == "vocal_sound_only"


def test_a_sentence_that_was_cut_by_a_pause_is_whole_again() -> None:
    (found,), rejected = pair(
        ("A", 0.0, 0.8, "That was that."),
        ("A", 0.9, 2.0, "What time"),
        ("A", 2.3, 3.0, "does it open?"),
        ("B", 3.1, 3.5, "It is"),
        ("B", 3.8, 4.5, "closed today."),
        ("B", 4.6, 5.0, "I am sure."),
    )
    assert (found["primary_text"], found["third_party_text"]) == ("What time does it open?", "It is closed today.")
    assert (found["primary_start_s"], found["third_party_end_s"]) == (0.9, 4.5)
    assert {rejected[f"m: line {n}"] for n in (1, 2, 4, 5)} == {"same_speaker_goes_on"}


def test_text_in_capitals_is_put_into_sentences() -> None:
    (found,), _ = pair(("A", 1.0, 3.0, "UM WHAT DOES T_V_ MEAN AND I'M S-"), ("B", 2.8, 4.5, "WELL I SUPPOSE IT'S TV"))
    assert found["primary_text"] == "Um what does TV mean and I'm s?"
    assert found["third_party_text"] == "Well I suppose it's tv."


def test_speech_of_others_is_counted() -> None:
    (found, *_), _ = pair(ASKS, CUTS_IN, ("C", 3.5, 6.0, "And then there is me."), ("D", 3.6, 5.0, "And me as well."))
    assert found["others_s"] == pytest.approx(0.5 + 0.4)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ABC"),
            st.floats(0, 30).map(lambda s: round(s, 2)),
            st.floats(-0.5, 6).map(lambda s: round(s, 2)),
            st.sampled_from(["what is it called", "no.", "", "I do not know, sorry.", "Yeah"]),
        ),
        max_size=12,
    )
)
def test_every_utterance_has_one_outcome_and_pairs_hold_what_they_promise(said: list[Any]) -> None:
    rows = [(speaker, start, start + length, text) for speaker, start, length, text in said]
    kept, rejected = pair(*rows)  # the contract of stages counts the rows
    assert len(kept) + len(rejected) == len(rows)
    for found in kept:
        assert found["primary_speaker"] != found["third_party_speaker"]
        assert found["third_party_start_s"] - found["primary_start_s"] >= 0.4 - 1e-9
        assert found["third_party_start_s"] - found["primary_end_s"] <= 0.7 + 1e-9
    assert len({found["id"] for found in kept}) == len(kept)
