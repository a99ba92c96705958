import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import ConfigError, StageContractError
from bystander.schemas.identity import make_id
from bystander.schemas.stages import StageContext
from bystander.schemas.taxonomy import Scenario, ScenarioExample, Taxonomy, Timing
from bystander.schemas.tpi import CANDIDATE, QUERY
from bystander.schemas.tpi_params import DrawScenarios, TpiTargets
from bystander.tasks.stages.draw_scenarios import STAGE
from bystander.tasks.stages.plan_candidates import (
    CANDIDATES,
    Progress,
    enumerate_candidates,
    plan_odd_rows,
    plan_wave,
    size_wave,
    take_candidates,
)
from bystander.tasks.stages.select_quotas import Missing, find_missing, select_quotas


def make_taxonomy(n=5):
    example = ScenarioExample(primary="play jazz", third_party="no, rock")
    return Taxonomy(
        name="test",
        scenarios=tuple(
            Scenario(
                key=f"kind_{chr(97 + i)}", category=f"group_{'xy'[i % 2]}", definition="What a bystander may do here.",
                examples=(example,),
            )
            for i in range(n)
        ),
    )  # fmt: skip


TAXONOMY = make_taxonomy()
PARAMS = DrawScenarios(draws_per_query=5)


def describe(query_ids, table):
    """Return {(query id, draw): (scenario, category, timing)}, in the order of the plan."""
    return {
        (query_ids[row["query"]], row["draw"]): (row["scenario"], row["category"], row["timing"])
        for row in table.to_pylist()
    }


def make_queries(ids):
    rows = [
        {
            "query_source": "q",
            "query_line": i,
            "query_text": "t",
            "language": "en",
            "query_id": query_id,
            "request": "T.",
        }
        for i, query_id in enumerate(ids)
    ]
    return pa.Table.from_pylist(rows, QUERY)


def run_draw(rows, params=PARAMS, seed=1, taxonomy=TAXONOMY):
    return STAGE(rows, StageContext(build_seed=seed, params=params, taxonomy=taxonomy, pack=None))


def test_every_query_meets_every_scenario_once():
    ids = [f"q{i}" for i in range(40)]
    table = enumerate_candidates(ids, 1, PARAMS, TAXONOMY)
    assert table.schema == CANDIDATES
    assert len(table) == 200
    assert table["draw"].to_pylist() == sorted(table["draw"].to_pylist())
    for query_id in ids:
        drawn = [what[0] for (name, _), what in describe(ids, table).items() if name == query_id]
        assert sorted(drawn) == sorted(TAXONOMY.keys)
    assert all(
        category == f"group_{'xy'[(ord(key[-1]) - 97) % 2]}" for key, category, _ in describe(ids, table).values()
    )


def test_draws_are_balanced_over_the_strata():
    ids = [f"q{i}" for i in range(4000)]
    table = enumerate_candidates(ids, 1, DrawScenarios(draws_per_query=1), TAXONOMY)
    counts = table.group_by(["scenario", "timing"]).aggregate([("draw", "count")])["draw_count"].to_pylist()
    assert len(counts) == 10
    assert all(330 < count < 470 for count in counts)  # 400 expected, sd 19


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text("abc", min_size=1, max_size=4), unique=True, max_size=12),
    st.lists(st.text("xyz", min_size=1, max_size=4), unique=True, max_size=12),
    st.randoms(use_true_random=False),
)
def test_other_queries_and_their_order_change_no_candidate(ids, others, random):
    alone = describe(ids, enumerate_candidates(ids, 9, PARAMS, TAXONOMY))
    mixed_ids = ids + others
    random.shuffle(mixed_ids)
    mixed = describe(mixed_ids, enumerate_candidates(mixed_ids, 9, PARAMS, TAXONOMY))
    kept = {key: what for key, what in mixed.items() if key[0] in set(ids)}
    assert list(kept.items()) == list(alone.items())  # the order too


def test_the_build_seed_changes_the_draws():
    ids = [f"q{i}" for i in range(20)]
    assert describe(ids, enumerate_candidates(ids, 1, PARAMS, TAXONOMY)) != describe(
        ids, enumerate_candidates(ids, 2, PARAMS, TAXONOMY)
    )


def test_leaving_scenarios_out_keeps_the_order_of_the_others():
    ids = [f"q{i}" for i in range(20)]
    whole = describe(ids, enumerate_candidates(ids, 1, PARAMS, TAXONOMY))
    few = DrawScenarios(draws_per_query=5, scenarios=("kind_b", "kind_d"), timings=(Timing.AFTER_COMPLETION,))
    part = describe(ids, enumerate_candidates(ids, 1, few, TAXONOMY))
    for query_id in ids:
        order = [whole[query_id, draw][0] for draw in range(5) if whole[query_id, draw][0] in few.scenarios]
        assert order == [part[query_id, draw][0] for draw in range(2)]
    assert {what[2] for what in part.values()} == {"after_completion"}


def test_unknown_scenarios_are_refused():
    with pytest.raises(ConfigError, match="has no kind_z"):
        enumerate_candidates(["q"], 1, DrawScenarios(scenarios=("kind_z",)), TAXONOMY)
    with pytest.raises(ConfigError, match="at least one timing"):
        enumerate_candidates(["q"], 1, DrawScenarios(timings=()), TAXONOMY)


def test_no_queries():
    table = enumerate_candidates([], 1, PARAMS, TAXONOMY)
    assert len(table) == 0
    assert len(plan_wave(table, np.zeros(0, bool), {"kind_a": 3})) == 0


def test_the_stage_draws_what_was_planned():
    ids = [f"q{i}" for i in range(15)]
    queries = make_queries(ids)
    candidates = enumerate_candidates(ids, 1, PARAMS, TAXONOMY)
    chosen = np.array([3, 20, 41, 74])
    rows = take_candidates(queries, candidates, chosen)
    assert rows.schema == CANDIDATE
    kept = run_draw(rows).kept.to_pylist()
    planned = list(describe(ids, candidates).items())
    assert [((row["query_id"], row["draw"]), (row["scenario"], row["category"], row["timing"])) for row in kept] == [
        planned[i] for i in chosen
    ]
    assert [row["id"] for row in kept] == [make_id("row", row["query_id"], row["draw"]) for row in kept]


def test_the_stage_rejects_a_draw_beyond_the_scenarios():
    rows = make_queries(["q0", "q1"]).append_column(CANDIDATE.field("draw"), pa.array([4, 5], pa.int32()))
    output = run_draw(rows.cast(CANDIDATE))
    assert output.kept["draw"].to_pylist() == [4]
    assert output.rejected["reject_reason"].to_pylist() == ["no_stratum_left"]
    assert output.rejected["reject_detail"].to_pylist() == ["draw 5 of 5 scenarios"]


def test_a_wave_takes_what_each_scenario_lacks_in_equal_shares_of_timing():
    ids = [f"q{i}" for i in range(400)]
    table = enumerate_candidates(ids, 1, PARAMS, TAXONOMY)
    used = np.zeros(len(table), bool)
    first = plan_wave(table, used, {"kind_a": 10, "kind_c": 7})
    assert list(first) == sorted(first)
    rows = table.take(pa.array(first)).to_pylist()
    counts = {}
    for row in rows:
        counts[row["scenario"], row["timing"]] = counts.get((row["scenario"], row["timing"]), 0) + 1
    assert counts["kind_a", "within_sentence"] == counts["kind_a", "after_completion"] == 5
    assert sorted([counts["kind_c", "within_sentence"], counts["kind_c", "after_completion"]]) == [3, 4]
    assert {row["draw"] for row in rows} == {0}
    used[first] = True
    second = plan_wave(table, used, {"kind_a": 10})
    assert not set(first) & set(second)
    assert max(first[[row["scenario"] == "kind_a" for row in rows]]) < max(second)


def test_a_wave_tops_up_from_the_other_timing_and_stops_at_the_end():
    ids = ["q0", "q1", "q2"]
    table = enumerate_candidates(ids, 1, PARAMS, TAXONOMY)
    at_a = [i for i, row in enumerate(table.to_pylist()) if row["scenario"] == "kind_a"]
    assert list(plan_wave(table, np.zeros(len(table), bool), {"kind_a": 3})) == at_a
    assert list(plan_wave(table, np.zeros(len(table), bool), {"kind_a": 99})) == at_a
    assert len(plan_wave(table, np.ones(len(table), bool), {"kind_a": 3})) == 0
    with pytest.raises(StageContractError):
        plan_wave(table, np.zeros(1, bool), {})


def test_plan_is_a_seeded_shuffle_in_which_strata_lie_mixed():
    """Rows are published in this order: whoever reads only a first shard must find everything in it."""
    ids = [f"query-{i:03d}" for i in range(200)]
    orders = []
    for seed in (1, 2):
        table = enumerate_candidates(ids, seed, DrawScenarios(draws_per_query=1), TAXONOMY)
        wanted = dict.fromkeys((item.key for item in TAXONOMY.scenarios), 30)
        rows = table.take(pa.array(plan_wave(table, np.zeros(len(table), bool), wanted))).to_pylist()
        orders.append([row["query"] for row in rows])
        for start in range(0, len(rows), 30):
            strata = {(row["scenario"], row["timing"]) for row in rows[start : start + 30]}
            assert {scenario for scenario, _ in strata} == set(wanted)
            assert {timing for _, timing in strata} == {timing.value for timing in Timing}
    assert orders[0] != sorted(orders[0])
    shared = set(orders[0]) & set(orders[1])
    assert [i for i in orders[0] if i in shared] != [i for i in orders[1] if i in shared]


def test_waves_do_not_depend_on_the_order_of_the_queries():
    ids = [f"q{i}" for i in range(60)]
    wanted = {"kind_a": 9, "kind_b": 4}
    plans = []
    for order in (ids, ids[::-1]):
        table = enumerate_candidates(order, 1, PARAMS, TAXONOMY)
        chosen = plan_wave(table, np.zeros(len(table), bool), wanted)
        plans.append([(order[row["query"]], row["draw"]) for row in table.take(pa.array(chosen)).to_pylist()])
    assert plans[0] == plans[1]


def test_wave_size_follows_the_measured_yield():
    missing = Missing({"a": 10, "b": 10, "c": 10}, {}, 0)
    assert size_wave(missing, Progress(), "abc", 1.3) == {"a": 13, "b": 13, "c": 13}
    progress = Progress({"a": 20, "b": 20}, {("a", "yes"): 5, ("a", "no"): 5, ("b", "yes"): 1})
    # Yields: a 10.55 of 22; b 1.55 of 22, so the least, 0.2; c, where nothing was tried, that of all, 11 of 40.
    assert size_wave(missing, progress, "abc", 1.0) == {"a": 21, "b": 50, "c": 37}


def test_a_few_missing_rows_are_not_sought_in_every_scenario():
    scenarios = [f"s{i}" for i in range(26)]
    progress = Progress(dict.fromkeys(scenarios, 2), {(s, "yes"): 1 for s in scenarios})
    wave = size_wave(Missing({}, {"yes": 2}, 0), progress, scenarios, 1.3)
    assert sum(wave.values()) == 6  # 2 rows at a yield of a half, times 1.3
    one_each = size_wave(Missing(dict.fromkeys(scenarios, 1), {}, 0), Progress(), scenarios, 1.3)
    assert sum(one_each.values()) == 34
    assert min(one_each.values()) == 1


def test_one_failed_try_does_not_condemn_a_scenario():
    progress = Progress({"a": 1, "b": 9}, {("b", "yes"): 9})
    assert size_wave(Missing({"a": 1}, {}, 0), progress, "ab", 1.0)["a"] == 2


def test_a_short_label_is_sought_where_it_turns_up():
    missing = Missing({"a": 1}, {"yes": 4}, 0)
    progress = Progress({"a": 10, "b": 10}, {("a", "no"): 10, ("b", "yes"): 5, ("b", "no"): 5})
    # Rates of "yes": a 0.5 of 12, b 5.5 of 12; the row that fills a's gap is not expected to bring one.
    assert size_wave(missing, progress, "ab", 1.0) == {"a": 2, "b": 9}


def test_rows_for_a_scenario_count_towards_the_labels_that_they_bring():
    progress = Progress({"a": 10, "b": 10}, {("a", "yes"): 10, ("b", "yes"): 10})
    assert size_wave(Missing({"a": 3}, {"yes": 3}, 0), progress, "ab", 1.0) == {"a": 3, "b": 0}


def test_short_hard_negatives_are_sought_where_they_turn_up():
    progress = Progress({"a": 10, "b": 10}, {("a", "no"): 10, ("b", "no"): 10}, {"a": 5})
    assert size_wave(Missing({}, {}, 3), progress, "ab", 1.0) == {"a": 7, "b": 1}
    nowhere = Progress({"a": 10, "b": 10}, {("a", "no"): 10, ("b", "no"): 10})
    assert size_wave(Missing({}, {}, 4), nowhere, "ab", 1.0) == {"a": 10, "b": 10}


def test_nothing_missing_needs_no_wave():
    assert size_wave(Missing({}, {}, 0), Progress(), "ab", 1.3) == {"a": 0, "b": 0}


def run_waves(n_queries, targets, seed=3):
    """Run waves over candidates whose fate is drawn once; scenarios differ in their labels and yields."""
    taxonomy = make_taxonomy(8)
    ids = [f"q{i}" for i in range(n_queries)]
    candidates = enumerate_candidates(ids, seed, DrawScenarios(draws_per_query=8), taxonomy)
    rng = np.random.default_rng(seed)
    rows = candidates.to_pylist()
    index = {key: i for i, key in enumerate(taxonomy.keys)}
    accepted = [rng.random() < 0.3 + 0.08 * index[row["scenario"]] for row in rows]
    labels = ["yes" if rng.random() < 0.05 + 0.12 * index[row["scenario"]] else "no" for row in rows]
    ambiguous = [rng.random() < 0.15 for row in rows]
    used = np.zeros(len(rows), bool)
    progress, waves = Progress(), 0
    while True:
        at = [i for i in np.flatnonzero(used) if accepted[i]]
        pairs = pa.table(
            {
                "id": pa.array([f"row-{i}" for i in at], pa.string()),
                "scenario": pa.array([rows[i]["scenario"] for i in at], pa.string()),
                "label": pa.array([labels[i] for i in at], pa.string()),
                "timing": pa.array([rows[i]["timing"] for i in at], pa.string()),
            }
        )
        twins = [i for i in at if ambiguous[i]]
        negatives = pa.table(
            {
                "id": pa.array([f"neg-{i}" for i in twins], pa.string()),
                "twin_id": pa.array([f"row-{i}" for i in twins], pa.string()),
            }
        )
        selection = select_quotas(pairs, negatives, targets, taxonomy.keys, seed)
        missing = find_missing(selection)
        chosen = plan_wave(candidates, used, size_wave(missing, progress, taxonomy.keys, 1.3))
        if missing.nothing or not len(chosen):
            return selection, waves, int(used.sum())
        used[chosen] = True
        waves += 1
        tried, found, negatives_found = {}, {}, {}
        for i in np.flatnonzero(used):
            key = rows[i]["scenario"]
            tried[key] = tried.get(key, 0) + 1
            if accepted[i]:
                found[key, labels[i]] = found.get((key, labels[i]), 0) + 1
                negatives_found[key] = negatives_found.get(key, 0) + ambiguous[i]
        progress = Progress(tried, found, negatives_found)


def test_waves_fill_all_quotas_exactly():
    selection, waves, tried = run_waves(300, TpiTargets(labels={"yes": 100, "no": 100}, hard_negatives=20))
    assert selection.shortfalls == ()
    assert len(selection.ids) == 220
    assert waves <= 8
    assert tried <= 800


def test_waves_use_all_queries_before_they_fall_short():
    selection, _, tried = run_waves(20, TpiTargets(labels={"yes": 100, "no": 100}, hard_negatives=20))
    assert tried == 160
    assert {shortfall.stratum for shortfall in selection.shortfalls} >= {"label", "scenario"}


def test_odd_rows_are_sought_in_every_scenario_that_has_none():
    candidates = enumerate_candidates([f"q{i}" for i in range(20)], 3, PARAMS, TAXONOMY)
    used = np.zeros(len(candidates), bool)
    scenarios = list(TAXONOMY.keys)
    got = {scenarios[0]: 2, scenarios[1]: 1, scenarios[2]: 1, scenarios[3]: 1, scenarios[4]: 1}

    def seek(pairs, surplus=1.0):
        return plan_odd_rows(candidates, used, got, scenarios, pairs, surplus)

    chosen = (
        candidates["scenario"].take(pa.array(seek(8))).to_pylist()
    )  # a share of 1 and 3 odd rows, one of them there
    assert len(set(chosen)) == len(chosen) == 2
    assert scenarios[0] not in chosen
    assert len(seek(8, surplus=1.3)) == 3
    assert len(seek(6)) == len(seek(5)) == 0
