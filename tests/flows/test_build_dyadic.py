"""The flow that speaks requests whole, with the fake engines: one voice, sound, repeatable, and like its source."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.flows.check_dyadic import check_dyadic_build
from bystander.flows.listeners import listening
from bystander.prompts.load import load_pack
from bystander.schemas.dyadic import DYADIC_FINAL
from bystander.schemas.dyadic_config import DyadicConfig, load_dyadic_config
from bystander.schemas.errors import BuildError, ConfigError
from bystander.storage.any_manifest import read_any_manifest
from bystander.storage.build_manifest import read_manifest
from bystander.storage.dyadic_manifest import DyadicManifest
from bystander.storage.filesystem import open_store
from bystander.storage.verify_build import verify_build
from bystander.tasks.stages.plan_dyadic import list_quiet_classes
from bystander.tasks.verify_disjointness import verify_disjointness
from listening_builds import make_client, open_index
from tpi_builds import Built, Recorder, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_queries(tmp_path_factory.mktemp("queries") / "queries.jsonl")


@pytest.fixture(scope="module")
def source(store: Path, queries: Path) -> Built:
    return build(make_config(store, queries, build="source"))


def make_dyadic_config(store: Path, source: Built, **fields: Any) -> DyadicConfig:
    given = {name.replace("__", "."): value for name, value in fields.items()}
    overrides = {"store": str(store), "source": str(source.folder), "report_rows": 2, **given}
    return load_dyadic_config("fake", overrides=overrides)


def build_dyadic(config: DyadicConfig) -> Built:
    from bystander.flows.build_dyadic import run_build_dyadic

    heard = Recorder()
    with listening(heard):
        outcome = run_build_dyadic(config)
    return Built(Path(outcome.location), outcome, heard)


@pytest.fixture(scope="module")
def dyadic(store: Path, source: Built) -> Built:
    return build_dyadic(make_dyadic_config(store, source, build="whole"))


def read_source_rows(source: Built) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in source.read_rows().drop_columns(["audio"]).to_pylist()}


def test_every_request_with_a_reply_that_needs_no_remark_is_there_once(source: Built, dyadic: Built) -> None:
    pairs = read_source_rows(source)
    rows = dyadic.read_rows().drop_columns(["audio"]).to_pylist()
    quiet = {row["query_id"] for row in pairs.values() if row["label"] == "ignorable"}
    assert len(rows) == len(quiet) == len({row["query_id"] for row in rows})
    assert {row["query_id"] for row in rows} == quiet
    for row in rows:
        pair = pairs[row["source_id"]]
        assert (pair["n_speakers"], pair["label"]) == (2, "ignorable")
        assert row["primary_text"] == pair["primary_complete"]
        for column in ("reply", "query_id", "request", "language", "split", "primary_voice", "pack_digest"):
            assert row[column] == pair[column], column
        assert (row["n_speakers"], row["label"]) == (1, "dyadic")
        [segment] = row["segments"]
        assert segment == {"speaker": "primary", "start_s": 0.0, "end_s": pytest.approx(row["duration_s"])}
        assert row["primary_wer"] == 0
    assert not {row["id"] for row in rows} & pairs.keys()


def test_its_rows_are_heard(dyadic: Built) -> None:
    client = make_client(open_index(dyadic.folder))
    for row in dyadic.read_rows().to_pylist():
        page = client.get("/", params={"q": row["id"], "split": row["split"]}).text
        (source,) = re.findall(r'src="(/audio/[^"]+)"', page)
        assert client.get(source).content == row["audio"]["bytes"]
        assert html.escape(row["reply"]) in page


def test_requests_that_are_passed_over_are_counted_by_reason(store: Path, source: Built, dyadic: Built) -> None:
    rows = read_source_rows(source).values()
    there = {row["query_id"] for row in rows}
    paired = {row["query_id"] for row in rows if row["n_speakers"] == 2}
    quiet = {row["query_id"] for row in rows if row["n_speakers"] == 2 and row["label"] == "ignorable"}
    reasons = {"one_speaker_only": len(there - paired), "reply_takes_up_remark": len(paired - quiet)}
    requests = dyadic.outcome.manifest.requests
    assert (requests.there, requests.used) == (len(there), len(quiet))
    assert requests.passed_over == {reason: count for reason, count in reasons.items() if count} != {}
    told = next(line for line in dyadic.outcome.summary if line.startswith("Requests: "))
    assert told.startswith(f"Requests: {len(quiet)} of {len(there)} used, passed over: ")
    assert "`reply_takes_up_remark`" in (dyadic.folder / "README.md").read_text("utf-8")
    few = build_dyadic(make_dyadic_config(store, source, build="few-of-them", rows=1)).outcome.manifest.requests
    assert few.used == 1
    assert few.passed_over == {**requests.passed_over, "not_needed": len(quiet) - 1}


def test_it_is_mixed_as_hard_negatives_are(source: Built, dyadic: Built) -> None:
    single = next(row for row in source.read_rows().to_pylist() if row["n_speakers"] == 1)
    row = dyadic.read_rows().to_pylist()[0]
    assert row["sampling_rate"] == single["sampling_rate"]
    assert row["audio"]["bytes"][:4] == single["audio"]["bytes"][:4] == b"fLaC"
    config, there = dyadic.outcome.manifest.config["stages"], source.outcome.manifest.config["stages"]
    for stage in ("synthesise_speech", "verify_speakers", "mix_speakers"):
        assert config[stage] == there[stage]
    schema = pq.read_schema(dyadic.folder / dyadic.outcome.manifest.shards[0].file)
    assert schema.names == DYADIC_FINAL.names
    assert b"huggingface" in schema.metadata


def test_the_build_is_sound_and_says_where_it_comes_from(source: Built, dyadic: Built) -> None:
    assert verify_build(dyadic.folder) == []
    assert verify_disjointness(dyadic.folder).findings == []
    manifest = read_any_manifest(open_store(dyadic.folder))
    assert isinstance(manifest, DyadicManifest)
    assert (manifest.made_from.dataset, manifest.made_from.build) == ("tpi-train", "source")
    assert manifest.engines["writer"] == source.outcome.manifest.engines["writer"]
    card, report = ((dyadic.folder / name).read_text("utf-8") for name in ("README.md", "report.html"))
    assert "`tpi-train/source`" in card
    assert "`source_id`" in card
    assert report.count("<audio") == 2
    with pytest.raises(BuildError, match="is of a dyadic build"):
        read_manifest(open_store(dyadic.folder))


def test_what_it_shares_with_other_builds_is_found(source: Built, dyadic: Built) -> None:
    for built, other in ((dyadic, source), (source, dyadic)):
        found = {finding.field for finding in verify_disjointness(built.folder, [str(other.folder)]).findings}
        assert {"query_id", "request"} <= found


def test_damage_is_found(dyadic: Built, tmp_path: Path) -> None:
    folder = shutil.copytree(dyadic.folder, tmp_path / "copy")
    shard = folder / dyadic.outcome.manifest.shards[0].file
    rows = pq.read_table(shard)
    for column, values in (("n_speakers", [2]), ("label", ["ignorable"]), ("reply", [" "])):
        at = rows.schema.get_field_index(column)
        changed = pa.array(values + rows[column].to_pylist()[1:], rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), changed)
    pq.write_table(rows, shard)
    found = {finding.field: finding.problem for finding in verify_build(folder) if finding.row}
    assert found == {"n_speakers": "is 2, not 1", "label": "is 'ignorable', not 'dyadic'", "reply": "is empty"}


def test_a_second_run_does_nothing(store: Path, source: Built, dyadic: Built) -> None:
    again = build_dyadic(make_dyadic_config(store, source, build="whole"))
    assert not again.heard.made
    assert again.heard.plans[0].verdict == "nothing_new"
    assert again.checksums == dyadic.checksums


def test_neither_workers_nor_partitions_change_a_row(source: Built, dyadic: Built, tmp_path: Path) -> None:
    other = build_dyadic(make_dyadic_config(tmp_path, source, build="whole", partition_rows=3, workers=1))
    assert other.checksums == dyadic.checksums


def test_a_smaller_build_has_the_first_rows_and_names_what_is_left_over(
    store: Path, source: Built, dyadic: Built
) -> None:
    built = build_dyadic(make_dyadic_config(store, source, build="five", rows=5, surplus=1.5))
    ids = [row for table in (built, dyadic) for row in [table.read_rows()["id"].to_pylist()]]
    assert len(ids[0]) == 5
    assert set(ids[0]) <= set(ids[1])
    assert len(built.read_rejects("plan_dyadic")) == 3
    assert verify_build(built.folder) == []
    short = build_dyadic(make_dyadic_config(store, source, build="many", rows=500))
    [quota] = short.outcome.manifest.shortfalls
    assert (quota.asked, quota.got) == (500, len(ids[1]))


def test_where_nothing_passes_it_says_why(store: Path, source: Built) -> None:
    config = make_dyadic_config(store, source, build="none", stages__verify_speakers__min_single_similarity=1.0)
    with pytest.raises(BuildError, match="no row passed all stages; rejected were verify_speakers: voice_drifts"):
        build_dyadic(config.model_copy(update={"same_speech": False}))
    rejects = store / "dyadic" / "none" / "rejects" / "verify_speakers.parquet"
    rows = pq.read_table(rejects).to_pylist()
    assert rows
    assert {row["reject_reason"] for row in rows} == {"voice_drifts"}
    assert all(row["reject_detail"] for row in rows)
    assert not (store / "dyadic" / "none" / "manifest.json").exists()


def test_speech_that_would_tell_the_rows_apart_is_refused(store: Path, source: Built) -> None:
    config = make_dyadic_config(store, source, stages__mix_speakers__target_level=-30)
    with pytest.raises(ConfigError, match=r"target_level -23\.0 there, -30\.0 here.*same_speech"):
        check_dyadic_build(config)
    check_dyadic_build(config.model_copy(update={"same_speech": False}))


def test_wrong_sources_are_one_clear_error(store: Path, source: Built, dyadic: Built, tmp_path: Path) -> None:
    for place, named in ((tmp_path, "not a finished build"), (dyadic.folder, "is of a dyadic build")):
        config = make_dyadic_config(store, source).model_copy(update={"source": str(place)})
        with pytest.raises(ConfigError, match=named):
            check_dyadic_build(config)
    with pytest.raises(ConfigError, match="is another or has changed since"):
        check_dyadic_build(make_dyadic_config(store, source, pack="household"))


def test_classes_of_another_pack_are_chosen_by_what_they_do(store: Path, queries: Path) -> None:
    source = build(make_config(store, queries, pack="household", build="four"))
    built = build_dyadic(make_dyadic_config(store, source, build="of-four"))
    pairs = read_source_rows(source)
    used = {pairs[row_id]["label"] for row_id in built.read_rows()["source_id"].to_pylist()}
    assert used <= list_quiet_classes(load_pack("household").classes)
    assert verify_build(built.folder) == []
