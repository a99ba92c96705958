"""The parameters of deployments: what they refuse, what they stand for, and what their form shows."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from bystander.schemas.config import list_profiles
from bystander.schemas.deployed_builds import SidBenchRun, SidProfile, SidTrainRun, TpiBenchRun, TpiProfile, TpiTrainRun
from bystander.schemas.deployed_evaluations import (
    EvaluateProfile,
    EvaluateSidRun,
    EvaluateTpiRun,
    EvaluateVoiceBenchRun,
)
from bystander.schemas.deployed_run import DeployedRun, parse_run
from bystander.schemas.errors import ConfigError
from bystander.schemas.evaluate_profiles import list_evaluate_profiles
from bystander.schemas.sid_config import list_sid_profiles

KINDS: list[type[DeployedRun]] = [
    TpiTrainRun,
    TpiBenchRun,
    SidBenchRun,
    SidTrainRun,
    EvaluateTpiRun,
    EvaluateSidRun,
    EvaluateVoiceBenchRun,
]
FAKE = {"profile": "fake", "store": "/data/store"}


def test_there_are_the_profiles_that_there_are() -> None:
    assert list(get_args(TpiProfile)) == list_profiles()
    assert list(get_args(SidProfile)) == list_sid_profiles()
    assert list(get_args(EvaluateProfile)) == list_evaluate_profiles()


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (TpiTrainRun, {}, "store: Field required; profile: Field required"),
        (TpiTrainRun, None, "fields: Input should be a valid dictionary"),
        (TpiTrainRun, {**FAKE, "store": ""}, "store: '' cannot be a place; use an absolute path or a URL"),
        (TpiTrainRun, {**FAKE, "store": "here"}, "store: 'here' cannot be a place"),
        (TpiTrainRun, {**FAKE, "profile": "huge"}, "profile: Input should be 'fake', 'laptop', 'paper' or 'playbook'"),
        (TpiTrainRun, {**FAKE, "rows": 0}, "rows: Input should be greater than or equal to 1"),
        (TpiTrainRun, {**FAKE, "rowz": 5}, "rowz: no such field; there are disjoint_from, files"),
        (TpiBenchRun, {**FAKE, "seed": -1}, "seed: Input should be greater than or equal to 0"),
        (TpiBenchRun, {**FAKE, "retries": 21}, "retries: Input should be less than or equal to 20"),
        (SidBenchRun, {**FAKE, "languages": ["en", "fr"]}, "languages.1: Input should be 'en' or 'zh'"),
        (SidTrainRun, {**FAKE, "release": False, "publish_to": "/x"}, "publish_to: only releases are published"),
        (SidTrainRun, {**FAKE, "publish_to": "/x", "public": True}, "public: is for the hub; begin publish_to with"),
        (
            TpiTrainRun,
            {**FAKE, "publish_to": "hf://x"},
            "publish_to: 'hf://x' cannot be a place; use an absolute path, a",
        ),
        (
            TpiTrainRun,
            {**FAKE, "publish_to": "out"},
            "publish_to: 'out' cannot be a place; use an absolute path, a URL",
        ),
        (TpiTrainRun, {**FAKE, "publish_to": "hf://models/a/b"}, "publish_to: 'hf://models/a/b' cannot be a place"),
        (
            TpiTrainRun,
            {**FAKE, "publish_to": "hf://datasets/a/b--c"},
            "fields: publish_to: hf://datasets/a/b--c: is no",
        ),
        (EvaluateVoiceBenchRun, {"store": "/x", "parts": ["mmlu"]}, "parts.0: Input should be 'alpacaeval'"),
    ],
)
def test_wrong_values_are_refused_with_their_field(kind: type[DeployedRun], given: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_run(kind, given)
    assert str(caught.value).startswith("parameters: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("store", ["/data/store", "C:\\store", "s3://bucket/store", "memory://x"])
def test_places_that_every_worker_finds(store: str) -> None:
    assert parse_run(TpiTrainRun, {**FAKE, "store": store}).store == store


@pytest.mark.parametrize(
    "place", ["/x", "C:\\x", "s3://bucket/x", "hdfs://x", "h://x", "hfs://x", "hf://datasets/lab/talks", "memory://x"]
)
def test_places_to_publish_to(place: str) -> None:
    assert parse_run(TpiTrainRun, {**FAKE, "publish_to": place}).publish_to == place


def test_fields_stand_for_those_of_the_configuration() -> None:
    form = {
        **FAKE,
        "rows": 10,
        "seed": 7,
        "queries": "/data/queries.jsonl",
        "pack": "/data/pack",
        "workers": 5,
        "disjoint_from": ["/data/store/tpi-bench/latest"],
        "overrides": {"seed": 1, "stages.mix_speakers.offset_sd_s": 0.2},
    }
    config = parse_run(TpiTrainRun, form).load([])
    assert (config.store, config.seed, config.pack, config.workers) == ("/data/store", 7, "/data/pack", 5)
    assert config.queries.path == "/data/queries.jsonl"
    assert config.disjoint_from == ("/data/store/tpi-bench/latest",)
    assert config.stages.mix_speakers.offset_sd_s == 0.2


def test_what_is_left_out_is_as_the_profile_says() -> None:
    bench = parse_run(TpiBenchRun, {"profile": "paper", "store": "/data/store"}).load([])
    assert (bench.targets.labels, bench.targets.hard_negatives) == ({"actionable": 1200, "ignorable": 800}, 2000)
    assert bench.engines.speech.bank == "voice-bank"  # type: ignore[union-attr]  # of Chatterbox
    moved = parse_run(TpiBenchRun, {"profile": "paper", "store": "/data/store", "voice_bank": "/bank"}).load([])
    assert moved.engines.speech.bank == "/bank"  # type: ignore[union-attr]


def test_a_bank_for_voices_that_come_from_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"engines\.speech.*bank"):
        parse_run(TpiTrainRun, {**FAKE, "voice_bank": "/bank"}).load([])


def test_recordings_and_targets_of_sid() -> None:
    form = {**FAKE, "recordings": "/calls", "language": "zh", "languages": ["zh"], "natural": True, "noise": ["/esc"]}
    config = parse_run(SidBenchRun, form).load([])
    assert (config.recordings.path, config.recordings.language) == ("/calls", "zh")
    assert (config.targets.languages, config.targets.per_language) == (("zh",), None)
    assert config.noise.folders == ("/esc",)
    assert parse_run(SidTrainRun, FAKE).load([]).targets.per_language


def test_systems_judges_and_detectors_of_evaluations() -> None:
    tpi = {**FAKE, "bench": "/b", "systems": {"ours": "/replies.jsonl"}, "judges": {"rules": "playbook"}, "rows": 3}
    config = parse_run(EvaluateTpiRun, tpi).load([])
    assert config.systems["ours"].model_dump()["path"] == "/replies.jsonl"
    assert [*config.judges] == ["rules"]
    assert (config.bench, config.rows, config.allow_missing) == ("/b", 3, False)
    sid = {"store": "/s", "detectors": "energy_vad,k3:webrtc_vad", "predictions": {"ours": "/p"}, "name": "weekly"}
    scored = parse_run(EvaluateSidRun, sid).load([])
    assert ([*scored.detectors], scored.predictions) == (["energy_vad", "k3-webrtc_vad"], {"ours": "/p"})
    assert scored.evaluation_name == "weekly"
    voice = {"store": "/s", "data": "/v", "parts": ["mmsu"], "allow_missing": True}
    answered = parse_run(EvaluateVoiceBenchRun, voice).load([])
    assert (answered.data, answered.parts, answered.allow_missing) == ("/v", ("mmsu",), True)


@pytest.mark.parametrize("kind", KINDS)
def test_form_is_readable(kind: type[DeployedRun]) -> None:
    fields = kind.model_json_schema()["properties"]
    assert [field["position"] for field in fields.values()] == [*range(len(fields))]
    assert [*fields][: 1 + ("profile" in fields)] == ["profile", "store"][-1 - ("profile" in fields) :]
    assert [*fields][-5:] == ["files", "overrides", "workers", "retries", "retry_after_s"]
    for name, field in fields.items():
        assert {"title", "description", "type"} <= {*field}, f"{kind.__name__}.{name} is no plain field of the form"
        assert "anyOf" not in field
    assert kind.model_json_schema()["additionalProperties"] is False


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_are_left_out_may_be_null(kind: type[DeployedRun]) -> None:
    form = dict(FAKE) if "profile" in kind.model_fields else {"store": "/data/store"}
    empty = {name: None for name, field in kind.model_fields.items() if field.default is None}
    assert parse_run(kind, {**form, **empty}) == parse_run(kind, form)
