"""The two sides of the hold-out: disjoint, complete, and the same whatever other voices there are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.engines.kokoro_styles import load_styles
from bystander.tasks.stages.voice_sides import find_held_out, find_held_out_voices, iterate_held_out

BANKS = st.lists(st.text(min_size=1, max_size=12), min_size=2, max_size=24, unique=True)
SHARES = st.floats(0, 1)


@given(BANKS, SHARES)
def test_every_voice_is_on_one_side_whoever_else_there_is(names, share):
    held = find_held_out_voices(names, share)
    assert held.shape == (len(names),)
    for i, name in enumerate(names):
        assert find_held_out_voices([name], share)[0] == held[i]
    turned = find_held_out_voices(names[::-1], share)
    assert (turned[::-1] == held).all()


@given(BANKS, SHARES, SHARES)
def test_a_larger_share_only_adds(names, one, other):
    less, more = sorted((one, other))
    assert (find_held_out_voices(names, less) <= find_held_out_voices(names, more)).all()
    assert (find_held_out(names, less) <= find_held_out(names, more)).all()


@given(BANKS)
def test_all_and_nothing_are_shares_too(names):
    for find in (find_held_out, find_held_out_voices):
        assert not find(names, 0.0).any()
        assert find(names, 1.0).all()


@given(BANKS, SHARES)
def test_every_pair_is_on_one_side_whoever_else_there_is(names, share):
    held = find_held_out(names, share)
    assert (held == held.T).all()
    assert (find_held_out(names[:2], share) == held[:2, :2]).all()


def test_blocks_of_rows_are_the_whole():
    names = [f"voice-{i}" for i in range(1500)]
    blocks = list(iterate_held_out(names, 0.25))
    assert len(blocks) > 1
    assert (np.concatenate([block for _, block in blocks]) == find_held_out(names, 0.25)).all()
    assert [start for start, _ in blocks] == np.cumsum([0, *(len(block) for _, block in blocks[:-1])]).tolist()


def test_the_share_of_a_large_bank_is_what_was_asked_for():
    names = [f"{i:05d}" for i in range(20_000)]
    assert abs(find_held_out_voices(names, 0.25).mean() - 0.25) < 0.01  # sd 0.003


@pytest.mark.parametrize(
    ("names", "count"),
    [(load_styles().voices, 7), (load_styles("zh").voices, 2), (tuple(f"fake_{i:02d}" for i in range(8)), 2)],
)
def test_embedded_voices_have_partners_on_either_side(names, count):
    assert find_held_out_voices(names, 0.25).sum() == count
