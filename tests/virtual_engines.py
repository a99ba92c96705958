"""Engines and a clock that exist only in numbers, under the real scheduler of partitions: exact, and in no time.

A model server has slots and takes requests as `OpenAiTextEngine` sends them: each call in lanes, all calls together at
most `max_in_flight` at once. Voices have workers and are sent batches of tracks, each of which is then listened to, as
`synthesise_speech` does. What a stage does besides takes `OVERHEAD_S`.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from bystander.flows import partition_stream
from bystander.flows.listeners import SilentListener
from bystander.schemas.stages import Stage, split_rows
from bystander.tasks.engines.simulated_slots import Span, measure_busy_together, measure_utilisation
from bystander.tasks.run_stage import report_stage
from toy_stages import NUMBERS, ToyEnvironment, ToyParams, make_partition

OVERHEAD_S = 0.3
BATCH_TRACKS = 128

Then = Callable[[], None]


@dataclass(frozen=True)
class Shape:
    """Capacities, and what a row costs."""

    slots: int = 64
    max_in_flight: int = 128
    write_s: float = 2.0
    """A request that writes; one that chooses among options takes a seventh of it."""
    voices: int = 16
    speak_s: float = 1.0
    listeners: int = 2
    listen_s: float = 0.05


class VirtualClock:
    """Runs what is due, in order, whenever somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Then]] = []
        self._numbers = itertools.count()

    def call_in(self, delay_s: float, then: Then) -> None:
        heapq.heappush(self._due, (self.now + delay_s, next(self._numbers), then))

    def step(self) -> None:
        self.now, _, then = heapq.heappop(self._due)
        then()


class VirtualSlots:
    """Work, first come, first served, in a fixed number of slots."""

    def __init__(self, clock: VirtualClock, slots: int) -> None:
        self.slots = slots
        self.spans: list[Span] = []
        self._clock = clock
        self._busy = 0
        self._waiting: deque[tuple[float, Then]] = deque()

    def work(self, duration_s: float, then: Then) -> None:
        self._waiting.append((duration_s, then))
        self._start()

    def _start(self) -> None:
        while self._waiting and self._busy < self.slots:
            duration_s, then = self._waiting.popleft()
            self._busy += 1
            self.spans.append((self._clock.now, self._clock.now + duration_s))

            def end(then: Then = then) -> None:
                self._busy -= 1
                then()
                self._start()

            self._clock.call_in(duration_s, end)


class VirtualServer:
    """A model server, and the client before it."""

    def __init__(self, clock: VirtualClock, shape: Shape) -> None:
        self.server = VirtualSlots(clock, shape.slots)
        self._free = shape.max_in_flight
        self._lanes = shape.max_in_flight
        self._waiting: deque[Then] = deque()

    def call(self, durations: Sequence[float], then: Then) -> None:
        """Have all requests of a call answered."""
        left = deque(durations)
        open_requests = len(left)

        def take() -> None:
            nonlocal open_requests
            if not left:
                self._release()
                return

            def end() -> None:
                nonlocal open_requests
                open_requests -= 1
                self._release()
                self._acquire(take)
                if not open_requests:
                    then()

            self.server.work(left.popleft(), end)

        for _ in range(min(self._lanes, len(left))):
            self._acquire(take)

    def _acquire(self, then: Then) -> None:
        if self._free:
            self._free -= 1
            then()
        else:
            self._waiting.append(then)

    def _release(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1


@dataclass
class VirtualBuild:
    """What a build of so many partitions did to its engines."""

    llm: VirtualSlots
    voices: VirtualSlots
    finished: dict[str, list[float]] = field(default_factory=dict)
    """When each stage was done, by stage."""

    def measure_llm(self) -> float:
        """Return the share of its slots that the model server had at work while there was a partition to write."""
        return measure_utilisation(self.llm.spans, self.llm.slots, 0.0, self.finished["write"][-1])

    def measure_voices(self) -> float:
        """Return the same of the voices, from their first clip until two partitions were left."""
        end_s = self.finished["speak"][-3]
        return measure_utilisation(self.voices.spans, self.voices.slots, self.voices.spans[0][0], end_s)

    def measure_together(self, share: float) -> float:
        """Return in which share of that time both had this share of their slots at work."""
        engines = [(e.spans, share * e.slots) for e in (self.llm, self.voices)]
        return measure_busy_together(engines, self.voices.spans[0][0], self.finished["write"][-1])


def run_virtual_build(
    folder: Path,
    shape: Shape,
    limits: Mapping[Any, int],
    patch: Callable[[Any, str, Any], None],
    partitions: int = 24,
    rows: int = 128,
    workers: int = 16,
) -> VirtualBuild:
    """Send partitions through stages like those of a TPI build. `patch` sets an attribute until the test ends."""
    clock = VirtualClock()
    text = VirtualServer(clock, shape)
    voices, listeners = VirtualSlots(clock, shape.voices), VirtualSlots(clock, shape.listeners)
    build = VirtualBuild(text.server, voices)
    costs = random.Random(7)

    def ask(share: float, mean_s: float) -> Callable[[int, Then], None]:
        def run(count: int, then: Then) -> None:
            text.call([mean_s * costs.uniform(0.7, 1.3) for _ in range(round(share * count))], then)

        return run

    def speak(count: int, then: Then) -> None:
        tracks = 2 * count

        def speak_batch(done: int) -> None:
            if done == tracks:
                then()
                return
            size = min(BATCH_TRACKS, tracks - done)
            _work_all(
                voices, [shape.speak_s * costs.uniform(0.7, 1.3) for _ in range(size)], lambda: listen(done, size)
            )

        def listen(done: int, size: int) -> None:
            _work_all(listeners, [shape.listen_s] * size, lambda: speak_batch(done + size))

        speak_batch(0)

    choose_s = shape.write_s / 7
    chain: list[tuple[str, tuple[Any, ...], Callable[[int, Then], None]]] = [
        ("write", ("writer",), ask(1.1, shape.write_s)),
        ("realism", ("judge",), ask(1, choose_s)),
        ("label", ("judge",), ask(1.5, choose_s)),
        ("reply", ("writer",), ask(1.1, shape.write_s)),
        ("ambiguity", ("judge",), ask(1, choose_s)),
        ("speak", ("speech", "recogniser"), speak),
        ("mix", (), lambda count, then: clock.call_in(0.01 * count, then)),
    ]
    stages = [_make_stage(name, roles) for name, roles, _ in chain]
    work = {name: run for name, _, run in chain}
    environment: Any = ToyEnvironment(folder)

    class Waiting:
        """Stands in for the queue on which the scheduler waits: time goes on just then."""

        def __init__(self) -> None:
            self._items: deque[Any] = deque()

        def put(self, item: Any) -> None:
            self._items.append(item)

        def get(self, timeout: float | None = None) -> Any:
            assert timeout is None
            while not self._items:
                clock.step()
            return self._items.popleft()

    patch(partition_stream, "queue", SimpleNamespace(SimpleQueue=Waiting, Empty=queue.Empty))

    def submit(stage: str, _name: str, partition: Any, _job: Any) -> Any:
        callbacks: list[Callable[[Any], None]] = []
        position = next(i for i, item in enumerate(stages) if item.name == stage)
        handle = SimpleNamespace(
            result=lambda raise_on_failure=True: report_stage(stages[position], partition, environment),
            add_done_callback=callbacks.append,
        )

        def end() -> None:
            build.finished.setdefault(stage, []).append(clock.now)
            for call in callbacks:
                call(handle)

        clock.call_in(OVERHEAD_S, lambda: work[stage](rows, end))
        return handle

    parts = {f"p{number}": make_partition(environment.store, f"p{number}", [number]) for number in range(partitions)}
    partition_stream.stream_partitions(parts, stages, environment, SilentListener(), limits, workers, submit, ())
    return build


def _work_all(slots: VirtualSlots, durations: Sequence[float], then: Then) -> None:
    left = len(durations)

    def end() -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    for duration_s in durations:
        slots.work(duration_s, end)


def _make_stage(name: str, roles: tuple[Any, ...]) -> Stage:
    """Return a stage that adds a column of its name, so that each reads what the last one wrote."""
    schema = pa.schema([*NUMBERS, pa.field(name, pa.int64(), nullable=False)])

    def run(rows: pa.Table, _context: Any) -> Any:
        return split_rows(name, rows, [{name: n} for n in rows["n"].to_pylist()], schema)

    return replace(Stage(name, 1, NUMBERS, schema, frozenset(), run, ToyParams, uses=("id", "n")), engines=roles)
