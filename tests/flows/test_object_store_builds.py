"""Whole builds on a real S3 server: the same bytes as on a disk, resumable, and usable by everything else."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bystander.schemas.config import TpiTrainConfig
from bystander.schemas.errors import BuildError
from bystander.storage.build_lock import lock_build
from bystander.storage.build_manifest import BuildManifest, read_manifest
from bystander.storage.clean_cache import Cleaning, clean_cache, inspect_cache
from bystander.storage.filesystem import Store, open_store
from bystander.storage.verify_build import verify_build
from bystander.tasks.split_tpi import split_tpi
from bystander.tasks.verify_disjointness import verify_disjointness
from evaluations import STAND_INS, configure, evaluate
from object_store_server import ObjectStoreServer
from sid_builds import build_sid, make_sid_config, write_talk
from tpi_builds import Built, build, build_bench, make_bench_config, make_config, write_queries

pytest.importorskip("s3fs")
pytestmark = pytest.mark.usefixtures("prefect_server", "calls_apart")

SCENARIOS = ["endorsement", "recall_assistance", "simple_correction_with_alternative", "priority_alert"]
ROWS = 8


@pytest.fixture(scope="module")
def calls_apart(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache folder of the user's of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user-cache")))
        yield


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_queries(tmp_path_factory.mktemp("queries") / "queries.jsonl", 40)


def make_train_config(store: str, queries: Any, **fields: Any) -> TpiTrainConfig:
    settings = {"stages__draw_scenarios__scenarios": SCENARIOS, "build": "b", "partition_rows": 8, **fields}
    return make_config(store, queries, rows=ROWS, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, queries: Path, calls_apart: None, prefect_server: None) -> Built:
    return build(make_train_config(str(tmp_path_factory.mktemp("local")), queries))


@pytest.fixture(scope="module")
def store(object_store: ObjectStoreServer) -> Store:
    return open_store(f"s3://{object_store.make_bucket()}/lab/store")


@pytest.fixture(scope="module")
def remote(store: Store, queries: Path, calls_apart: None, prefect_server: None) -> Built:
    return build(make_train_config(store.uri, queries))


def list_checksums(manifest: BuildManifest) -> list[tuple[str, str]]:
    return [(info.file, info.sha256) for info in (*manifest.shards, *manifest.rejects)]


def test_the_same_files_as_on_a_disk(local: Built, remote: Built, store: Store) -> None:
    assert remote.outcome.location == store.uri_of("tpi-train/b")
    assert list_checksums(remote.outcome.manifest) == list_checksums(local.outcome.manifest)
    found = store.child("tpi-train/b")
    assert found.list() == sorted(str(path.relative_to(local.folder)) for path in local.folder.rglob("*.*"))
    assert found.read_bytes("report.html") == (local.folder / "report.html").read_bytes()
    assert verify_build(found) == []


def test_an_unchanged_rebuild_makes_nothing_and_fetches_no_shard(
    remote: Built, store: Store, queries: Path, object_store: ObjectStoreServer
) -> None:
    since = object_store.mark()
    again = build(make_train_config(store.uri, queries))
    assert not again.heard.made
    assert again.outcome.manifest == remote.outcome.manifest
    shards = [verb for verb, path, _ in object_store.list_requests(since) if "/data/" in path]
    assert set(shards) == {"HEAD"}
    assert object_store.count_requests(since)["PART"] == 0


def test_damage_is_found_and_repaired(remote: Built, store: Store, queries: Path) -> None:
    folder = store.child("tpi-train/b")
    shard = remote.outcome.manifest.shards[0]
    folder.write_bytes(shard.file, b"x" * shard.bytes)
    assert any(finding.file == shard.file for finding in verify_build(folder))
    [part] = [path for path in store.list("cache/stages/mix_speakers") if path.endswith("kept.parquet")][:1]
    store.write_bytes(part, bytes(store.size(part)))
    again = build(make_train_config(store.uri, queries))
    assert again.heard.made["mix_speakers"] == 1
    assert again.heard.made["write_replies"] == 0
    assert again.outcome.manifest == remote.outcome.manifest
    assert verify_build(folder) == []


def test_published_rows_are_read_as_datasets_are(remote: Built, store: Store, object_store: ObjectStoreServer) -> None:
    import fsspec
    import soundfile
    from pyarrow import dataset, fs

    pattern = f"{store.uri}/tpi-train/b/data/train-*.parquet"
    files = fsspec.open_files(pattern, "rb")
    rows = [row for file in files for row in pq.read_table(file.open()).to_pylist()]
    assert len(rows) == ROWS
    samples, rate = soundfile.read(io.BytesIO(rows[0]["audio"]["bytes"]))
    assert len(samples) / rate == pytest.approx(rows[0]["duration_s"], abs=0.01)
    own = fs.S3FileSystem(endpoint_override=object_store.url, access_key="key", secret_key="secret", region="us-east-1")
    found = dataset.dataset(f"{store.uri.removeprefix('s3://')}/tpi-train/b/data", filesystem=own, format="parquet")
    assert found.to_table(columns=["id"])["id"].to_pylist() == [row["id"] for row in rows]
    assert b"huggingface" in found.schema.metadata


def test_a_bench_apart_from_it_and_parts_of_it_and_scores_on_it(
    remote: Built, store: Store, queries: Path, tmp_path: Path
) -> None:
    source = store.uri_of("tpi-train/b")
    queries_there = f"{store.uri}/in/queries.jsonl"
    open_store(f"{store.uri}/in").write_bytes("queries.jsonl", write_queries(tmp_path / "q.jsonl", 80).read_bytes())
    bench = build_bench(
        make_bench_config(
            store.uri,  # type: ignore[arg-type]
            queries_there,  # type: ignore[arg-type]
            rows=4,
            build="bench",
            disjoint_from=[source],
            stages__draw_scenarios__scenarios=SCENARIOS,
        )
    )
    folder = store.child("tpi-bench/bench")
    assert [other.uri for other in bench.outcome.manifest.disjoint_from] == [source]
    assert verify_build(folder) == []
    assert verify_disjointness(folder.uri).findings == []
    parts = split_tpi(source, store.uri, "parts", {"train": 0.5, "test": 0.5})
    assert parts.location == store.uri_of("tpi-train/parts")
    assert verify_build(store.child("tpi-train/parts")) == []
    systems = {"policy": STAND_INS["policy"]}
    scored = evaluate(configure(folder.uri, store.uri, systems=systems))  # type: ignore[arg-type]
    assert scored.score("policy", "tpi_test", "rsf").estimate.mean == 1.0
    evaluation = store.child("evaluations/same")
    assert {"manifest.json", "report.html", "scores.json"} <= set(evaluation.list())


def test_recordings_may_lie_there_too(store: Store, tmp_path: Path) -> None:
    write_talk(tmp_path)
    calls = open_store(f"{store.uri}/calls")
    for path in tmp_path.iterdir():
        calls.write_bytes(path.name, path.read_bytes())
    made = build_sid(
        make_sid_config(
            store.uri,  # type: ignore[arg-type]
            build="natural",
            recordings__path=calls.uri,
            recordings__licence="CC BY 4.0",
            targets__per_language=None,
            targets__languages=["en"],
        )
    )
    assert made.outcome.manifest.counts.by_category["middle"] >= 1
    assert verify_build(store.child("sid-bench/natural")) == []


def test_caches_are_shown_and_cleaned_and_the_build_stays(
    remote: Built, store: Store, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write_bytes("cache/stages/mix_speakers/of-nobody/kept.parquet", b"x")
    before = inspect_cache(store)
    assert ("tpi-train", "b") in before.builds
    assert before.unused["mix_speakers"].count == 1
    with lock_build(store, "d", "b"), pytest.raises(BuildError, match="build d/b is being made by process"):
        clean_cache(store, Cleaning())
    assert clean_cache(store, Cleaning()) >= 1
    after = inspect_cache(store)
    assert after.used == before.used
    assert not after.unused
    assert not build(make_train_config(store.uri, queries)).heard.made


CUT_OFF = """
import sys, time
from bystander.storage import remote_files

remote_files.SPOOL_BYTES = 1 << 10
upload = remote_files.Spool.upload

def upload_shards_and_stop(spool, filesystem, path, **options):
    if "/data/" not in path:
        return upload(spool, filesystem, path, **options)
    call = filesystem._call_s3

    async def call_until_the_last(method, *args, **named):
        if method == "complete_multipart_upload":
            print("uploaded", flush=True)
            time.sleep(600)
        return await call(method, *args, **named)

    filesystem._call_s3 = call_until_the_last
    upload(spool, filesystem, path, chunksize=1 << 14)

remote_files.Spool.upload = upload_shards_and_stop
from bystander.cli.main import main
sys.argv = ["bystander", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
def test_killed_while_it_uploads_a_shard(local: Built, object_store: ObjectStoreServer, queries: Path) -> None:
    """All parts of the upload are there when it is killed, but nobody has put them together."""
    store = open_store(f"s3://{object_store.make_bucket()}/store")
    config = make_train_config(store.uri, queries)
    options = ["--profile", "fake", "--out", store.uri, "--queries", str(queries), "--rows", str(ROWS), "--name", "b"]
    options += ["--set", f"stages.draw_scenarios.scenarios={json.dumps(SCENARIOS)}", "--set", "partition_rows=8"]
    options += ["--set", "report_rows=2"]
    process = subprocess.Popen(
        [sys.executable, "-c", CUT_OFF, "build", "tpi-train", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true"},
    )
    assert process.stdout is not None
    try:
        assert any(line == "uploaded\n" for line in process.stdout)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # its Prefect server, which the next run stops, keeps the other end open
    folder = store.child("tpi-train/b")
    assert folder.list() == []
    assert list_uploads(store) == 1
    again = build(config)
    assert again.outcome.manifest == read_manifest(folder)
    assert list_checksums(again.outcome.manifest) == list_checksums(local.outcome.manifest)
    assert not again.heard.made
    assert verify_build(folder) == []
    assert list_uploads(store) == 0


def list_uploads(store: Store) -> int:
    bucket = store.uri.removeprefix("s3://").split("/")[0]
    return len(store.filesystem.call_s3("list_multipart_uploads", Bucket=bucket).get("Uploads", ()))
