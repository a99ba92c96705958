"""Datasets, stores and builds are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.schemas.errors import InputError
from bystander.storage.dataset_folders import assert_is_dataset, assert_is_store
from bystander.storage.filesystem import open_store


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("store/d", "store/d: is a dataset's folder; name the store: store"),
        ("./store/d/", "./store/d/: is a dataset's folder; name the store: ./store"),
        ("store/d/a", "store/d/a: is a build's folder; name the store: store"),
        ("store/begun/a", "store/begun/a: is a build's folder; name the store: store"),
        ("store", None),
        ("store/", None),
        (".", None),
        ("nothing", None),
    ],
)
def test_what_is_taken_for_a_store(
    folder: str, message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("d/a/manifest.json", "begun/a/release.json", "voices/manifest.json", "evaluations/x/manifest.json"):
        open_store("store").write_bytes(path, b"{}")
    if message is None:
        assert_is_store(open_store(folder), folder)
        return
    with pytest.raises(InputError) as caught:
        assert_is_store(open_store(folder), folder)
    assert str(caught.value) == message


def test_the_folder_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path).write_bytes("store/d/a/manifest.json", b"{}")
    monkeypatch.chdir(tmp_path / "store" / "d")
    with pytest.raises(InputError, match=r"^\.: is a dataset's folder; name the store: \./\.\.$"):
        assert_is_store(open_store("."), ".")


def test_what_is_taken_for_a_dataset(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.write_bytes("store/d/a/manifest.json", b"{}")
    store.write_bytes("store/evaluations/x/manifest.json", b"{}")
    with pytest.raises(InputError, match=r"^out/store: is a store; name a dataset's folder: out/store/d$"):
        assert_is_dataset(store, "store", "out/store")
    with pytest.raises(InputError, match=r"^s/d/a: is a build's folder; name the dataset's: s/d$"):
        assert_is_dataset(store.child("store", "d"), "a", "s/d/a")
    assert_is_dataset(store.child("store"), "d", "store/d")
