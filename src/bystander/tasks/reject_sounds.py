"""What can be heard of a rejected row: what its file of rejects holds, or what the caches of its store still do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from bystander.schemas.engines import (
    CallCache,
    EngineIdentity,
    RowFault,
    SpeechEngine,
    SpeechReply,
    SpeechRequest,
    Voice,
)
from bystander.schemas.errors import BystanderError
from bystander.schemas.identity import derive_seed
from bystander.schemas.row_sounds import Sound, list_sounds
from bystander.storage.build_manifest import EngineInfo, ManifestBase
from bystander.storage.call_cache import SqliteCallCache, locate_call_cache
from bystander.storage.filesystem import Store
from bystander.storage.part_use import read_journeys
from bystander.storage.parts import Partition
from bystander.storage.stage_results import find_result, read_rejects
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.engines.cached import CachedSpeechEngine
from bystander.tasks.stages.synthesise_speech import NAME as SYNTHESISE
from bystander.tasks.stages.synthesise_speech import plan_tracks

_NOT_SPOKEN = "It was refused before it was spoken."
_NOT_KEPT = "It was spoken and failed. Failed speech is not kept with a build, and the store's cache does not have it."
_ELSEWHERE = "The recording lies where it came from; the store's cache does not have it."


class RejectSounds:
    """Finds the sound of a build's rejects. Threads may share it."""

    def __init__(self, build: Store, manifest: ManifestBase) -> None:
        self._manifest = manifest
        self._store = _find_store(build, manifest)
        self._recordings = lru_cache(8)(self._read_recordings)

    def find(self, row: Mapping[str, Any]) -> tuple[list[Sound], str]:
        """Return what can be heard of a rejected row, or nothing and why.

        Its clip or tracks come first. Of speech that failed its checks, each attempt is looked for among the calls that
        the store keeps. A recording that was refused whole is looked for among the stored results of stages.
        """
        sounds = list_sounds(row)
        if sounds:
            return sounds, ""
        try:
            if row["reject_stage"] == SYNTHESISE:
                return [*self._find_attempts(row)], _NOT_KEPT
            if "audio" in row:
                return self._find_recording(row), _ELSEWHERE
        except BystanderError as exc:  # a damaged cache is no reason to show nothing
            return [], f"The store's cache cannot be read: {exc}"
        return [], _NOT_SPOKEN

    def _find_attempts(self, row: Mapping[str, Any]) -> Iterator[Sound]:
        speech = self._manifest.engines.get("speech")
        if self._store is None or speech is None or not locate_call_cache(self._store).exists():
            return
        params = self._manifest.config.get("stages", {}).get(SYNTHESISE, {})
        cache = SqliteCallCache(locate_call_cache(self._store))
        try:
            engine = CachedSpeechEngine(_NoEngine(_identify(speech)), _ReadOnly(cache))
            for track in plan_tracks(0, dict(row)):
                for attempt in range(int(params.get("max_attempts", 1))):
                    seed = derive_seed(self._manifest.seed, track.row_id, SYNTHESISE, track.speaker, attempt)
                    request = SpeechRequest(track.spoken, track.voice, seed, track.language)
                    (reply,) = engine.synthesise([request])
                    if isinstance(reply, SpeechReply):
                        who = "Primary speaker" if track.speaker == "primary" else "Third party"
                        audio = encode_flac(reply.samples, reply.sampling_rate)
                        yield Sound(f"{who}, attempt {attempt + 1}", audio, track.speaker)
        finally:
            cache.close()

    def _find_recording(self, row: Mapping[str, Any]) -> list[Sound]:
        known = self._recordings(row["reject_stage"])
        key = row.get("id") or row.get("recording_id")
        found = known.get(key) if key else None
        return [Sound("Recording, as it was decoded", found)] if found else []

    def _read_recordings(self, stage: str) -> dict[str, bytes]:
        """Return the audio of the rows that a stage rejected, by their ids, from its stored results."""
        found: dict[str, bytes] = {}
        if self._store is None:
            return found
        for journey in read_journeys(self._store, self._manifest.dataset, self._manifest.build):
            before = Partition(journey.base)
            for name, fingerprint in journey.steps:
                result = find_result(self._store, name, fingerprint)
                if result is None:
                    break
                if name == stage and result.rows_rejected:
                    for row in read_rejects(self._store, before, result).to_pylist():
                        audio = row.get("audio")
                        if audio and audio["bytes"]:
                            found[row.get("id") or row["recording_id"]] = audio["bytes"]
                before = before.extend(result.kept)
        return found


class _NoEngine(SpeechEngine):
    """Has nothing to say: what is asked of it was not in the cache."""

    def __init__(self, identity: EngineIdentity) -> None:
        self._identity = identity

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def voices(self) -> Sequence[Voice]:
        return ()

    def synthesise(
        self,
        requests: Sequence[SpeechRequest],
        on_reply: Callable[[int, SpeechReply], None] | None = None,  # noqa: ARG002
    ) -> list[SpeechReply | RowFault]:
        return [RowFault("not_kept") for _ in requests]

    def close(self) -> None:
        """Nothing is open."""


class _ReadOnly:
    """A cache of calls that nothing is put into."""

    def __init__(self, cache: CallCache) -> None:
        self._cache = cache

    def get(self, key: str) -> bytes | None:
        return self._cache.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Keep nothing."""


def _identify(info: EngineInfo) -> EngineIdentity:
    return EngineIdentity(info.kind, info.name, info.model, info.revision, tuple(info.settings.items()))


def _find_store(build: Store, manifest: ManifestBase) -> Store | None:
    """Return the store that a build lies in, where it lies as `<dataset>/<build>` in one."""
    parent = build.uri.removesuffix("/").removesuffix(f"/{manifest.dataset}/{manifest.build}")
    return Store(parent) if parent and parent != build.uri.removesuffix("/") else None
