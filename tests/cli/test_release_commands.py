"""`bystander release` and `publish`, the options of `build --release`, and `latest` in other commands."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bystander.cli.main import app
from bystander.schemas.errors import BuildError, BystanderError, ConfigError, InputError, UserError
from bystander.storage.filesystem import open_store
from bystander.storage.release_folders import write_mark
from bystander.storage.releases import move_latest, read_latest
from published_builds import make_build

DATASET = "tpi-train"


def call(*arguments: Any) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return int(result.return_value or result.exit_code or 0), result.output


def release(store: Path, name: str, seed: int = 0) -> None:
    folder = make_build(store, name, seed=seed)
    move_latest(open_store(store), DATASET, name, "")
    write_mark(folder, "released")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two releases, a refused build, and one that was begun."""
    store = tmp_path_factory.mktemp("released")
    release(store, "2026-11-29")
    release(store, "2026-11-30", seed=1)
    write_mark(make_build(store, "2026-11-30.2", seed=2), "refused", ["data/x.parquet: is missing."])
    write_mark(open_store(store).child(DATASET, "2026-12-01"), "begun")
    make_build(store, "mine", seed=3)
    return store


@pytest.fixture
def store(released: Path, tmp_path: Path) -> Path:
    shutil.copytree(released, tmp_path / "store")
    return tmp_path / "store"


def name_latest(store: Path) -> str:
    found = read_latest(open_store(store), DATASET)
    assert found is not None
    return found.build


def test_list_shows_what_became_of_each_build(store: Path) -> None:
    next((store / DATASET / "2026-11-29" / "data").iterdir()).unlink()
    code, output = call("release", "list", store)
    assert code == 0
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if line.startswith("│")
    ]
    assert [(row[1], row[2], row[3], row[5]) for row in rows] == [
        ("mine", "not released", "7", "whole"),
        ("2026-11-29", "released", "10", "damaged"),
        ("2026-11-30", "latest", "9", "whole"),
        ("2026-11-30.2", "refused", "8", "whole"),
        ("2026-12-01", "unfinished", "", ""),
    ]
    assert "tpi-train/2026-11-30.2 was refused: data/x.parquet: is missing." in output
    assert not (store / "cache").exists()


def test_back_and_forth(store: Path) -> None:
    _, output = call("release", "rollback", store / DATASET)
    assert output == f"{store}/{DATASET}/latest is 2026-11-29, which was verified.\nWithdrawn: 2026-11-30.\n"
    assert name_latest(store) == "2026-11-29"
    assert "withdrawn" in call("release", "list", store)[1]
    _, output = call("release", "set", store / DATASET, "mine", "--quick")
    assert output == f"{store}/{DATASET}/latest is mine, which was verified.\n"
    assert name_latest(store) == "mine"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("set", "{}/tpi-train", "nowhere"), InputError, "there is no such folder"),
        (("set", "{}/tpi-train", "2026-12-01"), BuildError, "manifest.json: is missing, so this is not a finished"),
        (("set", "{}/tpi-train", "latest"), InputError, "there is no such folder"),
        (("set", "{}/tpi-train", "../x"), InputError, "there is no such folder"),
        (("rollback", "{}/tpi-train", "--to", "2026-11-30"), BuildError, "is the latest release already"),
        (("rollback", "{}/nothing"), InputError, "there is no such folder; name a dataset's, as STORE/tpi-train"),
        (("list", "{}/tpi-train"), InputError, r"/tpi-train: is a dataset's folder; name the store: \S*/store$"),
        (("list", "{}/tpi-train/mine"), InputError, r"/mine: is a build's folder; name the store: \S*/store$"),
        (("rollback", "{}"), InputError, r"/store: is a store; name a dataset's folder: \S*/store/tpi-train$"),
        (
            ("set", "{}/tpi-train/mine/", "x"),
            InputError,
            r"/mine/: is a build's folder; name the dataset's: \S*/tpi-train$",
        ),
        (("list", "{}/nothing"), InputError, "there is no such folder; name the store that builds were written to"),
    ],
)
def test_what_cannot_be_pointed_to(
    store: Path, arguments: tuple[str, ...], error: type[BystanderError], message: str
) -> None:
    with pytest.raises(error, match=message):
        call("release", *(argument.format(store) for argument in arguments))
    assert name_latest(store) == "2026-11-30"


def test_a_damaged_pointer_is_said(store: Path) -> None:
    (store / DATASET / "latest.json").write_text("{}")
    with pytest.raises(
        BuildError, match=r"latest.json: is damaged; `bystander release set DATASET BUILD` writes it anew"
    ):
        call("verify", store / DATASET / "latest")


def test_a_damaged_pointer_hides_nothing_and_is_mended(store: Path) -> None:
    shutil.copytree(store / DATASET / "mine", store / "tpi-other" / "trial")
    move_latest(open_store(store), "tpi-other", "trial", "")
    (store / DATASET / "latest.json").write_text("{")
    result = CliRunner().invoke(app, ["release", "list", str(store)], standalone_mode=False)
    assert isinstance(result.exception, BuildError)
    assert str(result.exception).startswith(f"{store}/{DATASET}/latest.json: is damaged; `bystander release set")
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in result.output.splitlines() if "│" in line]
    assert ["tpi-other", "trial", "latest"] in rows
    assert ["tpi-train", "2026-11-30", "released"] in rows
    with pytest.raises(BuildError):
        call("release", "set", store / DATASET, "2026-12-01")  # not finished: the pointer stays as it is
    assert (store / DATASET / "latest.json").read_text() == "{"
    _, output = call("release", "set", store / DATASET, "2026-11-29")
    assert output == (
        f"{store}/{DATASET}/latest.json: was damaged and is written anew; which releases were withdrawn is lost, so a "
        f"run may make one of them again.\n{store}/{DATASET}/latest is 2026-11-29, which was verified.\n"
    )
    assert name_latest(store) == "2026-11-29"
    assert "was damaged" not in call("release", "set", store / DATASET, "2026-11-30")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--release", "--name", "mine"], "a release is named by its date; leave the name out"),
        (["--release", "--release-date", "yesterday"], "release date 'yesterday': write it as YYYY-MM-DD"),
        (["--release", "--release-date", ""], "release date '': write it as YYYY-MM-DD"),
        (["--release-date", "2026-11-30"], "--release-date: is for releases; add --release"),
        (["--quick-verify"], "--quick-verify: is for releases; add --release"),
        (["--name", "latest"], r": build: latest stands for the latest release; choose another name"),
    ],
)
@pytest.mark.parametrize("kind", ["tpi-train", "tpi-bench", "sid-bench", "sid-train"])
def test_options_of_releases(kind: str, options: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        call("build", kind, "--profile", "fake", "--out", tmp_path, *options)


def test_latest_is_followed_everywhere(store: Path, tmp_path: Path) -> None:
    latest = store / DATASET / "latest"
    assert call("verify", latest) == (0, f"{latest}: sound.\n")
    code, output = call("verify", latest, "--against", latest)
    assert (code, output.splitlines()[0]) == (2, "data: holds the same rows as tpi-train/2026-11-30.")
    with pytest.raises(BuildError, match="the rows have only 1 pairs of voices"):  # it has read them
        call("split", latest, "--name", "parts", "--out", tmp_path / "parts")
    _, output = call("evaluate", "controls", latest, "--text-only", "--profile", "fake")
    assert f"{store}/{DATASET}/2026-11-30/controls.json: written" in output
    _, output = call("publish", latest, "--to", tmp_path / "published", "--dry-run")
    assert f"{tmp_path}/published/{DATASET}/2026-11-30: would get" in output
    with pytest.raises(UserError, match="nothing was released there yet; name a build, or release one first"):
        call("verify", tmp_path / "published" / DATASET / "latest")
    with pytest.raises(ConfigError, match=r"disjoint_from .*nothing was released there yet"):
        call("build", "tpi-bench", "--profile", "fake", "--out", tmp_path / "s", "--disjoint-from", tmp_path / "latest")


def test_publish_refuses_what_is_not_sound(store: Path, tmp_path: Path) -> None:
    build = store / DATASET / "2026-11-30"
    (build / "report.html").unlink()
    with pytest.raises(BuildError, match=r"1 finding: report.html: is missing"):
        call("publish", build, "--to", tmp_path / "published")
    assert not (tmp_path / "published").exists()


def test_publish_says_what_it_did(store: Path, tmp_path: Path) -> None:
    latest, target = store / DATASET / "latest", tmp_path / "published"
    _, output = call("publish", latest, "--to", target)
    assert "data/train-00000-of-00002.parquet: writing " in output
    assert f"{target}/{DATASET}/2026-11-30: published, 5 files" in output
    _, output = call("publish", latest, "--to", target, "--no-verify")
    assert "published, 0 files (0 bytes), 5 there already." in output
    assert call("verify", target / DATASET / "latest")[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--public"], "--public: is for the hub"),
        (["--revision", "x"], "--revision: is for the hub"),
        (["--to", "hf://datasets/a/b", "--revision", "a b"], "--revision 'a b': cannot be the name of a branch"),
        (["--include", "audio"], "--include 'audio': only rejects can be included"),
    ],
)
def test_options_of_publish(store: Path, tmp_path: Path, options: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call("publish", store / DATASET / "latest", "--to", tmp_path / "published", *options)
