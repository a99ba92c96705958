from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.engines.endpoint_pool import Endpoint, EndpointFault, EndpointPool
from bystander.tasks.engines.endpoint_probe import find_other_models, locate_health
from bystander.tasks.engines.request_retries import pause_before_retry

T = TypeVar("T")


class Health:
    """Stands in for the servers' own pages: which of them are well."""

    def __init__(self) -> None:
        self.ill: set[int] = set()
        self.looks = 0

    async def probe(self, endpoint: Endpoint) -> EndpointFault | None:
        self.looks += 1
        return EndpointFault("it is ill") if endpoint.number in self.ill else None


def make_pool(count: int, limit: int, health: Health | None = None) -> EndpointPool:
    addresses = [f"http://host{number}/v1" for number in range(count)]
    return EndpointPool(addresses, limit, (health or Health()).probe, "text engine", probe_pauses_s=(0.001,))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def take_numbers(pool: EndpointPool, homes: Sequence[int]) -> list[int]:
    taken = [await pool.take(home) for home in homes]
    return [endpoint.number for endpoint in taken if endpoint is not None]


def test_a_request_goes_home():
    assert run(take_numbers(make_pool(3, 8), [2, 0, 1, 2])) == [2, 0, 1, 2]


def test_a_home_that_is_much_busier_than_another_is_left():
    # A quarter of the limit more than the least busy is as much as a home may have.
    assert run(take_numbers(make_pool(2, 8), [0] * 8)) == [0, 0, 0, 1, 0, 1, 0, 1]


def test_homes_of_a_batch_are_runs_of_like_length():
    pool = make_pool(3, 4)
    assert [pool.find_home(part, 6) for part in range(6)] == [0, 0, 1, 1, 2, 2]
    assert pool.find_home(0, 0) == 0


@given(st.integers(1, 5), st.integers(1, 4), st.lists(st.integers(0, 4), max_size=40), st.randoms())
def test_limits_hold_and_nobody_waits_while_there_is_room(count, limit, homes, order):
    async def act() -> None:
        pool = make_pool(count, limit)
        tasks = [asyncio.create_task(pool.take(home)) for home in homes]
        held: list[Endpoint] = []
        given: set[int] = set()
        while len(given) < len(tasks):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for number, task in enumerate(tasks):
                if task.done() and number not in given:
                    given.add(number)
                    endpoint = task.result()
                    assert endpoint is not None
                    held.append(endpoint)
            assert all(0 <= endpoint.in_flight <= limit for endpoint in pool.endpoints)
            assert len(held) == min(count * limit, len(tasks) - (len(given) - len(held)))
            if held:
                pool.put_back(held.pop(order.randrange(len(held))))
        for endpoint in held:
            pool.put_back(endpoint)
        assert all(endpoint.in_flight == 0 for endpoint in pool.endpoints)

    run(act())


def test_room_goes_first_to_one_who_is_at_home_there():
    async def act() -> list[int]:
        pool = make_pool(2, 1)
        first, second = await pool.take(0), await pool.take(1)
        assert first is not None
        assert second is not None
        at_zero, at_one = asyncio.create_task(pool.take(0)), asyncio.create_task(pool.take(1))
        await asyncio.sleep(0)
        pool.put_back(second)
        await asyncio.sleep(0)
        assert (at_zero.done(), at_one.done()) == (False, True)
        stranger = asyncio.create_task(pool.take(1))
        pool.put_back(first)
        return [end.number for end in (await at_zero, await at_one) if end is not None] + [int(stranger.done())]

    assert run(act()) == [0, 1, 0]


def test_one_who_gave_up_waiting_holds_nothing():
    async def act() -> int:
        pool = make_pool(1, 1)
        held = await pool.take(0)
        assert held is not None
        waiting = asyncio.create_task(pool.take(0))
        await asyncio.sleep(0)
        pool.put_back(held)  # handed over at once
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return pool.endpoints[0].in_flight

    assert run(act()) == 0


def test_one_that_is_left_out_gets_nothing_until_it_is_well(caplog):
    async def act() -> None:
        health = Health()
        pool = make_pool(2, 4, health)
        health.ill = {0}
        pool.leave_out(pool.endpoints[0], "connection refused")
        assert await take_numbers(pool, [0, 0]) == [1, 1]
        assert pool.describe_faults() == "http://host0/v1: connection refused"
        while health.looks < 3:
            await asyncio.sleep(0.001)
        assert pool.usable == [pool.endpoints[1]]
        health.ill = set()
        while pool.endpoints[0].fault is not None:
            await asyncio.sleep(0.001)
        assert await take_numbers(pool, [0]) == [0]

    run(act())
    assert "text engine at http://host0/v1 is left out: connection refused" in caplog.text
    assert "text engine at http://host0/v1 answers again" in caplog.text
    assert caplog.text.count("is left out") == 1


def test_those_who_wait_hear_that_all_are_lost_and_that_one_is_back():
    async def act() -> None:
        health = Health()
        pool = make_pool(1, 1, health)
        assert await pool.take(0) is not None
        waiting = asyncio.create_task(pool.take(0))
        await asyncio.sleep(0)
        health.ill = {0}
        pool.leave_out(pool.endpoints[0], "gone")
        assert await waiting is None
        assert await pool.take(0) is None
        assert not await pool.wait_for_any(0.01)
        health.ill = set()
        assert await pool.wait_for_any(5.0)

    run(act())


def test_a_doubted_one_is_left_out_only_if_it_is_ill():
    async def act() -> None:
        health = Health()
        pool = make_pool(2, 1, health)
        for number in (0, 1):
            pool.doubt(pool.endpoints[number])
        while health.looks < 2:
            await asyncio.sleep(0)
        assert len(pool.usable) == 2
        health.ill = {1}
        pool.doubt(pool.endpoints[1])
        while len(pool.usable) == 2:
            await asyncio.sleep(0)
        assert pool.usable == [pool.endpoints[0]]

    run(act())


def test_one_to_avoid_is_taken_where_there_is_no_other():
    async def act() -> list[int]:
        pool = make_pool(2, 1)
        zero, one = pool.endpoints
        first = await pool.take(0, avoid=zero)
        pool.leave_out(one, "gone")
        second = await pool.take(0, avoid=zero)
        return [end.number for end in (first, second) if end is not None]

    assert run(act()) == [1, 0]


def test_check_all_says_what_is_wrong_with_each():
    async def act() -> list[EndpointFault | None]:
        health = Health()
        health.ill = {1}
        pool = make_pool(3, 1, health)
        faults = await pool.check_all()
        assert [endpoint.number for endpoint in pool.usable] == [0, 2]
        return faults

    assert run(act()) == [None, EndpointFault("it is ill"), None]


def test_one_that_is_well_again_can_be_taken_in_at_once():
    async def act() -> None:
        health = Health()
        pool = make_pool(2, 1, health)
        pool.probe_pauses_s = (600.0,)
        for endpoint in pool.endpoints:
            pool.leave_out(endpoint, "gone")
        health.ill = {1}
        await pool.look_again()
        assert pool.usable == [pool.endpoints[0]]

    run(act())


def test_pauses_grow_and_differ_by_the_seed():
    assert [pause_before_retry(tries) for tries in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert 0.375 < pause_before_retry(0, seed=255) < pause_before_retry(0, seed=1) < 0.5


@pytest.mark.parametrize(
    ("listing", "fault"),
    [
        ({"data": [{"id": "m"}, {"id": "n"}]}, None),
        ({"data": [{"id": "n"}, {"id": "a"}]}, "it serves a, n, not 'm'"),
        ({"data": [{"id": f"n{i}"} for i in range(7)]}, "it serves n0, n1, n2, n3, n4 and 2 more, not 'm'"),
        ({"data": [{"id": "/models/some.gguf", "owned_by": "llamacpp"}]}, None),  # answers to any name
        ({"data": []}, None),
        ({"data": "x"}, None),
        ({"data": [3, {"id": 3}]}, None),
        ([], None),
        ("It works!", None),
        (None, None),
    ],
)
def test_models_that_a_server_lists(listing, fault):
    assert find_other_models(listing, "m") == fault


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("http://h:8000/v1", "http://h:8000/health"),
        ("http://h:8000/v1/", "http://h:8000/health"),
        ("https://h/gateway/v1?x=1", "https://h/gateway/health"),
        ("http://h", "http://h/health"),
    ],
)
def test_health_page_is_beside_the_api(address, page):
    assert locate_health(address) == page
