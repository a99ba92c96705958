"""One build of a dataset at a time, whichever deployment makes it: the others wait for their turn.

A deployment's own concurrency limit keeps its runs apart, not those of two deployments that write the same dataset. For
those, a limit of Prefect's is kept for each dataset of a store. It makes runs wait; what makes sure that no two
processes write a dataset, on whatever server or none, is the lock in the store (`storage.build_lock`), which refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect import get_run_logger
from prefect.client.orchestration import get_client
from prefect.concurrency.sync import concurrency

from bystander.schemas.identity import digest_json

_LEASE_S = 60.0
"""So long after its process was killed, a run's turn is over. A living process renews it."""


def name_limit(store: str, dataset: str) -> str:
    """Return the name of the limit of a dataset in a store: slashes cannot be in it."""
    return f"bystander-{dataset}-{digest_json(store)[:8]}"


@contextmanager
def dataset_turn(store: str, dataset: str) -> Iterator[None]:
    """Wait until no other run writes this dataset of this store, and keep others waiting while the block runs."""
    name = name_limit(store, dataset)
    with get_client(sync_client=True) as client:
        client.upsert_global_concurrency_limit_by_name(name, 1)
        busy = client.read_global_concurrency_limit_by_name(name).active_slots > 0
    if busy:
        get_run_logger().info(
            "another run builds %s in %s: waiting for it (concurrency limit %s)", dataset, store, name
        )
    # Strict, since Prefect takes a limit that is not there for one that is free. A renewal that fails, since the server
    # is away for a moment, ends no build: the lock in the store still holds.
    with concurrency(name, occupy=1, lease_duration=_LEASE_S, strict=True, raise_on_lease_renewal_failure=False):
        yield
