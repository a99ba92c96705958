from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bystander.schemas.annotation_error import AnnotationError
from bystander.storage.build_manifest import StageCounts
from bystander.storage.sid_card import choose_sid_licence, render_sid_card, write_sid_card
from bystander.storage.sid_manifest import SidQuota, read_sid_manifest
from sid_rows import make_sid_row, make_sid_rows, write_sid_build


def render(folder: Path, **changes: object) -> str:
    manifest = read_sid_manifest(write_sid_build(folder, make_sid_rows(1), **changes))
    return render_sid_card(manifest, {"Apache-2.0": 8})


def test_the_head_is_what_hugging_face_reads(tmp_path: Path) -> None:
    head = yaml.safe_load(render(tmp_path).split("---\n")[1])
    assert head["language"] == ["en", "zh"]
    assert head["license"] == "apache-2.0"
    assert head["configs"][0]["data_files"] == [{"split": "sid_bench", "path": "data/sid_bench-*-of-*.parquet"}]
    assert head["dataset_info"]["splits"][0]["num_examples"] == 8
    features = {feature["name"]: feature for feature in head["dataset_info"]["features"]}
    assert features["audio"]["dtype"] == {"audio": {"sampling_rate": 16000}}
    assert features["break_time_s"]["dtype"] == "float64"


def test_the_card_says_how_far_the_annotation_is_off(tmp_path: Path) -> None:
    error = AnnotationError(
        language="en",
        category="middle",
        rows=20,
        tag_right=19,
        break_missed=1,
        break_invented=0,
        wrong_word=0,
        timed=19,
        median_ms=12.34,
        p90_ms=40.0,
        bias_ms=-3.0,
        within_20_ms=0.8,
        within_50_ms=0.9,
        within_100_ms=1.0,
    )
    card = render(tmp_path, annotation=(error,))
    assert "| en, middle | 20 | 95.0 % | 12.3 | 40.0 | 80.0 % | 90.0 % | 100.0 % |" in card
    assert "All of it is synthetic" in card


def test_shortfalls_languages_left_out_and_stages_are_said(tmp_path: Path) -> None:
    card = render(
        tmp_path,
        quotas=(SidQuota(category="middle", language="zh", asked=4, got=1),),
        left_out={"zh": "the speech engine has 0 voices of this language, two are needed"},
        stages=(StageCounts(stage="tag_breaks", rows_in=5, kept=4, reasons={"taggers_disagree": 1}),),
    )
    assert "- middle in zh: 1 of 4" in card
    assert "- zh: the speech engine has 0 voices" in card
    assert "| tag_breaks | 5 | 4 | 1 | taggers_disagree 1 |" in card


@pytest.mark.parametrize(
    ("licences", "chosen"),
    [({"Apache-2.0": 3}, "apache-2.0"), ({"Apache-2.0": 3, "": 1}, "other"), ({"CC BY 4.0": 1}, "other")],
)
def test_the_licence_is_ours_only_where_every_source_is(licences: dict[str, int], chosen: str) -> None:
    assert choose_sid_licence(licences)[0] == chosen


def test_licences_are_counted_over_the_rows(tmp_path: Path) -> None:
    rows = [make_sid_row(0, licence="CC BY 4.0"), make_sid_row(1, licence=None)]
    store = write_sid_build(tmp_path, rows)
    write_sid_card(store, read_sid_manifest(store))
    card = (tmp_path / "README.md").read_text("utf-8")
    assert "| CC BY 4.0 | 1 |" in card
    assert "| not stated | 1 |" in card
