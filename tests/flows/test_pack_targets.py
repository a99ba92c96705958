"""A profile's targets and thresholds are for the reference pack; with another they are dealt to its classes."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bystander.flows.check_tpi_train import check_tpi_build
from bystander.flows.pack_targets import fit_to_pack
from bystander.prompts.load import load_pack
from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.config import list_profiles, load_bench_config, load_config, resize
from bystander.schemas.errors import ConfigError
from bystander.schemas.tpi_params import deal_out

HOUSEHOLD = {"pack": "household"}
PACKS = Path(str(resources.files("bystander.prompts"))) / "packs"


@given(
    st.integers(0, 10_000_000),
    st.dictionaries(st.text(min_size=1, max_size=4), st.floats(0.001, 1000), min_size=1, max_size=30),
)
def test_what_is_dealt_out_sums_up_and_is_next_to_the_exact_share(rows, shares):
    dealt = deal_out(rows, shares)
    assert sum(dealt.values()) == rows
    assert set(dealt) == set(shares)
    total = sum(shares.values())
    assert all(abs(dealt[key] - rows * share / total) < 1 + 1e-6 for key, share in shares.items())


@given(st.permutations([("a", 1.0), ("b", 1.0), ("c", 1.0)]))
def test_neither_order_nor_ties_leave_anything_to_chance(pairs):
    assert deal_out(4, dict(pairs)) == {"a": 2, "b": 1, "c": 1}


def test_rows_go_to_the_packs_classes_by_share_and_all_else_stays():
    config = load_config("laptop", overrides={**HOUSEHOLD, "seed": 3})
    fitted = fit_to_pack(config)
    assert fitted.targets.labels == {"defer": 30, "confirm": 50, "act": 60, "ignore": 60}
    assert fitted.targets.hard_negatives == config.targets.hard_negatives
    assert fitted.stages.label_actionability.thresholds == {}
    unchanged = {"targets", "stages"}
    assert fitted.model_dump(exclude=unchanged) == config.model_dump(exclude=unchanged)
    assert fit_to_pack(fitted) == fitted


def test_a_bench_has_its_own_numbers():
    fitted = fit_to_pack(load_bench_config("fake", overrides=HOUSEHOLD))
    assert fitted.targets.labels == {"defer": 30, "confirm": 50, "act": 60, "ignore": 60}
    resized = resize(fitted, 52, 26)
    assert (resized.targets.pairs, resized.targets.hard_negatives) == (26, 26)
    assert resized.targets.labels == {"defer": 4, "confirm": 6, "act": 8, "ignore": 8}


@pytest.mark.parametrize("profile", list_profiles())
@pytest.mark.parametrize("pack", ["household", "strict_primary"])
def test_every_profile_fits_every_pack(profile, pack):
    for load in (load_config, load_bench_config):
        before, after = (
            change(load(profile, overrides={"pack": pack})) for change in (lambda config: config, fit_to_pack)
        )
        assert list(after.targets.labels) == [item.key for item in load_pack(pack).classes]
        assert after.targets.pairs == before.targets.pairs
        assert type(after.targets) is type(before.targets)


@pytest.mark.parametrize("profile", list_profiles())
def test_the_reference_pack_keeps_the_profiles_numbers(profile):
    for config in (load_config(profile), load_bench_config(profile)):
        assert fit_to_pack(config) == config


def make_copy(folder, keys):
    """Write a copy of the reference pack whose two classes are called otherwise."""
    write_new_pack("copy", "reference", folder)
    data = yaml.safe_load((folder / "pack.yaml").read_text("utf-8"))
    for item, key in zip(data["classes"], keys, strict=True):
        item["key"] = key
    (folder / "pack.yaml").write_text(yaml.safe_dump(data), "utf-8")
    return str(folder)


def test_a_pack_that_shares_a_class_with_the_profile_is_dealt_to_as_well(tmp_path):
    pack = make_copy(tmp_path / "pack", ("urgent", "ignorable"))
    fitted = fit_to_pack(load_config("laptop", overrides={"pack": pack}))
    assert fitted.targets.labels == {"urgent": 100, "ignorable": 100}
    assert fitted.stages.label_actionability.thresholds == {}


def test_a_copy_of_the_reference_pack_keeps_numbers_and_thresholds(tmp_path):
    pack = make_copy(tmp_path / "pack", ("actionable", "ignorable"))
    config = load_bench_config("laptop", overrides={"pack": pack})
    assert fit_to_pack(config) == config
    assert config.targets.labels == {"actionable": 60, "ignorable": 40}


class TestWhatSomebodyHasSet:
    def refuse(self, *parts, **overrides):
        config = fit_to_pack(load_config("fake", overrides={**HOUSEHOLD, **overrides}))
        with pytest.raises(ConfigError) as fault:
            check_tpi_build(config)
        assert all(part in str(fault.value) for part in parts)

    def test_labels_of_the_pack_stay(self):
        labels = {"act": 5, "ignore": 5}
        assert (
            fit_to_pack(load_config("fake", overrides={**HOUSEHOLD, "targets.labels": labels})).targets.labels == labels
        )

    @pytest.mark.parametrize(
        ("labels", "unknown"),
        [
            ({"actionable": 13, "ignorable": 13}, "actionable, ignorable"),
            ({"act": 13, "ignorable": 13}, "has no class ignorable"),
            ({"act": 13, "acts": 1}, "has no class acts"),
        ],
    )
    def test_labels_of_another_pack_are_an_error_that_names_the_classes(self, labels, unknown):
        self.refuse(unknown, "defer, confirm, act, ignore", "pack 'household'", **{"targets.labels": labels})

    def test_so_are_thresholds(self):
        thresholds = {"act": 0.3, "actionable": 0.6}
        self.refuse("has no class actionable", **{"stages.label_actionability.thresholds": thresholds})
        self.refuse("ignore is the last class", **{"stages.label_actionability.thresholds": {"ignore": 0.4}})


@pytest.mark.parametrize("role", ["writer", "judge"])
@pytest.mark.parametrize("pack", ["household", "strict_primary"])
def test_the_playbook_is_refused_for_classes_that_it_was_not_written_for(role, pack):
    engine = {f"engines.{role}": {"engine": "playbook"}}
    config = fit_to_pack(load_config("fake", overrides={"pack": pack, **engine}))
    with pytest.raises(ConfigError, match=rf"engines\.{role}: .* authored for the classes actionable and") as fault:
        check_tpi_build(config)
    assert pack in str(fault.value)
    assert "--profile laptop" in str(fault.value)


def test_the_example_for_a_small_judge_sets_its_own_thresholds():
    example = Path(__file__).parents[2] / "examples" / "household.yaml"
    fitted = fit_to_pack(load_config("laptop", [str(example)]))
    assert list(fitted.targets.labels) == ["defer", "confirm", "act", "ignore"]
    assert set(fitted.stages.label_actionability.thresholds) == {"defer", "confirm", "act"}
