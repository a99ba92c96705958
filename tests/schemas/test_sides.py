"""Sides: every piece is on one of the two, whatever else there is, and nothing is said where both are used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bystander.schemas.sid_config import NoiseSource, SidBenchConfig, SidTrainConfig, list_sid_profiles, load_sid_config
from bystander.schemas.sid_params import SpeakConversations, WriteConversations
from bystander.schemas.sides import Sided


@given(key=st.text(), share=st.floats(0.01, 0.99), more=st.floats(0.01, 0.99))
def test_a_piece_is_on_one_side_and_a_larger_share_only_adds(key: str, share: float, more: float) -> None:
    low, high = sorted((share, more))
    held, rest = Sided(use="held_out", hold_out=low), Sided(use="rest", hold_out=low)
    assert held.admits("sid_text", key) != rest.admits("sid_text", key)
    assert not held.admits("sid_text", key) or Sided(use="held_out", hold_out=high).admits("sid_text", key)
    assert Sided(hold_out=low).admits("sid_text", key)
    assert Sided.decode_side(held.encode_side()) == held


def test_about_the_share_is_held_out() -> None:
    side = Sided(use="held_out", hold_out=0.25)
    assert 440 < sum(side.admits("sid_text", f"text {i}") for i in range(2000)) < 560


@pytest.mark.parametrize("kind", [WriteConversations, SpeakConversations, NoiseSource])
def test_settings_without_sides_are_written_as_before_there_were_any(kind: type[Sided]) -> None:
    assert not {"use", "hold_out"} & set(kind().model_dump(mode="json"))
    written = kind(use="rest", hold_out=0.5).model_dump(mode="json")
    assert (written["use"], written["hold_out"]) == ("rest", 0.5)
    assert kind.model_validate(written) == kind(use="rest", hold_out=0.5)


def test_a_share_that_leaves_a_side_empty_is_refused() -> None:
    with pytest.raises(ValidationError):
        Sided(use="rest", hold_out=1.0)


@pytest.mark.parametrize("profile", list_sid_profiles())
def test_train_builds_and_benches_of_a_profile_use_different_sides(profile: str) -> None:
    train, bench = load_sid_config(SidTrainConfig, profile), load_sid_config(SidBenchConfig, profile)
    for config, use in ((train, "rest"), (bench, "held_out")):
        sides = (config.noise, config.stages.write_conversations, config.stages.speak_conversations)
        assert {side.use for side in sides} == {use}
    # All else is the same.
    assert train.engines == bench.engines
    assert train.targets == bench.targets
