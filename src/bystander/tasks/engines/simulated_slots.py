"""Slots of a simulated engine, which know when they are busy: what utilisation is computed from."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Span = tuple[float, float]
"""Start and end of a piece of work in a slot: seconds of `time.monotonic`, which all processes of a machine share."""

_Reply = TypeVar("_Reply")


class SimulatedSlots:
    """Gives each piece of work its time in a slot, first come, first served; from any thread.

    What waits begins at the very moment at which a slot comes free, even if the caller looks later: what is simulated
    is another machine, which does not wait for this one's processor.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._free_at = [float("-inf")] * slots
        self._spans: list[Span] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def book(self, now_s: float, duration_s: float) -> Span:
        """Return when a piece of work that arrives now begins and ends."""
        with self._lock:
            start_s = max(now_s, heapq.heappop(self._free_at))
            span = (start_s, start_s + duration_s)
            heapq.heappush(self._free_at, span[1])
            self._spans.append(span)
        return span

    def run_batch(self, work: Callable[[int], _Reply], count: int, duration_s: float) -> list[_Reply]:
        """Do `count` pieces of work and return what each gave, in order. Each holds a slot for `duration_s`.

        `work` is called with a position when its slot would be done, in the caller's thread; at once where the
        duration is 0.
        """
        if not duration_s:
            return [work(position) for position in range(count)]
        now_s = time.monotonic()
        ends = [self.book(now_s, duration_s)[1] for _ in range(count)]
        replies = []
        for position, end_s in enumerate(ends):  # equal durations: they end in the order in which they began
            self._closed.wait(max(0.0, end_s - time.monotonic()))
            replies.append(work(position))
        return replies

    def close(self) -> None:
        """Have nobody wait any longer."""
        self._closed.set()

    @property
    def spans(self) -> list[Span]:
        """All spans given so far, in the order of their starts."""
        with self._lock:
            return list(self._spans)


def measure_busy_s(spans: Iterable[Span], start_s: float, end_s: float) -> float:
    """Return the slot-seconds of `spans` between two moments."""
    return sum(max(0.0, min(end, end_s) - max(start, start_s)) for start, end in spans)


def measure_utilisation(spans: Sequence[Span], slots: int, start_s: float, end_s: float) -> float:
    """Return the busy slot-seconds between two moments, divided by all there were: a share in [0, 1].

    Raises:
        ValueError: the end is not after the start.
    """
    if end_s <= start_s:
        raise ValueError(f"no time between {start_s} and {end_s}")
    return measure_busy_s(spans, start_s, end_s) / (slots * (end_s - start_s))


def measure_busy_together(engines: Sequence[tuple[Sequence[Span], float]], start_s: float, end_s: float) -> float:
    """Return the share of the time between two moments in which every engine was busy.

    `engines` are the spans of each, and how many of its slots must be at work for it to count as busy.

    Raises:
        ValueError: the end is not after the start.
    """
    if end_s <= start_s:
        raise ValueError(f"no time between {start_s} and {end_s}")
    moments = {start_s, end_s, *(t for spans, _ in engines for span in spans for t in span if start_s < t < end_s)}
    edges = np.array(sorted(moments))
    busy = np.ones(len(edges) - 1, bool)
    for spans, level in engines:
        busy &= _count_busy(spans, edges[:-1]) >= level
    return float(np.diff(edges)[busy].sum() / (end_s - start_s))


def _count_busy(spans: Sequence[Span], moments: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return how many spans are open right after each moment."""
    starts = np.sort([start for start, _ in spans])
    ends = np.sort([end for _, end in spans])
    return np.searchsorted(starts, moments, "right") - np.searchsorted(ends, moments, "right")
