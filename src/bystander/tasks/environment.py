"""What a worker process opens once and its stage runs share: store, pack, taxonomy, engines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiConfig
from bystander.schemas.engine_configs import EngineConfigs
from bystander.schemas.engines import CallCache, EngineRole
from bystander.schemas.exclusions import NO_EXCLUSIONS, Exclusions
from bystander.schemas.model_manifest import load_manifest
from bystander.schemas.packs import PromptPack
from bystander.schemas.stages import Params, Stage
from bystander.schemas.taxonomy import Taxonomy, load_taxonomy
from bystander.schemas.tpi_params import TpiStages
from bystander.storage.build_contents import BuildContents, read_contents
from bystander.storage.build_manifest import ModelFileInfo
from bystander.storage.call_cache import SqliteCallCache, locate_call_cache
from bystander.storage.filesystem import Store, open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.recent_parts import RecentParts
from bystander.tasks.engines.cached import CachedRecogniser, CachedSpeechEngine, CachedTextEngine
from bystander.tasks.engines.registry import open_recogniser, open_speech_engine, open_text_engine, open_verifier
from bystander.tasks.metrics.text_normaliser import normalise_text

_INSTANT = frozenset({"playbook", "fake_text", "fake_speech", "fake_recogniser", "fake_verifier"})
"""Engines whose calls are cheaper than a look into the cache."""


class StageJob(Params):
    """All that a worker needs to run any stage of a build: plain data, sent with every task."""

    store: str
    build_seed: int
    pack: str
    taxonomy: str | None
    disjoint_from: tuple[str, ...] = ()
    stages: TpiStages
    engines: EngineConfigs

    @classmethod
    def of(cls, config: TpiConfig) -> StageJob:
        """Return the job of a build."""
        return cls(
            store=config.store,
            build_seed=config.seed,
            pack=config.pack,
            taxonomy=config.taxonomy,
            disjoint_from=config.disjoint_from,
            stages=config.stages,
            engines=config.engines,
        )


class StageEnvironment:
    """Opened resources of a job. Engines open at first use, once, and are shared by all threads."""

    def __init__(self, job: StageJob) -> None:
        self.job = job
        self.store: Store = open_store(job.store)
        self.pack: PromptPack = load_pack(job.pack)
        self.taxonomy: Taxonomy = load_taxonomy(job.taxonomy)
        self.descriptions: dict[str, dict[str, Any]] = {}
        """What decides the results of each stage described so far, by its name; kept by `run_stage`."""
        self.recent = RecentParts()
        self._engines: dict[EngineRole, Any] = {}
        self._contents: BuildContents | None = None
        self._lock = threading.RLock()
        self._cache: SqliteCallCache | None = None

    def params_of(self, stage: Stage) -> Params:
        """Return a stage's settings."""
        params = Params() if stage.params_type is Params else getattr(self.job.stages, stage.name)
        assert isinstance(params, stage.params_type)
        return params

    @property
    def other_builds(self) -> BuildContents:
        """What the builds use with which this one must share nothing, read at first use.

        Raises:
            BuildError: one of them is not a finished build.
            StorageError: one cannot be read.
        """
        with self._lock:
            if self._contents is None:
                self._contents = read_contents(self.job.disjoint_from, normalise_text)
            return self._contents

    def exclusions_of(self, stage: Stage) -> Exclusions:
        """Return what a stage must keep clear of."""
        return self.other_builds if stage.uses_exclusions and self.job.disjoint_from else NO_EXCLUSIONS

    def engines_of(self, stage: Stage) -> Mapping[EngineRole, Any]:
        """Return the engines that a stage needs, opening those that are not yet open."""
        return {role: self.engine(role) for role in stage.engines}

    def engine(self, role: EngineRole) -> Any:
        """Return the engine of a role.

        Raises:
            EngineSetupError: it cannot be opened.
        """
        with self._lock:
            if role not in self._engines:
                if role == "judge" and self.job.engines.judge in (None, self.job.engines.writer):
                    self._engines[role] = self.engine("writer")
                else:
                    self._engines[role] = self._open(role)
            return self._engines[role]

    def call_counts(self) -> dict[str, dict[str, int]]:
        """Return, for each open engine that keeps its calls, how many were made and how many were remembered."""
        with self._lock:
            return {
                role: {"made": engine.misses, "remembered": engine.hits}
                for role, engine in sorted(self._engines.items())
                if hasattr(engine, "misses") and not (role == "judge" and engine is self._engines.get("writer"))
            }

    def list_model_files(self) -> tuple[ModelFileInfo, ...]:
        """Return the files of the model store that the configured engines load, for the manifest and the card."""
        manifest = load_manifest()
        configs = self.job.engines
        names = {
            config.model
            for config in (configs.writer, configs.judge, configs.speech, configs.recogniser, configs.verifier)
            if config is not None and hasattr(config, "model") and config.model in manifest.models
        }
        return tuple(
            ModelFileInfo(
                name=f"{name}/{file.path}",
                bytes=file.bytes,
                sha256=file.sha256,
                licence=manifest.models[name].licence,
                sources=manifest.models[name].source_names,
            )
            for name in sorted(names)
            for file in manifest.models[name].files
        )

    def close(self) -> None:
        """Close all open engines and the call cache."""
        with self._lock:
            for engine in {id(engine): engine for engine in self._engines.values()}.values():
                engine.close()
            self._engines.clear()
            self.recent.clear()
            if self._cache is not None:
                self._cache.close()
                self._cache = None

    def _open(self, role: EngineRole) -> Any:
        resolve = ModelStore().resolve
        configs = self.job.engines
        if role in ("writer", "judge"):
            text = configs.writer if role == "writer" or configs.judge is None else configs.judge
            return self._remember(CachedTextEngine, open_text_engine(text, resolve, _find_model_digest), text.engine)
        if role == "speech":
            return self._remember(
                CachedSpeechEngine, open_speech_engine(configs.speech, resolve), configs.speech.engine
            )
        if role == "recogniser":
            recogniser = open_recogniser(configs.recogniser, resolve)
            return self._remember(CachedRecogniser, recogniser, configs.recogniser.engine)
        return open_verifier(configs.verifier, resolve)

    def _remember(self, cached: Callable[[Any, CallCache], Any], engine: Any, kind: str) -> Any:
        """Return the engine behind the call cache, unless it is faster than the cache."""
        return engine if kind in _INSTANT else cached(engine, self._open_cache())

    def _open_cache(self) -> SqliteCallCache:
        if self._cache is None:
            self._cache = SqliteCallCache(locate_call_cache(self.store))
        return self._cache


def _find_model_digest(name: str) -> str | None:
    """Return the checksum of a one-file model of the manifest, which was verified when it was resolved."""
    entry = load_manifest().models.get(name)
    return entry.files[0].sha256 if entry is not None and len(entry.files) == 1 else None


_environments: dict[str, StageEnvironment] = {}
_environments_lock = threading.Lock()


def open_environment(job: StageJob) -> StageEnvironment:
    """Return this process's environment of a job, opened at the first call."""
    key = job.model_dump_json()
    with _environments_lock:
        if key not in _environments:
            _environments[key] = StageEnvironment(job)
        return _environments[key]


def close_environments() -> None:
    """Close every environment of this process."""
    with _environments_lock:
        for environment in _environments.values():
            environment.close()
        _environments.clear()
