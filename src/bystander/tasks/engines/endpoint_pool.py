"""Which of several servers of one model gets the next request, and which are left out because they do not answer.

All of it runs on one event loop, so nothing is locked.

A request has a home, the server on which its neighbours by prompt are: there the beginning of its prompt is computed
already. It goes home as long as home has room and is not much busier than the least busy server, else to the least
busy one. Of those that wait for room, the first whose home has some goes first; nobody waits while a server has room.

A server that cannot be reached is left out until its probe is satisfied again; meanwhile the others get its requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

_log = logging.getLogger(__name__)

_PROBE_PAUSES_S = (1.0, 2.0, 5.0, 10.0)
"""Before each look whether a server is back; the last one is repeated."""
_SLACK_SHARE = 4
"""A home may have a quarter of `limit` more in flight than the least busy server."""


@dataclass(frozen=True, slots=True)
class EndpointFault:
    """Why a server is not to be used, as the end of a sentence; `other_model` where it is well but serves another."""

    text: str
    other_model: bool = False


@dataclass(eq=False, slots=True)
class Endpoint:
    """One server, and what it does at the moment."""

    address: str
    number: int
    in_flight: int = 0
    fault: str | None = None
    """Why it is left out, as the end of a sentence; None while it is used."""
    answered: int = 0
    """Completions that it gave."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt tokens, those that it says it had computed before; not all servers say."""
    completion_tokens: int = 0


Probe = Callable[[Endpoint], Awaitable[EndpointFault | None]]
"""Returns None if a server may be used, else what is wrong with it."""


@dataclass(eq=False, slots=True)
class _Waiter:
    home: Endpoint
    turn: asyncio.Future[Endpoint | None]


class EndpointPool:
    """The servers of one model, each with at most `limit` requests in flight."""

    def __init__(
        self,
        addresses: Sequence[str],
        limit: int,
        probe: Probe,
        name: str,
        probe_pauses_s: Sequence[float] = _PROBE_PAUSES_S,
    ) -> None:
        """Take the settings; nothing is contacted. `name` is what log messages call the servers."""
        self.endpoints = [Endpoint(address, number) for number, address in enumerate(addresses)]
        self._limit = limit
        self._slack = max(1, limit // _SLACK_SHARE)
        self._probe = probe
        self._name = name
        self.probe_pauses_s = probe_pauses_s
        self._waiters: list[_Waiter] = []
        self._watches: dict[Endpoint, asyncio.Task[None]] = {}
        self._recovered = asyncio.Event()

    @property
    def usable(self) -> list[Endpoint]:
        """The servers that are not left out."""
        return [endpoint for endpoint in self.endpoints if endpoint.fault is None]

    def find_home(self, part: int, parts: int) -> int:
        """Return the number of the home of one of the parts of a batch: neighbours share one, each has its share."""
        return part * len(self.endpoints) // max(1, parts)

    async def take(self, home: int, avoid: Endpoint | None = None) -> Endpoint | None:
        """Wait for room at a server and occupy it, or return None if all are left out.

        `avoid` gets the request only if all others are left out.
        """
        preferred = self.endpoints[home % len(self.endpoints)]
        usable = self.usable
        if not usable:
            return None
        others = [endpoint for endpoint in usable if endpoint is not avoid] or usable
        free = [endpoint for endpoint in others if endpoint.in_flight < self._limit]
        if free:
            chosen = self._choose(free, preferred)
            chosen.in_flight += 1
            return chosen
        waiter = _Waiter(preferred, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled() and (given := waiter.turn.result()) is not None:
                self.put_back(given)
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def put_back(self, endpoint: Endpoint) -> None:
        """Free the room that `take` occupied."""
        endpoint.in_flight -= 1
        self._serve(endpoint)

    def leave_out(self, endpoint: Endpoint, fault: str) -> None:
        """Give a server no more requests until its probe is satisfied, which is looked at from now on."""
        if endpoint.fault is None:
            endpoint.fault = fault
            _log.warning("%s at %s is left out: %s", self._name, endpoint.address, fault)
            self._recovered.clear()
            if not self.usable:
                waiting, self._waiters = self._waiters, []
                for waiter in waiting:
                    if not waiter.turn.done():
                        waiter.turn.set_result(None)
        endpoint.fault = fault
        self._watch(endpoint, at_once=False)

    def doubt(self, endpoint: Endpoint) -> None:
        """Have a server probed in the background, and left out if the probe is not satisfied."""
        if endpoint.fault is None:
            self._watch(endpoint, at_once=True)

    async def check_all(self) -> list[EndpointFault | None]:
        """Probe all servers at once, leave out those that are not fit, and return what is wrong with each."""
        faults = await asyncio.gather(*(self._probe(endpoint) for endpoint in self.endpoints))
        for endpoint, fault in zip(self.endpoints, faults, strict=True):
            if fault is not None:
                self.leave_out(endpoint, fault.text)
        return faults

    async def look_again(self) -> None:
        """Probe those that are left out now, and use those that are well again."""
        left_out = [endpoint for endpoint in self.endpoints if endpoint.fault is not None]
        faults = await asyncio.gather(*(self._probe(endpoint) for endpoint in left_out))
        for endpoint, fault in zip(left_out, faults, strict=True):
            if fault is None:
                self._take_in(endpoint)

    async def wait_for_any(self, patience_s: float) -> bool:
        """Wait until a server is usable, at most so long; return whether one is."""
        if not self.usable:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._recovered.wait(), patience_s)
        return bool(self.usable)

    def describe_faults(self) -> str:
        """Return what is wrong with the servers that are left out, as part of a sentence."""
        return "; ".join(f"{end.address}: {end.fault}" for end in self.endpoints if end.fault is not None)

    def _choose(self, free: Sequence[Endpoint], home: Endpoint) -> Endpoint:
        count = len(self.endpoints)
        least = min(free, key=lambda end: (end.in_flight, (end.number - home.number) % count))
        return home if home in free and home.in_flight - least.in_flight <= self._slack else least

    def _serve(self, endpoint: Endpoint) -> None:
        while endpoint.fault is None and endpoint.in_flight < self._limit:
            waiting = [waiter for waiter in self._waiters if not waiter.turn.done()]
            if not waiting:
                return
            waiter = next((waiter for waiter in waiting if waiter.home is endpoint), waiting[0])
            self._waiters.remove(waiter)
            endpoint.in_flight += 1
            waiter.turn.set_result(endpoint)

    def _watch(self, endpoint: Endpoint, *, at_once: bool) -> None:
        running = self._watches.get(endpoint)
        if running is None or running.done():
            self._watches[endpoint] = asyncio.create_task(self._probe_until_well(endpoint, at_once))

    async def _probe_until_well(self, endpoint: Endpoint, at_once: bool) -> None:
        looks = 0
        while True:
            if looks or not at_once:
                await asyncio.sleep(self.probe_pauses_s[min(looks, len(self.probe_pauses_s) - 1)])
            looks += 1
            fault = await self._probe(endpoint)
            if fault is None:
                break
            self.leave_out(endpoint, fault.text)
        self._take_in(endpoint)

    def _take_in(self, endpoint: Endpoint) -> None:
        if endpoint.fault is not None:
            endpoint.fault = None
            _log.warning("%s at %s answers again", self._name, endpoint.address)
            self._recovered.set()
            self._serve(endpoint)
