"""Profiles of evaluations, and how systems and judges are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.schemas.errors import ConfigError
from bystander.schemas.evaluate_profiles import (
    list_evaluate_profiles,
    load_evaluate_config,
    parse_judge,
    parse_pair,
    parse_system,
)

POLICY = {"policy": {"engine": "stand_in", "kind": "policy"}}


@pytest.mark.parametrize("profile", ["fake", "laptop", "paper", "playbook"])
def test_every_profile_has_a_judge(profile: str) -> None:
    assert list_evaluate_profiles() == ["fake", "laptop", "paper", "playbook"]
    config = load_evaluate_config(profile)
    assert len(config.judges) == 1
    assert config.systems == {}
    assert config.profile == profile


def test_given_judges_replace_those_of_the_profile_and_systems_join_those_of_files(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("systems: {b: {engine: predictions, path: b.jsonl}}\nresamples: 500\n", "utf-8")
    config = load_evaluate_config("fake", [str(file)], {"resamples": 600}, POLICY, {"mine": {"engine": "playbook"}})
    assert (sorted(config.systems), list(config.judges), config.resamples) == (["b", "policy"], ["mine"], 600)


def test_the_name_depends_on_what_decides_the_scores() -> None:
    def name(**overrides: object) -> str:
        return load_evaluate_config(
            "fake", (), {k.replace("__", "."): v for k, v in overrides.items()}, POLICY
        ).evaluation_name

    assert name() == name(workers=7, partition_rows=3, store="elsewhere")
    assert len({name(), name(seed=1), name(rows=5), name(bench="b"), name(allow_missing=True)}) == 5
    chat = {"engine": "openai", "model": "m"}
    asked = [
        load_evaluate_config("fake", (), {}, POLICY, {"j": {**chat, "base_url": url}}).evaluation_name
        for url in ("http://a/v1", "http://b/v1")
    ]
    assert asked[0] == asked[1] != name()


def test_ways_to_name_a_system(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("engine: openai_audio\nbase_url: http://x/v1\nmodel: m\n", "utf-8")
    assert parse_system(f"omni={file}") == ("omni", {"engine": "openai_audio", "base_url": "http://x/v1", "model": "m"})
    assert parse_system("p=out/replies.parquet") == ("p", {"engine": "predictions", "path": "out/replies.parquet"})
    assert parse_system("s={engine: stand_in, kind: policy}") == ("s", POLICY["policy"])
    assert parse_judge("rules=playbook") == ("rules", {"engine": "playbook"})
    assert parse_pair("people=r.csv", "--ratings") == ("people", "r.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.yaml", "write it as name=model.yaml or name=predictions.jsonl"),
        ("=model.yaml", "write it as name="),
        ("m=model.txt", "is neither a YAML file with the engine's fields nor predictions"),
        ("m={engine: [", "is not YAML"),
        ("m=none.yaml", "none.yaml: cannot be read"),
    ],
)
def test_systems_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        parse_system(text)
    assert message in str(fault.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"systems": {"a/b": POLICY["policy"]}}, "'a/b' is no name"),
        ({"ratings": [{"path": "r.csv", "name": "rules"}]}, "rules stands for two"),
        ({"systems": {"a": POLICY["policy"], "A": POLICY["policy"]}}, "would share a file"),
        ({"embeddings": {"b": "b.npy"}}, "no system b"),
        ({"resamples": 1}, "resamples: "),
        ({"wrong": 1}, "wrong: "),
    ],
)
def test_fields_that_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        load_evaluate_config("fake", (), fields)
    assert message in str(fault.value)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"seed": 2**63}, f"seed: Input should be less than or equal to {2**63 - 1}"),
        ({"confidence": float("nan")}, "confidence: Input should be a finite number"),
        ({"systems.policy.wish": 1}, "systems.policy.wish: no such field; there are engine, kind, writer"),
        ({"stages.answer_clips.wish": 1}, "stages.answer_clips.wish: no such field; there are none here"),
        ({"name": "a/b"}, "name: 'a/b' cannot be a name; use at most 100 letters, digits, dots, hyphens"),
        ({"systems": {"x" * 101: POLICY["policy"]}}, "is no name for a system or judge: use at most 100 letters"),
    ],
)
def test_mistakes_in_the_fields_are_said_in_words(overrides: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_evaluate_config("fake", (), overrides, POLICY)
    assert words in str(caught.value)
