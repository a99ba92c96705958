"""Requests that wait for a worker, handed out so that a voice stays with one worker while loads allow it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bystander.schemas.engines import RowFault, SpeechReply, SpeechRequest


class SpeechCall:
    """One call of the engine: its replies as they come, from any thread."""

    def __init__(self, size: int, on_reply: Callable[[int, SpeechReply], None] | None) -> None:
        self._replies: list[SpeechReply | RowFault | None] = [None] * size
        self._missing = size
        self._on_reply = on_reply
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def failed(self) -> bool:
        """Whether nobody waits for more replies."""
        return self._error is not None

    def answer(self, index: int, reply: SpeechReply | RowFault) -> None:
        """Keep a reply, once."""
        with self._changed:
            if self._replies[index] is not None or self._error is not None:
                return
            self._replies[index] = reply
        if self._on_reply is not None and isinstance(reply, SpeechReply):
            try:
                self._on_reply(index, reply)
            except BaseException as exc:  # the caller's, so it is the caller who has to see it
                self.fail(exc)
        with self._changed:
            self._missing -= 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """End the call by an error."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def wait(self) -> list[SpeechReply | RowFault]:
        """Return all replies in order, or raise what the call failed with."""
        with self._changed:
            self._changed.wait_for(lambda: self._missing == 0 or self._error is not None)
            if self._error is not None:
                raise self._error
            return [reply for reply in self._replies if reply is not None]


@dataclass(slots=True, eq=False)
class SpeechJob:
    """One request of a call. `strikes` counts the workers that died of it, `forgotten` those that lost its voice."""

    call: SpeechCall
    index: int
    request: SpeechRequest
    strikes: int = 0
    forgotten: int = 0

    def answer(self, reply: SpeechReply | RowFault) -> None:
        self.call.answer(self.index, reply)


class JobQueue:
    """Jobs by voice. Every voice belongs to the worker that had it last; a worker without jobs takes others' voices."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[SpeechJob]] = {}
        self._owners: dict[str, int] = {}
        self._workers: set[int] = set()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, jobs: Iterable[SpeechJob]) -> None:
        """Add jobs behind the others of their voices."""
        with self._changed:
            for job in jobs:
                self._waiting.setdefault(job.request.voice, deque()).append(job)
            self._changed.notify_all()

    def give_back(self, jobs: Sequence[SpeechJob]) -> None:
        """Return jobs that a worker took but did not do; they come first again."""
        with self._changed:
            for job in reversed(jobs):
                self._waiting.setdefault(job.request.voice, deque()).appendleft(job)
            self._changed.notify_all()

    def take(self, worker: int, limit: int) -> list[SpeechJob]:
        """Wait for jobs and return at most `limit`, voices together; nothing once the queue is closed or `worker` left.

        A worker takes its own voices first, then those that have no owner, and only where there are none the largest
        group of another's. It leaves the others their share of what is waiting.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or worker not in self._workers or self._waiting)
            if self._closed or worker not in self._workers:
                return []
            waiting = sum(len(group) for group in self._waiting.values())
            limit = max(1, min(limit, -(-waiting // len(self._workers))))
            taken: list[SpeechJob] = []
            mine = [voice for voice in self._waiting if self._owners.get(voice) == worker]
            free = [voice for voice in self._waiting if self._owners.get(voice) not in self._workers]
            for voice in [*mine, *free]:
                if len(taken) < limit:
                    self._take_voice(voice, worker, limit, taken)
            if not taken:
                largest = max(self._waiting, key=lambda voice: len(self._waiting[voice]))
                self._take_voice(largest, worker, limit, taken)
            return taken

    def join(self, worker: int) -> None:
        """Count a worker among those that share the jobs."""
        with self._changed:
            self._workers.add(worker)

    def leave(self, worker: int) -> None:
        """Leave the jobs to the other workers."""
        with self._changed:
            self._workers.discard(worker)
            self._changed.notify_all()

    def drop(self, call: SpeechCall) -> None:
        """Remove the jobs of a call."""
        with self._changed:
            kept = {
                voice: deque(job for job in group if job.call is not call) for voice, group in self._waiting.items()
            }
            self._waiting = {voice: group for voice, group in kept.items() if group}

    def drop_all(self) -> list[SpeechJob]:
        """Remove all jobs and return them."""
        with self._changed:
            dropped = [job for group in self._waiting.values() for job in group]
            self._waiting.clear()
            return dropped

    def close(self) -> None:
        """Send every worker home."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take_voice(self, voice: str, worker: int, limit: int, taken: list[SpeechJob]) -> None:
        group = self._waiting[voice]
        while group and len(taken) < limit:
            taken.append(group.popleft())
        if not group:
            del self._waiting[voice]
        self._owners[voice] = worker
