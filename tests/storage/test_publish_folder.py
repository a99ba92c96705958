"""Publishing to a folder: whole or not there, checked on the way, gone on with, and pointed to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bystander.schemas.errors import BuildError, InputError
from bystander.storage.build_manifest import MANIFEST_NAME, read_manifest
from bystander.storage.filesystem import Store, open_store
from bystander.storage.part_use import list_finished_builds
from bystander.storage.publish_folder import check_folder, publish_to_folder
from bystander.storage.published_files import PublishStep, describe_published_build
from bystander.storage.releases import open_build, read_latest
from bystander.storage.verify_build import verify_build
from published_builds import make_build

NAME = "2026-11-30"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make_build(tmp_path_factory.mktemp("store"), NAME, shards=3)


def read_place(folder: str | Path, name: str = NAME) -> dict[str, bytes]:
    place = open_store(folder).child("tpi-train", name)
    return {path: place.read_bytes(path) for path in place.list()}


def list_expected(build: Store, rejects: bool = False) -> dict[str, bytes]:
    files = describe_published_build(build, ("rejects",) if rejects else ()).files
    return {file.path: file.content or build.read_bytes(file.path) for file in files}


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("remote", [False, True])
def test_the_copy_is_the_build_byte_for_byte_and_sound(build: Store, tmp_path: Path, remote: bool) -> None:
    folder = "memory://published-folder" if remote else str(tmp_path)
    done = publish_to_folder(build, folder)
    assert read_place(folder) == list_expected(build)
    assert not any(path.startswith("rejects/") for path in read_place(folder))
    assert (done.count("put"), done.count("keep"), done.bytes_put) == (
        6,
        0,
        sum(map(len, list_expected(build).values())),
    )
    assert done.notes == (f"tpi-train/latest is {NAME}.",)
    copy = open_build(f"{folder}/tpi-train/latest")
    assert copy.uri == open_store(folder).child("tpi-train", NAME).uri
    assert read_manifest(copy).rejects_left_out
    assert verify_build(copy) == []
    assert list_finished_builds(open_store(folder)) == [("tpi-train", NAME)]


def test_rejects_go_along_where_they_are_asked_for_and_go_again(build: Store, tmp_path: Path) -> None:
    publish_to_folder(build, str(tmp_path), ("rejects",))
    assert read_place(tmp_path) == list_expected(build, rejects=True)
    assert (tmp_path / "tpi-train" / NAME / MANIFEST_NAME).read_bytes() == build.read_bytes(MANIFEST_NAME)
    assert verify_build(tmp_path / "tpi-train" / NAME) == []
    done = publish_to_folder(build, str(tmp_path))
    assert (done.count("put"), done.count("delete")) == (1, 2)
    assert read_place(tmp_path) == list_expected(build)
    with pytest.raises(BuildError, match="has no rejects, since it was published without them"):
        publish_to_folder(open_build(f"{tmp_path}/tpi-train/latest"), str(tmp_path / "further"), ("rejects",))


def test_what_was_interrupted_goes_on(build: Store, tmp_path: Path) -> None:
    def die_at_the_third(step: PublishStep) -> None:
        if step.path.startswith("data/train-00002"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish_to_folder(build, str(tmp_path), on_file=die_at_the_third)
    assert sorted(read_place(tmp_path)) == ["data/train-00000-of-00003.parquet", "data/train-00001-of-00003.parquet"]
    assert read_latest(open_store(tmp_path), "tpi-train") is None
    flip_a_byte(tmp_path / "tpi-train" / NAME / "data/train-00001-of-00003.parquet")
    done = publish_to_folder(build, str(tmp_path))
    assert [step.path for step in done.steps if step.action == "keep"] == ["data/train-00000-of-00003.parquet"]
    assert read_place(tmp_path) == list_expected(build)


def test_a_second_time_nothing_is_written(build: Store, tmp_path: Path) -> None:
    publish_to_folder(build, str(tmp_path))
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "tpi-train" / NAME).rglob("*")}
    done = publish_to_folder(build, str(tmp_path))
    assert (done.count("put"), done.count("keep")) == (0, 6)
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_a_copy_that_was_damaged_is_mended(build: Store, tmp_path: Path) -> None:
    publish_to_folder(build, str(tmp_path))
    place = tmp_path / "tpi-train" / NAME
    flip_a_byte(place / "data/train-00001-of-00003.parquet")
    (place / "data/train-00000-of-00009.parquet").write_bytes(b"of an earlier try")
    done = publish_to_folder(build, str(tmp_path))
    assert [(step.action, step.path) for step in done.steps if step.action != "keep"] == [
        ("delete", "data/train-00000-of-00009.parquet"),
        ("put", "data/train-00001-of-00003.parquet"),
        ("put", MANIFEST_NAME),
    ]
    assert verify_build(place) == []


def test_the_next_release_lies_beside_it(build: Store, tmp_path: Path) -> None:
    publish_to_folder(build, str(tmp_path))
    done = publish_to_folder(make_build(tmp_path / "store", "2026-12-01", seed=1), str(tmp_path))
    assert done.notes == (f"tpi-train/latest is 2026-12-01, was {NAME}.",)
    latest = read_latest(open_store(tmp_path), "tpi-train")
    assert latest is not None
    assert (latest.build, latest.previous) == ("2026-12-01", NAME)
    assert read_place(tmp_path) == list_expected(build)


def test_a_dry_run_writes_nothing(build: Store, tmp_path: Path) -> None:
    done = publish_to_folder(build, str(tmp_path / "there"), dry_run=True)
    assert done.count("put") == 6
    assert done.notes == (f"tpi-train/latest would be {NAME}.",)
    assert not (tmp_path / "there").exists()


def test_a_shard_that_is_not_what_the_manifest_says_is_not_copied(build: Store, tmp_path: Path) -> None:
    broken = tmp_path / "tpi-train" / NAME
    shutil.copytree(build.uri, broken)
    flip_a_byte(broken / "data/train-00002-of-00003.parquet")
    with pytest.raises(BuildError, match=r"train-00002-of-00003.parquet: is not what the manifest says"):
        publish_to_folder(open_store(broken), str(tmp_path / "there"))
    assert sorted(read_place(tmp_path / "there")) == [
        "data/train-00000-of-00003.parquet",
        "data/train-00001-of-00003.parquet",
    ]
    assert read_latest(open_store(tmp_path / "there"), "tpi-train") is None


def test_another_build_of_the_name_is_not_written_over(build: Store, tmp_path: Path) -> None:
    publish_to_folder(build, str(tmp_path))
    with pytest.raises(BuildError, match="another build lies there, under the same name"):
        publish_to_folder(make_build(tmp_path / "store", NAME, seed=1), str(tmp_path))
    assert read_place(tmp_path) == list_expected(build)


def test_the_store_of_the_build_and_unfinished_builds_are_refused(build: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is the store that the build lies in; name another folder"):
        publish_to_folder(build, build.uri.removesuffix(f"/tpi-train/{NAME}"))
    with pytest.raises(BuildError, match="is missing, so this is not a finished build"):
        publish_to_folder(open_store(tmp_path / "nothing"), str(tmp_path / "there"))


def test_what_cannot_be_written_to_is_said_before_anything_is(build: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for dry_run in (False, True):
        with pytest.raises(InputError, match=r"^\S*/file: is a file; name a folder to publish to$"):
            publish_to_folder(build, str(tmp_path / "file"), dry_run=dry_run)
        with pytest.raises(InputError, match=r"^\S*/file: is a file; name a folder to publish to$"):
            publish_to_folder(build, str(tmp_path / "file" / "below"), dry_run=dry_run)
    assert (tmp_path / "file").read_text() == "mine"
    if Path("/proc/self").exists():
        with pytest.raises(InputError, match=r"^/proc/published: cannot be written to \(.*\); name another folder"):
            publish_to_folder(build, "/proc/published")


def test_a_check_leaves_nothing(tmp_path: Path) -> None:
    check_folder(str(tmp_path / "a" / "b"))
    assert [*tmp_path.iterdir()] == []
    check_folder("memory://checked/a", write=True)
    assert open_store("memory://checked").list_sizes(temporary=True) == {}


def test_a_damaged_pointer_at_the_place_is_written_anew(build: Store, tmp_path: Path) -> None:
    publish_to_folder(build, str(tmp_path))
    pointer = tmp_path / "tpi-train" / "latest.json"
    pointer.write_text("{")
    assert publish_to_folder(build, str(tmp_path), dry_run=True).notes == (
        f"tpi-train/latest would be {NAME}; latest.json, which is damaged, would be written anew.",
    )
    assert pointer.read_text() == "{"
    done = publish_to_folder(build, str(tmp_path))
    assert done.notes == (f"tpi-train/latest is {NAME}; latest.json, which is damaged, is written anew.",)
    found = read_latest(open_store(tmp_path), "tpi-train")
    assert found is not None
    assert (found.build, found.withdrawn) == (NAME, ())
