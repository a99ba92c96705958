from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.sid import CONVERSATION_PLAN
from bystander.tasks.stages.plan_conversations import plan_conversations, size_conversations

STRATA = [("en", "beginning"), ("en", "middle"), ("zh", "uninterrupted")]


def test_a_first_wave_is_what_is_missing_and_the_surplus():
    assert size_conversations({("en", "middle"): 10, ("zh", "middle"): 0}, {}, {}, 1.3) == {("en", "middle"): 13}


def test_later_waves_go_by_the_yield():
    cell = ("en", "middle")
    assert size_conversations({cell: 5}, {cell: 20}, {cell: 10}, 1.0) == {cell: 10}


def test_a_yield_of_nothing_does_not_ask_for_everything():
    cell = ("en", "middle")
    assert size_conversations({cell: 5}, {cell: 20}, {cell: 0}, 1.0) == {cell: 50}


@given(
    st.dictionaries(st.sampled_from(STRATA), st.integers(1, 6)),
    st.dictionaries(st.sampled_from(STRATA), st.integers(1, 6)),
)
def test_two_waves_draw_what_one_of_both_sizes_draws(first, second):
    whole = {cell: first.get(cell, 0) + second.get(cell, 0) for cell in {*first, *second}}
    one = plan_conversations(whole, {}, seed=3)
    two = [plan_conversations(first, {}, seed=3), plan_conversations(second, first, seed=3)]
    ids = [row for table in two for row in table["recording_id"].to_pylist()]
    assert sorted(ids) == sorted(one["recording_id"].to_pylist())
    assert len(set(ids)) == sum(whole.values())
    assert one.schema == CONVERSATION_PLAN


def test_another_seed_plans_other_conversations():
    one, two = (plan_conversations({STRATA[0]: 4}, {}, seed) for seed in (1, 2))
    assert not set(one["recording_id"].to_pylist()) & set(two["recording_id"].to_pylist())
