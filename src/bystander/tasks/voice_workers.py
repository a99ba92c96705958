"""Indexing speakers side by side: in processes, because most of the work is Python's and numpy's."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for_process
from typing import Any

from bystander.schemas.engines import SpeakerVerifier
from bystander.schemas.errors import EngineError
from bystander.schemas.identity import digest_json
from bystander.schemas.recordings import AudioDecoder
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.schemas.voice_bank_config import IndexVoicesConfig
from bystander.storage.filesystem import Store, open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.speaker_parts import read_speaker_part, write_speaker_part
from bystander.storage.voice_folders import list_folder_clips
from bystander.storage.voice_sources import SourceClip, SourceSpeaker
from bystander.tasks.engines.registry import open_decoder, open_verifier
from bystander.tasks.index_speaker import index_speaker

WAITING_A_WORKER = 4
"""Speakers that are handed to a worker before it asks for more."""


@dataclass(frozen=True, slots=True)
class SpeakerTask:
    """A speaker to be indexed, as plain data.

    `clips` are there for a table, whose rows were copied out; those of a folder are listed by the worker. `clips_found`
    and `marks` are a table's too: how many clips the speaker has, and what stands for those in the key.
    """

    speaker: SourceSpeaker
    stated: dict[str, str]
    """Language, licence and source of the voice."""
    recipe: str
    """Digest of the settings and engines."""
    clips: tuple[SourceClip, ...] | None = None
    clips_found: int = 0
    marks: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class SpeakerDone:
    """A speaker's part by key, and whether it had been there before."""

    voice: str
    key: str
    has_voice: bool
    reused: bool
    ignored: dict[str, int] = field(default_factory=dict)


class SpeakerWorker:
    """What a process opens once: the bank's store and both engines."""

    def __init__(self, config: IndexVoicesConfig, store: Store) -> None:
        self._settings = config.index
        self._store = store
        self.decoder: AudioDecoder = open_decoder(FileDecoderConfig(max_duration_s=config.index.max_file_s))
        self.verifier: SpeakerVerifier = open_verifier(config.verifier, ModelStore().resolve)

    def run(self, task: SpeakerTask) -> SpeakerDone:
        """Index a speaker, or find that it was done before.

        Raises:
            InputError: the speaker's folder cannot be listed.
            EngineError: the decoder or the verifier failed as a whole.
            StorageError: the part cannot be written.
        """
        clips, ignored, key = list_task(task)
        before = read_speaker_part(self._store, key)
        if before is not None:
            return SpeakerDone(task.speaker.voice, key, len(before[0]) > 0, True, ignored)
        found = index_speaker(task.speaker, clips, self._settings, self.decoder, self.verifier)
        total = max(found.clips_found, task.clips_found)
        row = None if found.row is None else {**found.row, **task.stated, "clips_found": total}
        facts = {"rejects": found.rejects, "clips_found": total, "clips_read": found.clips_read}
        write_speaker_part(self._store, key, row, facts)
        return SpeakerDone(task.speaker.voice, key, row is not None, False, ignored)

    def close(self) -> None:
        """Close the engines."""
        self.decoder.close()
        self.verifier.close()


def list_task(task: SpeakerTask) -> tuple[list[SourceClip], dict[str, int], str]:
    """Return a speaker's clips, the files beside them that are no audio, and the key of all that decides the part.

    Raises:
        InputError: the speaker's folder cannot be listed.
    """
    clips, ignored = list_folder_clips(task.speaker) if task.clips is None else (list(task.clips), {})
    marks = task.marks or tuple((clip.name, clip.size) for clip in clips)
    speaker = task.speaker
    said = [speaker.voice, speaker.speaker, list(speaker.subsets), speaker.gender, sorted(task.stated.items())]
    return clips, ignored, digest_json([task.recipe, said, task.clips_found, [list(mark) for mark in marks]])


def run_tasks(config: IndexVoicesConfig, store: Store, tasks: Iterable[SpeakerTask]) -> Iterator[SpeakerDone]:
    """Yield what became of each speaker as it is done, in any order. One worker works in this process.

    Raises:
        EngineError: a worker died, or an engine failed as a whole; what was done is kept.
        InputError, StorageError: as `SpeakerWorker.run`.
    """
    if config.workers == 1:
        worker = SpeakerWorker(config, store)
        try:
            yield from map(worker.run, tasks)
        finally:
            worker.close()
        return
    context = multiprocessing.get_context("spawn")  # forked, onnxruntime's and Arrow's threads would be missing
    start = (config.model_dump_json(), store.uri)
    with ProcessPoolExecutor(config.workers, context, _start_worker, start) as pool:
        try:
            yield from _stream(pool.submit, tasks, config.workers * WAITING_A_WORKER)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _stream(
    submit: Callable[..., Future[SpeakerDone]], tasks: Iterable[SpeakerTask], most: int
) -> Iterator[SpeakerDone]:
    running: dict[Future[SpeakerDone], str] = {}
    waiting = iter(tasks)
    ended = False
    ready: deque[SpeakerDone] = deque()
    while running or not ended:
        while not ended and len(running) < most:
            task = next(waiting, None)
            if task is None:
                ended = True
            else:
                running[submit(_run_task, task)] = task.speaker.voice
        if not running:
            break
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            try:
                ready.append(future.result())
            except BrokenProcessPool as exc:
                names = ", ".join(sorted(running.values()))
                raise EngineError(
                    f"a worker process died over one of these speakers: {names}; the same command goes on from there, "
                    "with --workers 1 it shows which one"
                ) from exc
            del running[future]
        while ready:
            yield ready.popleft()


_worker: SpeakerWorker | None = None


def _start_worker(config: str, uri: str) -> None:
    global _worker
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)  # there is a process for each core
    threading.Thread(target=_follow_parent, daemon=True).start()
    settings = IndexVoicesConfig.model_validate_json(config)
    _worker = SpeakerWorker(settings, open_store(uri))


def _run_task(task: SpeakerTask) -> SpeakerDone:
    assert _worker is not None
    return _worker.run(task)


def _follow_parent() -> None:
    """End this process with the one that started it, however that ends: it might not have told the pool."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_process([parent.sentinel])
        os._exit(1)
