"""Releases of the fake builds: a dated folder each, verified before `latest` points to it, nothing twice."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.listeners import listening
from bystander.flows.release import ReleaseOutcome, foresee_release, release_build
from bystander.schemas.errors import BuildError, ConfigError, InputError
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.sid_config import SidBenchConfig
from bystander.storage.build_lock import lock_dataset
from bystander.storage.build_manifest import read_manifest
from bystander.storage.filesystem import open_store
from bystander.storage.part_use import RECORDS_FOLDER
from bystander.storage.pinned_builds import pin_builds
from bystander.storage.release_folders import read_mark
from bystander.storage.releases import Release, open_build, read_latest
from bystander.storage.verify_build import verify_build
from bystander.tasks.move_release import roll_back, set_release
from sid_builds import make_sid_config
from tpi_builds import Recorder, build_bench, make_bench_config, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

DAY = "2026-11-30"
NEXT_DAY = "2026-12-01"
DATASET = "tpi-train"
ROWS = 8


@dataclass
class Stage:
    """A store in which releases are made from the same queries. Other `report_rows` make another build of the same
    rows, for which no stage runs again."""

    store: Path
    queries: Path
    heard: Recorder = field(default_factory=Recorder)

    def release(
        self, dated: str = DAY, run: Callable[[Any], Any] | None = None, require_all: bool = False, **fields: Any
    ) -> ReleaseOutcome[Any]:
        from bystander.flows.build_tpi_train import run_build_tpi_train

        self.heard = Recorder()
        config = make_config(**{"store": self.store, "queries": self.queries, "rows": ROWS, **fields})
        with listening(self.heard):
            return release_build(config, run or run_build_tpi_train, dated, require_all=require_all)

    @property
    def latest(self) -> Release | None:
        return read_latest(open_store(self.store), DATASET)

    @property
    def builds(self) -> list[str]:
        return open_store(self.store).list_folders(DATASET)

    def state_of(self, build: str) -> str | None:
        mark = read_mark(open_store(self.store).child(DATASET, build))
        return mark and mark.state


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_queries(tmp_path_factory.mktemp("queries") / "queries.jsonl", count=20)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, queries: Path) -> tuple[Stage, ReleaseOutcome[Any]]:
    stage = Stage(tmp_path_factory.mktemp("first") / "store", queries)
    return stage, stage.release()


@pytest.fixture
def stage(first: tuple[Stage, ReleaseOutcome[Any]], tmp_path: Path) -> Stage:
    """A copy of the store with the first release."""
    shutil.copytree(first[0].store, tmp_path / "store")
    return Stage(tmp_path / "store", first[0].queries)


def test_a_first_release_is_dated_sound_and_the_latest(first: tuple[Stage, ReleaseOutcome[Any]]) -> None:
    stage, outcome = first
    assert outcome.is_new
    assert outcome.location == str(stage.store / DATASET / DAY)
    assert outcome.release == Release(build=DAY, content_digest=outcome.manifest.content_digest)
    assert outcome.summary[-1] == f"released: {DATASET}/latest is {DAY}, which was verified."
    assert stage.heard.phases[-1] == f"verifying {DAY}"
    assert stage.latest == outcome.release
    assert stage.state_of(DAY) == "released"
    assert verify_build(open_build(f"{stage.store}/{DATASET}/latest")) == []


def test_where_nothing_is_new_it_ends_in_seconds_and_says_so(stage: Stage) -> None:
    before = stage.latest
    manifest = stage.store / DATASET / DAY / "manifest.json"
    written = manifest.stat().st_mtime_ns
    began = time.process_time()
    for dated in (DAY, NEXT_DAY):
        outcome = stage.release(dated)
        assert not outcome.is_new
        assert outcome.summary[0] == f"nothing new: {DATASET}/{DAY} is made of just this; latest stays where it is."
        assert outcome.location == str(stage.store / DATASET / DAY)
        assert not stage.heard.made
    assert time.process_time() - began < 10
    assert stage.latest == before
    assert stage.builds == [DAY]
    assert manifest.stat().st_mtime_ns == written
    assert open_store(stage.store).list(RECORDS_FOLDER) == [f"{RECORDS_FOLDER}/{DATASET}/{DAY}.json"]


def test_another_spelling_of_an_address_is_nothing_new(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stage.queries.parent)
    assert not stage.release(NEXT_DAY, queries__path=stage.queries.name).is_new
    packs = resources.files("bystander.prompts") / "packs"
    assert not stage.release(NEXT_DAY, pack=str(packs / "reference")).is_new

    # The rows name the file: under another name, it makes other rows.
    renamed = stage.queries.with_name("renamed.jsonl")
    renamed.write_bytes(stage.queries.read_bytes())
    assert stage.release(NEXT_DAY, queries__path=str(renamed)).is_new


def test_a_release_is_planned_beside_the_latest_one(stage: Stage) -> None:
    from bystander.flows.build_tpi_train import foresee_build_tpi_train

    def foresee(**fields: Any) -> RebuildPlan:
        config = make_config(**{"store": stage.store, "queries": stage.queries, "rows": ROWS, **fields})
        return foresee_release(config, foresee_build_tpi_train, DAY)

    files = open_store(stage.store).list("")
    same = foresee()
    assert (same.verdict, same.build) == ("nothing_new", f"{DAY}.2")
    assert same.notes[-1] == "No release is made: one of just this is there."
    other = foresee(report_rows=3)
    assert (other.verdict, other.against, other.against_because) == ("published_anew", DAY, "the latest release")
    assert [change.field for change in other.changes] == ["report_rows"]
    assert other.notes[-1] == f"The latest release, {DAY}, is made of something else: another one is made."
    base = f"{stage.store}/{DATASET}/{DAY}"
    grown = foresee(on_top_of__build=base)
    assert (grown.verdict, grown.changes) == ("nothing_new", ())
    assert open_store(stage.store).list("") == files
    assert not stage.release(NEXT_DAY, on_top_of__build=base).is_new


def test_another_spelling_of_the_base_is_nothing_new(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = write_queries(tmp_path / stage.queries.name, count=30)
    base = f"{stage.store}/{DATASET}/{DAY}"
    grown = stage.release(NEXT_DAY, on_top_of__build=base, rows=14, queries__path=str(more))
    assert grown.is_new
    again = stage.release("2026-12-02", on_top_of__build=f"store/{DATASET}/{DAY}", rows=14, queries__path=more.name)
    assert (again.is_new, again.manifest.build) == (False, NEXT_DAY)
    assert stage.builds == [DAY, NEXT_DAY]


def test_a_second_release_of_a_day_has_a_number(stage: Stage) -> None:
    outcome = stage.release(report_rows=3)
    assert (outcome.is_new, outcome.release.build, outcome.release.previous) == (True, f"{DAY}.2", DAY)
    assert stage.release(report_rows=4).release.build == f"{DAY}.3"
    assert stage.builds == [DAY, f"{DAY}.2", f"{DAY}.3"]
    digests = {read_manifest(open_store(stage.store).child(DATASET, name)).shards[0].sha256 for name in stage.builds}
    assert len(digests) == 1  # of the names and dates, nothing is in the rows


def damage(location: str) -> None:
    shard = next(Path(location).glob("data/*.parquet"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(bytes(data))


def test_what_fails_verification_is_never_pointed_to(stage: Stage) -> None:
    from bystander.flows.build_tpi_train import run_build_tpi_train

    def run(config: Any) -> Any:
        outcome = run_build_tpi_train(config)
        damage(outcome.location)
        return outcome

    before = stage.latest
    with pytest.raises(BuildError, match=r"2026-12-01: is not released.*has checksum.*stays there to be looked at"):
        stage.release(NEXT_DAY, run, report_rows=3)
    assert stage.latest == before
    assert stage.state_of(NEXT_DAY) == "refused"
    mark = read_mark(open_store(stage.store).child(DATASET, NEXT_DAY))
    assert mark is not None
    assert "has checksum" in mark.findings[0]

    outcome = stage.release(NEXT_DAY, report_rows=3)
    assert (outcome.is_new, outcome.release.build, outcome.release.previous) == (True, f"{NEXT_DAY}.2", DAY)
    assert stage.state_of(NEXT_DAY) == "refused"


def test_what_was_refused_is_not_made_again_but_verified_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "store", write_queries(tmp_path / "queries.jsonl", count=3))
    for dated in (DAY, NEXT_DAY):
        with pytest.raises(BuildError, match="of the targets are short, and all rows were asked for"):
            stage.release(dated, require_all=True)
        assert stage.latest is None
        assert stage.builds == [DAY]
        assert stage.state_of(DAY) == "refused"
    outcome = stage.release(NEXT_DAY)
    assert (outcome.is_new, outcome.release.build) == (True, DAY)
    assert stage.state_of(DAY) == "released"


def test_what_was_killed_goes_on_in_the_same_folder(stage: Stage) -> None:
    from bystander.flows.build_tpi_train import run_build_tpi_train

    def die_at_once(_: Any) -> Any:
        raise KeyboardInterrupt

    def die_once_built(config: Any) -> Any:
        run_build_tpi_train(config)
        raise KeyboardInterrupt

    for run in (die_at_once, die_once_built):
        with pytest.raises(KeyboardInterrupt):
            stage.release(NEXT_DAY, run, report_rows=3)
        assert stage.state_of(NEXT_DAY) == "begun"
        assert stage.latest is not None
        assert stage.latest.build == DAY
    manifest = stage.store / DATASET / NEXT_DAY / "manifest.json"
    written = manifest.stat().st_mtime_ns
    outcome = stage.release(NEXT_DAY, report_rows=3)
    assert (outcome.is_new, outcome.release.build) == (True, NEXT_DAY)
    assert manifest.stat().st_mtime_ns == written
    assert stage.builds == [DAY, NEXT_DAY]


def test_one_release_of_a_dataset_at_a_time(stage: Stage) -> None:
    with (
        lock_dataset(open_store(stage.store), DATASET),
        pytest.raises(BuildError, match=r"a release of tpi-train in .* is being made by process \d+ on .*; wait"),
    ):
        stage.release(NEXT_DAY, report_rows=3)
    assert stage.builds == [DAY]
    assert stage.release(NEXT_DAY, report_rows=3).is_new


def test_a_release_that_was_taken_back_does_not_come_back_by_itself(stage: Stage) -> None:
    folder = f"{stage.store}/{DATASET}"
    stage.release(NEXT_DAY, report_rows=3)
    back = roll_back(folder)
    assert (back.build, back.previous, back.withdrawn) == (DAY, None, (NEXT_DAY,))
    again = stage.release("2026-12-02", report_rows=3)
    assert not again.is_new
    assert again.summary[0].startswith(f"nothing new: {DATASET}/{NEXT_DAY}, which was withdrawn, is made of just this")
    assert stage.latest == back
    later = stage.release("2026-12-02", report_rows=4)
    assert (later.release.previous, later.release.withdrawn) == (DAY, (NEXT_DAY,))
    assert set_release(folder, NEXT_DAY).withdrawn == ()
    with pytest.raises(BuildError, match="is the latest release already"):
        roll_back(folder, NEXT_DAY)


def test_an_unsound_build_is_not_gone_back_to(stage: Stage) -> None:
    stage.release(NEXT_DAY, report_rows=3)
    before = stage.latest
    damage(str(stage.store / DATASET / DAY))
    with pytest.raises(BuildError, match="has checksum"):
        roll_back(f"{stage.store}/{DATASET}")
    assert stage.latest == before


def test_a_damaged_release_is_made_anew(stage: Stage) -> None:
    damage(str(stage.store / DATASET / DAY))
    outcome = stage.release(NEXT_DAY)
    assert (outcome.is_new, outcome.release.build) == (True, NEXT_DAY)


@pytest.mark.parametrize(
    ("dated", "fields", "message"),
    [
        ("30.11.2026", {}, "release date '30.11.2026': write it as YYYY-MM-DD"),
        ("2026-02-30", {}, "release date '2026-02-30': write it as YYYY-MM-DD"),
        (DAY, {"build": "mine"}, "build 'mine': a release is named by its date; leave the name out"),
    ],
)
def test_wrong_dates_and_names_are_refused(
    first: tuple[Stage, ReleaseOutcome[Any]], dated: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        first[0].release(dated, **fields)


def test_a_bench_is_kept_clear_of_the_release_that_latest_is(stage: Stage) -> None:
    latest = f"{stage.store}/{DATASET}/latest"

    config = make_bench_config(stage.store, write_queries(stage.store / "all.jsonl"), rows=4, disjoint_from=[latest])
    manifest = build_bench(config).outcome.manifest
    assert [(other.build, other.uri) for other in manifest.disjoint_from] == [(DAY, f"{stage.store}/{DATASET}/{DAY}")]
    assert manifest.config["disjoint_from"] == [f"{stage.store}/{DATASET}/{DAY}"]
    stage.release(NEXT_DAY, report_rows=3)
    moved = pin_builds(config)
    assert moved.disjoint_from == (f"{stage.store}/{DATASET}/{NEXT_DAY}",)
    assert moved.build_name != manifest.build


def test_sid_builds_are_released_too(tmp_path: Path) -> None:
    from bystander.flows.build_sid_bench import run_build_sid_bench

    small = {"beginning": 1, "middle": 1, "uninterrupted": 1}
    config: SidBenchConfig = make_sid_config(tmp_path, targets__per_language=small, targets__languages=["en"])
    outcome = release_build(config, run_build_sid_bench, DAY, quick=True)
    assert (outcome.is_new, outcome.release.build, outcome.manifest.kind) == (True, DAY, "sid_bench")
    again = release_build(config, run_build_sid_bench, NEXT_DAY)
    assert not again.is_new
    assert open_store(tmp_path).list_folders("sid-bench") == [DAY]


def test_of_a_refusal_before_anything_is_written_no_folder_stays(stage: Stage) -> None:
    def refuse(config: Any) -> Any:
        raise InputError("queries.jsonl: is empty")

    def refuse_later(config: Any) -> Any:
        open_store(config.store).child(config.dataset, config.build).write_bytes("data/x.parquet", b"x")
        raise InputError("queries.jsonl: is empty")

    with pytest.raises(InputError, match="is empty"):
        stage.release(NEXT_DAY, refuse)
    assert stage.builds == [DAY]
    with pytest.raises(InputError, match="is empty"):
        stage.release(NEXT_DAY, refuse_later)
    assert (stage.builds, stage.state_of(NEXT_DAY)) == ([DAY, NEXT_DAY], "begun")
