"""What `bystander diff` says of two builds that differ in one thing, on real builds with the fake engines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.build_differences import BuildDifferences
from bystander.schemas.errors import BuildError
from bystander.storage.filesystem import open_store
from bystander.tasks.compare_builds import compare_builds
from tpi_builds import Built, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

ROWS = 12
FEW = {"stages__draw_scenarios__scenarios": ["endorsement", "alignment", "priority_alert"], "seed": 1}
MOVED = {"audio", "duration_s", "segments", "offset_asked_s", "overlap_s", "mixture_similarity"}
Make = Callable[..., Built]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Build in one store, so that what a change leaves alone is not made again."""
    folder = tmp_path_factory.mktemp("diff")
    queries = write_queries(folder / "queries.jsonl", 40)

    def make_build(name: str, rows: int = ROWS, source: Path = queries, **fields: Any) -> Built:
        return build(make_config(folder / "store", source, rows, build=name, **{**FEW, **fields}))

    return make_build


@pytest.fixture(scope="module")
def first(make: Make) -> Built:
    return make("first")


def list_ids(one: Built) -> set[str]:
    return set(one.read_rows()["id"].to_pylist())


def compare(first: Built, second: Built) -> BuildDifferences:
    found = compare_builds(str(first.folder), str(second.folder))
    before, after = list_ids(first), list_ids(second)
    rows = {change: {row.id for row in found.rows if row.change == change} for change in ("removed", "added")}
    assert rows == {"removed": before - after, "added": after - before}
    assert found.same + found.count("changed") + found.count("provenance") == len(before & after)
    return found


def count_causes(found: BuildDifferences) -> Counter[tuple[str, str, str]]:
    return Counter((row.change, cause.stage, cause.field) for row in found.rows for cause in row.causes)


def test_two_equal_builds_do_not_differ_and_are_not_read(first: Built, make: Make) -> None:
    found = compare(first, make("again"))
    assert (found.identical, found.same, found.shards_not_read, dict(found.manifest)) == (True, ROWS, 1, {})


def test_another_reply_template_changes_replies_and_nothing_else(first: Built, make: Make, tmp_path: Path) -> None:
    pack = tmp_path / "polite"
    write_new_pack("polite", "reference", pack)
    with (pack / "write_reply.j2").open("a") as template:
        template.write("\nBe polite.\n")
    found = compare(first, make("polite", pack=str(pack)))
    # The fake writer does not read the prompt: only where the rows come from has changed.
    assert found.count("provenance") == ROWS
    assert {column for row in found.rows for column in row.columns} == {"pack", "pack_digest"}
    assert {change.field for change in found.manifest["pack"]} == {"name", "digest"}


def test_other_voices_change_speech_from_the_choice_of_voices_on(first: Built, make: Make) -> None:
    found = compare(first, make("voices", engines__speech__voices=4))
    changed = [row for row in found.rows if row.change == "changed"]
    assert changed
    assert all(row.causes[0].stage == "choose_voices" for row in changed if "primary_voice" in row.columns)
    assert all(row.causes[0].field.startswith("engines.speech.") for row in changed)
    assert all("reply" not in row.columns for row in changed)
    assert {change.field.partition(".")[0] for change in found.manifest["engines"]} == {"speech"}
    assert found.audio.samples == sum("audio" in row.columns for row in changed)


def test_another_setting_of_the_mixture_changes_mixtures(first: Built, make: Make) -> None:
    found = compare(first, make("mix", stages__mix_speakers__offset_mean_s=-0.3))
    pairs = first.outcome.manifest.counts.rows - first.outcome.manifest.counts.by_label["hard_negative"]
    assert count_causes(found) == {("changed", "mix_speakers", "params.offset_mean_s"): pairs}
    assert all({*row.columns} <= MOVED for row in found.rows)
    assert (found.audio.samples, found.audio.encoding_only) == (pairs, 0)
    assert {cause.sentence for row in found.rows for cause in row.causes} == {
        "mix_speakers: params.offset_mean_s: -0.5 -> -0.3"
    }


def test_more_queries_add_rows_and_change_none(first: Built, make: Make, tmp_path: Path) -> None:
    more = write_queries(tmp_path / "queries.jsonl", 55)
    known = {json.loads(line)["question"] for line in more.read_text("utf-8").splitlines()[:40]}
    second = make("more", 20, more)
    found = compare(first, second)
    texts = dict(zip(*(second.read_rows()[name].to_pylist() for name in ("id", "query_text")), strict=True))
    assert found.count("added") > 0
    for row in found.rows:
        (cause,) = row.causes
        if row.change == "added":
            assert (cause.code == "no_request") == (texts[row.id] not in known)
        elif row.change == "changed":
            assert cause.code == "twin"
    assert sum(row.causes[0].code == "no_request" for row in found.rows) > 0


def test_fewer_rows_are_left_out_by_the_quotas_or_never_begun(first: Built, make: Make) -> None:
    second = make("few", 5)
    found = compare(first, second)
    quota = {row["id"] for row in second.read_rejects("select_quotas")}
    for row in found.rows:
        (cause,) = row.causes
        if row.change == "removed":
            expected = {"quota"} if row.id in quota else {"not_drawn", "quota"}
            assert cause.code in expected
            assert "targets." in cause.sentence
    swapped = compare_builds(str(second.folder), str(first.folder))
    assert {(row.id, row.causes[0].code) for row in swapped.rows if row.change == "added"} == {
        (row.id, row.causes[0].code) for row in found.rows if row.change == "removed"
    }


def test_another_seed_is_named(first: Built, make: Make) -> None:
    found = compare(first, make("seed", seed=2))
    not_drawn = [row for row in found.rows if row.causes and row.causes[0].code == "not_drawn"]
    assert not_drawn
    assert all("seed" in cause.sentence for row in found.rows for cause in row.causes if cause.code != "twin")
    assert all(row.causes[0].field == "build_seed" for row in found.rows if row.change == "changed")


def test_rows_that_a_stricter_stage_refuses_are_put_down_to_it(first: Built, make: Make) -> None:
    second = make("strict", stages__check_realism__min_score=0.9)
    rejects = {row["id"]: row["reject_reason"] for row in second.read_rejects("check_realism")}
    found = compare(first, second)
    refused = {row.id: row.causes[0] for row in found.rows if row.causes and row.causes[0].code == "rejected"}
    assert {key: cause.field for key, cause in refused.items()} == {
        row.id: rejects[row.id] for row in found.rows if row.id in rejects
    }
    for cause in refused.values():
        assert cause.stage == "check_realism"
        assert cause.sentence.endswith("unrealistic (params.min_score: 0.5 -> 0.9)")


def test_queries_that_are_refused_now_are_named(first: Built, make: Make) -> None:
    second = make("short", stages__normalise_queries__max_words=6)
    found = compare(first, second)
    refused = {row["query_text"] for row in second.read_rejects("normalise_queries")}
    texts = dict(zip(*(first.read_rows()[name].to_pylist() for name in ("id", "query_text")), strict=True))
    gone = {row.id: row.causes[0] for row in found.rows if row.change == "removed" and texts[row.id] in refused}
    assert gone
    assert {(cause.code, cause.stage, cause.field) for cause in gone.values()} == {
        ("no_request", "normalise_queries", "too_long")
    }


def test_build_that_lost_its_manifest_is_not_finished(first: Built, make: Make) -> None:
    second = make("again")
    open_store(second.folder).remove("manifest.json")
    with pytest.raises(BuildError, match=r"again/manifest\.json: is missing, so this is not a finished build"):
        compare_builds(str(first.folder), str(second.folder))
