from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bystander.schemas.tpi import FINAL
from bystander.storage import dataset_card
from bystander.storage.build_manifest import EngineInfo, ModelFileInfo, OtherBuild, Quota, read_manifest
from bystander.storage.dataset_card import choose_licence, render_card, write_card
from final_rows import ENGINES, RATE, make_bench_rows, make_manifest, make_rows, write_build


def test_head_is_what_hugging_face_reads(tmp_path: Path) -> None:
    manifest = read_manifest(write_build(tmp_path, make_rows()))
    card = render_card(manifest, licence="cc-by-4.0", licence_note="From the queries.")
    start, head, body = card.split("---\n", 2)
    assert start == ""
    parsed = yaml.safe_load(head)
    assert parsed["license"] == "cc-by-4.0"
    assert parsed["language"] == ["en"]
    assert parsed["size_categories"] == ["n<1K"]
    assert parsed["configs"][0]["data_files"] == [{"split": "train", "path": "data/train-*-of-*.parquet"}]
    (split,) = parsed["dataset_info"]["splits"]
    assert (split["num_examples"], split["num_bytes"]) == (10, manifest.shards[0].bytes)
    assert {"name": "audio", "dtype": {"audio": {"sampling_rate": RATE}}} in parsed["dataset_info"]["features"]
    assert "| actionable | 4 |" in body
    assert "| normalise_queries | 11 | 9 | 2 | duplicate 1, too_long 1 |" in body
    assert "| kokoro-v1.0-int8 | Apache-2.0 | 9 | `aaaaaaaaaaaa…` | pip: kokoro-part |" in body
    assert "**kokoro**: a small model with a fixed set of English voices" in body
    assert "Every stratum has as many rows as were asked for." in body
    assert "2026" not in card  # times are no content


def test_shortfalls_and_unknown_engines_are_said() -> None:
    manifest = make_manifest(
        make_rows(),
        quotas=(Quota(label="ignorable", scenario="priority_alert", asked=9, got=4),),
        engines={**ENGINES, "judge": EngineInfo(kind="text", name="oracle", model="o")},
    )
    card = render_card(manifest)
    assert "- ignorable in priority_alert: 4 of 9" in card
    assert "**oracle**: its limits are not recorded here" in card


STARTER = {"profile": "laptop", "queries": {"path": None}}
LLAMA = EngineInfo(kind="text", name="llama_cpp", model="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")

ORACLE = {"kind": "text", "name": "oracle", "model": "o"}


def make_model(name: str) -> ModelFileInfo:
    return ModelFileInfo(name=name, bytes=9, sha256="a" * 64, licence="Apache-2.0")


@pytest.mark.parametrize(
    ("changes", "licence"),
    [
        ({}, "other"),  # the source of the requests is not stated
        ({"config": {"queries": {"path": "mine.jsonl"}}}, "other"),
        ({"config": STARTER}, "apache-2.0"),
        ({"config": STARTER, "models": ()}, "other"),  # a voice of unknown terms
        ({"config": STARTER, "engines": {"writer": EngineInfo(kind="text", name="openai", model="m")}}, "other"),
        ({"config": STARTER, "engines": {"writer": LLAMA}}, "other"),
        (
            {"config": STARTER, "engines": {"writer": LLAMA}, "models": (make_model(f"qwen/{LLAMA.model}"),)},
            "apache-2.0",
        ),
        # The texts are of another build, whose writer was another one than the replies'.
        ({"config": STARTER, "fingerprints": {"write_interruptions": {"engines": {"writer": ORACLE}}}}, "other"),
    ],
)
def test_licence_is_stated_where_all_parts_are_known(changes: dict[str, Any], licence: str) -> None:
    manifest = make_manifest(make_rows(), **changes)
    assert choose_licence(manifest)[0] == licence
    assert yaml.safe_load(render_card(manifest).split("---\n")[1])["license"] == licence


@pytest.mark.parametrize(
    ("engine", "said", "unsaid"),
    [
        (LLAMA, "no person chose or checked a label", "authored together"),
        (EngineInfo(kind="text", name="playbook", model="playbook"), "authored together", "Machine-made"),
        (ENGINES["writer"], "stand-ins that mean nothing", "Machine-made"),
    ],
)
def test_card_says_who_made_the_labels(engine: EngineInfo, said: str, unsaid: str) -> None:
    card = render_card(make_manifest(make_rows(), engines={**ENGINES, "writer": engine, "judge": engine}))
    assert said in card
    assert unsaid not in card


def test_limits_of_the_embedded_judge_are_said_of_it_alone() -> None:
    other = LLAMA.model_copy(update={"model": "some-70b.gguf"})
    chance = "it labels two of three remarks rightly"
    assert chance in render_card(make_manifest(make_rows(), engines={**ENGINES, "judge": LLAMA}))
    assert chance not in render_card(make_manifest(make_rows(), engines={**ENGINES, "judge": other}))


def test_card_says_how_much_of_a_segment_is_no_speech() -> None:
    config = {"stages": {"synthesise_speech": {"trim_margin_s": 0.02}}}
    assert "Segments keep 20 ms on either side" in render_card(make_manifest(make_rows(), config=config))


def test_every_column_is_explained() -> None:
    assert set(dataset_card.COLUMN_NOTES) == set(FINAL.names)


def test_datasets_loads_a_build_by_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    store = write_build(tmp_path / "build", make_rows())
    write_card(store, read_manifest(store))
    loaded = datasets.load_dataset(str(tmp_path / "build"), cache_dir=str(tmp_path / "cache"))
    assert loaded.keys() == {"train"}  # rejects are no data files
    assert loaded["train"].num_rows == 10
    assert loaded["train"].features["audio"] == datasets.Audio(sampling_rate=RATE)


def test_the_readme_loads_a_build_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    store = write_build(tmp_path / "out" / "demo" / "tpi-train" / "demo", make_rows())
    write_card(store, read_manifest(store))
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["sampling_rate"] == RATE
    assert names["samples"].shape == (round(make_rows()[0]["duration_s"] * RATE),)
    for text in (readme, render_card(read_manifest(store))):
        assert "pip install 'datasets[audio]'" in " ".join(text.split())


def test_card_of_a_bench_says_what_it_is_and_shows_control_figures_where_there_are_any() -> None:
    others = tuple(OtherBuild(uri=f"s/{n}", dataset="tpi-train", build=n, rows_digest="a" * 64) for n in ("one", "two"))
    config = {"stages": {"build_hard_negatives": {"min_ambiguity": 4.0}}}
    manifest = make_manifest(make_bench_rows(), kind="tpi_bench", disjoint_from=others, config=config)
    card = " ".join(render_card(manifest).split())
    assert "two people's (`ambiguity_score` from 4.0). In every track" in card
    assert "Of 3 one-speaker rows 2 have their two-speaker twin in `tpi_test`" in card
    assert "in common with `tpi-train/one` (rows `aaaaaaaaaaaa`), `tpi-train/two` (rows `aaaaaaaaaaaa`)." in card
    assert "Does it need ears?" not in card
    assert "## Does it need ears? Text alone: AUC 0.52." in " ".join(
        render_card(manifest, controls="Text alone: AUC 0.52.").split()
    )


def test_card_of_a_train_build_says_nothing_of_benches() -> None:
    card = render_card(make_manifest(make_rows()))
    assert "It is a bench" not in card
    assert "in common with" not in card
    assert "2 two-speaker rows have a one-speaker twin." in card
