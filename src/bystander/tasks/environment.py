"""What a worker process opens once and its stage runs share: store, pack, taxonomy, engines."""

from __future__ import annotations

import atexit
import copy
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bystander.prompts.load import load_pack
from bystander.prompts.load_rubrics import load_rubrics
from bystander.prompts.pack_and_rubrics import PackAndRubrics
from bystander.schemas.engine_configs import CandidateConfig, EngineConfigs, StandInConfig
from bystander.schemas.engines import CallCache, EngineRole
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.exclusions import NO_EXCLUSIONS, Exclusions
from bystander.schemas.model_manifest import load_manifest
from bystander.schemas.packs import PromptPack
from bystander.schemas.real_world_config import RealWorldEngines
from bystander.schemas.sid_engine_configs import SidEngines
from bystander.schemas.sid_params import SidStages
from bystander.schemas.stage_job import StageJob
from bystander.schemas.stages import Params, Stage
from bystander.schemas.taxonomy import Taxonomy, load_taxonomy
from bystander.schemas.text_engine_configs import TextEngineConfig
from bystander.storage.build_contents import BuildContents, read_contents
from bystander.storage.build_manifest import ModelFileInfo
from bystander.storage.call_cache import SqliteCallCache, locate_call_cache
from bystander.storage.filesystem import Store, open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.recent_parts import RecentParts
from bystander.storage.scratch_store import ScratchStore
from bystander.storage.sid_contents import SidContents, read_sid_contents
from bystander.storage.voice_bank import open_voice_bank
from bystander.tasks.engine_use import EngineUse, UseLedger
from bystander.tasks.engines.cached import CachedCandidate, CachedRecogniser, CachedSpeechEngine, CachedTextEngine
from bystander.tasks.engines.detector_registry import computes_elsewhere, open_detector
from bystander.tasks.engines.metered_detector import ComputeTotals, MeteredDetector
from bystander.tasks.engines.registry import (
    open_aligner,
    open_candidate,
    open_decoder,
    open_recogniser,
    open_speech_engine,
    open_tagger,
    open_text_engine,
    open_vad,
    open_verifier,
)
from bystander.tasks.metrics.text_normaliser import normalise_text

_INSTANT = frozenset(
    {
        "playbook",
        "fake_text",
        "fake_speech",
        "fake_recogniser",
        "fake_verifier",
        "fake_candidate",
        "predictions",
        "stand_in",
        "rule_tagger",
    }
)
"""Engines whose calls are cheaper than a look into the cache; a stand-in's writer has its own."""


class StageEnvironment:
    """Opened resources of a job. Engines open at first use, once, and are shared by all threads."""

    def __init__(self, job: StageJob, keeps_calls: bool = True) -> None:
        """Without `keeps_calls` the store's call cache is neither read nor made: for a plan, which makes no call."""
        self.job = job
        self._keeps_calls = keeps_calls
        self.store: Store = open_store(job.store)
        self.pack: PromptPack = load_rubrics(job.rubrics) if job.rubrics else load_pack(job.pack)
        if job.beside_pack is not None:
            self.pack = PackAndRubrics(self.pack, load_rubrics(job.beside_pack))
        self.taxonomy: Taxonomy = load_taxonomy(job.taxonomy)
        self.descriptions: dict[str, dict[str, Any]] = {}
        """What decides the results of each stage described so far, by its name; kept by `run_stage`."""
        self.recent = RecentParts()
        self.assert_alone: Callable[[], None] = lambda: None
        """Raises where another process has meanwhile taken over the build; set by the flow that holds its lock."""
        self.also_published: tuple[str, ...] = ()
        """Builds of the dataset that may stand in for the one that is made, where they are made of just the same."""
        self._engines: dict[EngineRole, Any] = {}
        self._contents: BuildContents | None = None
        self._sid_contents: SidContents | None = None
        self._lock = threading.RLock()
        self._cache: SqliteCallCache | None = None
        self._uses = UseLedger()

    def over_scratch(self) -> StageEnvironment:
        """Return this environment over a store that can be written to without a trace, for a plan.

        It shares engines and descriptions with this one, which is to be closed, not the other.
        """
        other = copy.copy(self)
        other.store, other.recent = ScratchStore(self.store), RecentParts()
        return other

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

    @property
    def other_sid_builds(self) -> SidContents:
        """The same of a SID build.

        Raises:
            BuildError: one of them is not a finished SID build.
            StorageError: one cannot be read.
        """
        with self._lock:
            if self._sid_contents is None:
                self._sid_contents = read_sid_contents(self.job.disjoint_from, normalise_text)
            return self._sid_contents

    def exclusions_of(self, stage: Stage) -> Exclusions:
        """Return what a stage must keep clear of."""
        if not stage.uses_exclusions or not self.job.disjoint_from:
            return NO_EXCLUSIONS
        return self.other_sid_builds if isinstance(self.job.stages, SidStages) else self.other_builds

    def engines_of(self, stage: Stage) -> Mapping[EngineRole, Any]:
        """Return the engines that a stage needs, opening those that are not yet open."""
        filled = [r for r in stage.optional_engines if getattr(self.job.engines, r, None) is not None]
        return {role: self.engine(role) for role in (*stage.engines, *filled)}

    def engine(self, role: EngineRole) -> Any:
        """Return the engine of a role.

        Raises:
            EngineSetupError: it cannot be opened.
        """
        with self._lock:
            if role not in self._engines:
                configs = self.job.engines
                if role == "judge" and _shares_writer(configs):
                    self._engines[role] = self.engine("writer")
                elif role == "writer" and isinstance(configs, SidEngines) and configs.writer in (None, configs.tagger):
                    self._engines[role] = self.engine("tagger")
                else:
                    self._engines[role] = self._open(role)
            return self._engines[role]

    def call_counts(self) -> dict[str, dict[str, int]]:
        """Return, for each engine that keeps its calls, how many were made and how many were remembered.

        Counted are the engines open here, and what `add_use` was told of other processes.
        """
        with self._lock:
            counts = self._uses.total(self._measure_use()).calls
            return {role: {"made": made, "remembered": remembered} for role, (made, remembered) in counts.items()}

    def compute_totals(self) -> ComputeTotals | None:
        """Return what the open detector has computed, or None if none is open. A result found in the store costs none.

        It is beside the rows, never in them: it differs from run to run.
        """
        with self._lock:
            return self._uses.total(self._measure_use()).compute

    def take_use(self) -> EngineUse:
        """Return how engines were used here since the last call, to be told to another environment of the job."""
        with self._lock:
            return self._uses.take(self._measure_use())

    def add_use(self, use: EngineUse) -> None:
        """Count what another environment of the job, or this one, has returned from `take_use`."""
        with self._lock:
            self._uses.add(use)

    def _measure_use(self) -> EngineUse:
        calls: dict[str, tuple[int, int]] = {
            role: (engine.misses, engine.hits)
            for role, engine in sorted(self._engines.items())
            if hasattr(engine, "misses") and not (role == "judge" and engine is self._engines.get("writer"))
        }
        detector = self._engines.get("detector")
        return EngineUse(calls, detector.totals if isinstance(detector, MeteredDetector) else None)

    def list_model_files(self) -> tuple[ModelFileInfo, ...]:
        """Return the files of the model store that the configured engines load, for the manifest and the card."""
        manifest = load_manifest()
        configs = [getattr(self.job.engines, role) for role in type(self.job.engines).model_fields]
        configs += [config.writer for config in configs if isinstance(config, StandInConfig)]
        for config in configs:  # it grows by the detectors within detectors
            configs += [getattr(config, name) for name in ("of", "vad", "recogniser") if hasattr(config, name)]
        names = {
            config.model
            for config in configs
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
            self._uses = UseLedger()
            self.recent.clear()
            if self._cache is not None:
                self._cache.close()
                self._cache = None

    def _open(self, role: EngineRole) -> Any:
        resolve = ModelStore().resolve
        config = getattr(self.job.engines, role, None)
        if config is None:
            raise EngineSetupError(f"no engine is configured for the role {role!r}")
        if role in ("tagger", "second_tagger") or (role == "writer" and isinstance(self.job.engines, SidEngines)):
            return self._remember(CachedTextEngine, open_tagger(config, resolve, _find_model_digest), config.engine)
        if role in ("writer", "judge"):
            return self._open_text(config)
        if role == "decoder":
            return open_decoder(config)
        if role == "vad":
            return open_vad(config)
        if role in ("aligner", "second_aligner"):
            return open_aligner(config, resolve)
        if role == "candidate":
            return self._open_candidate(config)
        if role == "detector":
            clock = time.perf_counter if computes_elsewhere(config) else time.thread_time
            return MeteredDetector(open_detector(config, resolve), clock)
        if role == "speech":
            speech = open_speech_engine(config, resolve, open_voice_bank)
            return self._remember(CachedSpeechEngine, speech, config.engine)
        if role == "recogniser":
            return self._remember(CachedRecogniser, open_recogniser(config, resolve), config.engine)
        return open_verifier(config, resolve)

    def _open_text(self, config: TextEngineConfig) -> Any:
        engine = open_text_engine(config, ModelStore().resolve, _find_model_digest)
        return self._remember(CachedTextEngine, engine, config.engine)

    def _open_candidate(self, config: CandidateConfig) -> Any:
        writer = None
        if isinstance(config, StandInConfig) and config.writer is not None:
            # Kept as the job's writer: its calls are counted, and it is closed with the rest.
            writer = self._engines["writer"] = self._open_text(config.writer)
        engine = open_candidate(config, ModelStore().resolve, writer, self.pack)
        return self._remember(CachedCandidate, engine, config.engine)

    def _remember(self, cached: Callable[[Any, CallCache], Any], engine: Any, kind: str) -> Any:
        """Return the engine behind the call cache, unless it is faster than the cache."""
        return engine if kind in _INSTANT or not self._keeps_calls else cached(engine, self._open_cache())

    def _open_cache(self) -> SqliteCallCache:
        if self._cache is None:
            self._cache = SqliteCallCache(locate_call_cache(self.store))
        return self._cache


def _shares_writer(configs: Any) -> bool:
    """Whether the judge is the writer."""
    return isinstance(configs, EngineConfigs | RealWorldEngines) and configs.judge in (None, configs.writer)


def _find_model_digest(name: str) -> str | None:
    """Return the checksum of a one-file model of the manifest, which was verified when it was resolved."""
    entry = load_manifest().models.get(name)
    return entry.files[0].sha256 if entry is not None and len(entry.files) == 1 else None


@dataclass(slots=True)
class _Lent:
    """An environment that a worker process keeps open for the stage runs of one flow run."""

    environment: StageEnvironment
    devices: str | None
    users: int = 0


_environments: dict[str, StageEnvironment] = {}
"""Those that this process opened for itself, by their job."""
_lent: dict[tuple[str, str], _Lent] = {}
"""Those of a worker process, by job and run."""
_environments_lock = threading.Lock()


def open_environment(job: StageJob) -> StageEnvironment:
    """Return this process's environment of a job, opened at the first call; it is open until `close_environments`."""
    key = job.model_dump_json()
    with _environments_lock:
        if key not in _environments:
            _environments[key] = StageEnvironment(job)
        return _environments[key]


@contextmanager
def borrow_environment(job: StageJob, run: str) -> Iterator[StageEnvironment]:
    """Lend the environment of a job to a stage run of the flow run `run`, so that engines are opened once a process.

    In the flow's own process that is the one of `open_environment`. A worker process opens one itself. It keeps it for
    the next stage run, until there is one of another job or flow run, or the process was given another GPU: models
    that nobody asks any more must not fill its memory, and files may have changed between runs.
    """
    key = job.model_dump_json()
    with _environments_lock:
        own = _environments.get(key)
        if own is None:
            lent = _lend(job, (key, run))
            lent.users += 1
    if own is not None:
        yield own
        return
    try:
        yield lent.environment
    finally:
        with _environments_lock:
            lent.users -= 1


def close_environments() -> None:
    """Close every environment of this process."""
    with _environments_lock:
        for environment in (*_environments.values(), *(lent.environment for lent in _lent.values())):
            environment.close()
        _environments.clear()
        _lent.clear()


def close_lent(run: str) -> None:
    """Close what this worker process keeps open for a flow run that is over."""
    with _environments_lock:
        for key in [key for key, lent in _lent.items() if key[1] == run and not lent.users]:
            _lent.pop(key).environment.close()


def _lend(job: StageJob, key: tuple[str, str]) -> _Lent:
    if not _lent:
        atexit.unregister(close_environments)
        atexit.register(close_environments)  # the task runner ends this process without another word
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    for other in [other for other, lent in _lent.items() if not lent.users and (other, lent.devices) != (key, devices)]:
        _lent.pop(other).environment.close()
    if key not in _lent:
        _lent[key] = _Lent(StageEnvironment(job), devices)
    return _lent[key]
