"""Several workers behind one call: each with a thread of its own, watched, started again, and left out if need be."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bystander.schemas.engines import RowFault, Samples, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError, InputError
from bystander.tasks.engines.speech_jobs import JobQueue, SpeechCall, SpeechJob
from bystander.tasks.engines.speech_worker_client import SpeechWorkerClient, SpeechWorkerLostError
from bystander.tasks.engines.speech_worker_process import WorkerSource
from bystander.workers.speech.protocol import Frame, Hello, SpeakRequest, make_voice_key

_log = logging.getLogger(__name__)
_MAX_STRIKES = 2
"""Workers that a request may kill before it is given up."""

ReadReference = Callable[[str], tuple[Samples, int]]


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """How the workers are used."""

    settings: dict[str, Any]
    hello: Hello
    """What each of them has to say of its model."""
    batch_size: int
    max_restarts: int
    max_memory_mib: float | None


@dataclass(slots=True, eq=False)
class _Slot:
    """One worker's place: the client while it runs, and the voices that this process of it can speak in."""

    number: int
    source: WorkerSource
    client: SpeechWorkerClient | None = None
    known: set[str] = field(default_factory=set)
    deaths: int = 0
    """In a row, without a clip between."""


class SpeechWorkerPool:
    """Hands requests to workers, which start when the first come. Calls may come from several threads at once."""

    def __init__(self, sources: Sequence[WorkerSource], rules: WorkerRules, read_reference: ReadReference) -> None:
        self._slots = [_Slot(number, source) for number, source in enumerate(sources)]
        self._rules = rules
        self._read_reference = read_reference
        self._jobs = JobQueue()
        self._lock = threading.Lock()
        self._bank_lock = threading.Lock()
        self._keys: dict[str, str] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._closed = False
        self.restarts = 0
        """Workers that were started again, be it after a death or for their memory."""

    def speak(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None
    ) -> list[SpeechReply | RowFault]:
        """Return one reply or fault a request, in order. `on_reply` is called from the workers' threads.

        Raises:
            EngineSetupError: the workers' model, settings or environment is wrong.
            EngineUnavailableError: every worker died `max_restarts` times in a row and more.
        """
        if not requests:
            return []
        call = SpeechCall(len(requests), on_reply)
        with self._lock:
            if self._closed:
                raise EngineSetupError("the speech engine was closed and cannot be called again")
            self._start_threads()
            self._jobs.put(SpeechJob(call, index, request) for index, request in enumerate(requests))
        try:
            return call.wait()
        except BaseException as exc:
            call.fail(exc)  # workers that hold some of its jobs let go of them
            self._jobs.drop(call)
            raise

    def close(self) -> None:
        """Kill the workers that were started here; a second call does nothing."""
        with self._lock:
            self._closed = True
            threads = list(self._threads.values())
        self._jobs.close()
        for slot in self._slots:
            slot.source.close()
            if (client := slot.client) is not None:
                client.hang_up()
        for thread in threads:
            thread.join()
        _fail_all(self._jobs.drop_all(), EngineSetupError("the speech engine was closed"))

    def _start_threads(self) -> None:
        for slot in self._slots:
            if slot.number not in self._threads:
                # A worker that was left out has a new chance with the next call.
                slot.deaths = 0
                self._jobs.join(slot.number)
                name = f"speech-{slot.number}"
                thread = threading.Thread(target=self._serve, args=(slot,), name=name, daemon=True)
                self._threads[slot.number] = thread
                thread.start()

    def _serve(self, slot: _Slot) -> None:
        """Do jobs with one worker until the pool is closed or the worker is left out."""
        while jobs := self._jobs.take(slot.number, self._rules.batch_size):
            pending = [job for job in jobs if not job.call.failed]
            if not pending:
                continue
            try:
                self._serve_batch(slot, pending)
            except SpeechWorkerLostError as exc:
                if self._closed:
                    _fail_all(pending, EngineSetupError("the speech engine was closed"))
                elif self._leave(slot, pending, exc):
                    break
            except EngineSetupError as exc:
                # What is wrong is wrong for all: no later batch would fare better.
                slot.source.discard()
                slot.client = None
                _fail_all([*pending, *self._jobs.drop_all()], exc)
            except BaseException as exc:  # a bug of ours must not leave callers waiting
                _fail_all(pending, exc)

    def _serve_batch(self, slot: _Slot, pending: list[SpeechJob]) -> None:
        """Have jobs spoken. `pending` shrinks as they are answered."""
        client = self._open(slot)
        keys = self._prepare(slot, client, pending)
        if not pending:
            return
        batch = list(pending)
        running: list[SpeechJob] = []

        def keep(frame: Frame) -> None:
            job = batch[int(frame.head["index"])]
            running.clear()
            if frame.head.get("state") == "started":
                running.append(job)
                return
            reply = _read_reply(frame)
            if isinstance(reply, RowFault) and reply.reason == "unknown_voice":
                slot.known.discard(keys[job.request.voice])
                job.forgotten += 1
                if job.forgotten < _MAX_STRIKES:
                    return  # it stays pending, and the next round prepares the voice again
            slot.deaths = 0 if isinstance(reply, SpeechReply) else slot.deaths
            pending.remove(job)
            job.answer(reply)

        sent = [
            SpeakRequest(index, job.request.text, keys[job.request.voice], job.request.language, job.request.seed)
            for index, job in enumerate(batch)
        ]
        try:
            memory_mib = client.speak(sent, self._rules.settings, keep)
        except SpeechWorkerLostError as exc:
            self._strike(running, pending, exc)
            raise
        if pending:
            self._jobs.give_back(pending)
        self._bound_memory(slot, memory_mib)

    def _open(self, slot: _Slot) -> SpeechWorkerClient:
        if slot.client is not None:
            return slot.client
        slot.known.clear()
        client = slot.source.open()
        hello = client.hello()
        if hello != self._rules.hello:
            raise EngineSetupError(
                f"speech worker {slot.source.name} has another model: {hello}, not {self._rules.hello}"
            )
        limit = self._rules.max_memory_mib
        if limit is not None and (taken := client.measure_memory_mib()) > limit:
            raise EngineSetupError(
                f"max_worker_memory_mib is {limit:g}, but a worker takes {taken:.0f} MiB with its model loaded"
            )
        slot.client = client
        return client

    def _prepare(self, slot: _Slot, client: SpeechWorkerClient, pending: list[SpeechJob]) -> dict[str, str]:
        """Have the voices of jobs prepared and return their keys; jobs whose voice cannot be had are answered."""
        keys: dict[str, str] = {}
        for voice in dict.fromkeys(job.request.voice for job in pending):
            jobs = [job for job in pending if job.request.voice == voice]
            try:
                found = self._prepare_voice(slot, client, voice)
            except SpeechWorkerLostError as exc:
                self._strike(jobs, pending, exc)
                raise
            if isinstance(found, str):
                keys[voice] = found
                continue
            for job in jobs:
                pending.remove(job)
                job.answer(found)
        return keys

    def _prepare_voice(self, slot: _Slot, client: SpeechWorkerClient, voice: str) -> str | RowFault:
        key = self._keys.get(voice)
        if key is not None and key in slot.known:
            return key
        clip: tuple[Samples, int] | None = None
        try:
            if key is None:
                clip = self._read_clip(voice)
                key = self._keys[voice] = make_voice_key(*clip)
            if not client.knows_voice(key):
                fault = client.prepare_voice(key, *(clip or self._read_clip(voice)))
                if fault is not None:
                    return RowFault(fault.reason, f"voice {voice}: {fault.detail}")
        except InputError as exc:
            return RowFault("unreadable_reference", f"voice {voice}: {exc}")
        slot.known.add(key)
        return key

    def _read_clip(self, voice: str) -> tuple[Samples, int]:
        with self._bank_lock:
            return self._read_reference(voice)

    def _strike(self, guilty: list[SpeechJob], pending: list[SpeechJob], exc: SpeechWorkerLostError) -> None:
        """Count a worker's death against the jobs that it was at, and give up those that killed too many."""
        for job in guilty:
            job.strikes += 1
            if job.strikes >= _MAX_STRIKES and not self._closed:
                pending.remove(job)
                job.answer(RowFault("speech_worker_died", f"{job.strikes} workers died of it; {exc}"))

    def _leave(self, slot: _Slot, pending: list[SpeechJob], exc: SpeechWorkerLostError) -> bool:
        """Clean up after a death; return whether this worker is left out from now on."""
        slot.source.discard()
        slot.client = None
        slot.deaths += 1
        _log.warning("%s (death %d in a row)", exc, slot.deaths)
        if slot.deaths <= self._rules.max_restarts:
            self.restarts += 1
            self._jobs.give_back(pending)
            return False
        with self._lock:  # against a call that counts on this worker
            del self._threads[slot.number]
            self._jobs.leave(slot.number)
            if self._threads:
                self._jobs.give_back(pending)
            else:
                _fail_all(
                    [*pending, *self._jobs.drop_all()], EngineUnavailableError(f"no speech worker is left: {exc}")
                )
        return True

    def _bound_memory(self, slot: _Slot, memory_mib: float) -> None:
        limit = self._rules.max_memory_mib
        if limit is not None and memory_mib > limit and slot.source.can_restart:
            _log.info(
                "speech worker %s takes %.0f MiB, %.0f at most: started again", slot.source.name, memory_mib, limit
            )
            slot.source.discard()
            slot.client = None
            self.restarts += 1


def _fail_all(jobs: Sequence[SpeechJob], error: BaseException) -> None:
    for job in jobs:
        job.call.fail(error)


def _read_reply(frame: Frame) -> SpeechReply | RowFault:
    head = frame.head
    if head.get("state") == "spoken" and frame.samples is not None:
        samples = np.clip(frame.samples, -1, 1).astype(np.float32, copy=False)
        return SpeechReply(samples, int(head["sampling_rate"]))
    return RowFault(str(head.get("reason", "synthesis_failed")), str(head.get("detail", "")))
