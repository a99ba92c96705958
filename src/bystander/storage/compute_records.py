"""What detectors' computing took when they were last run, kept beside their stored results, which say nothing of it."""

from __future__ import annotations

from pydantic import ValidationError

from bystander.schemas.errors import StorageError
from bystander.schemas.sid_evaluation_scores import SidComputeTime
from bystander.storage.filesystem import Store

FOLDER = "cache/detector_compute"


def keep_compute_time(store: Store, identity_digest: str, compute: SidComputeTime) -> None:
    """Write down what a detector took, in place of what it took before."""
    store.write_bytes(_name(identity_digest), compute.model_dump_json().encode(), durable=False)


def find_compute_time(store: Store, identity_digest: str) -> SidComputeTime | None:
    """Return what a detector took when it was last run on this store, or None where that is not known."""
    try:
        return SidComputeTime.model_validate_json(store.read_bytes(_name(identity_digest)))
    except (StorageError, ValidationError):
        return None


def _name(identity_digest: str) -> str:
    return f"{FOLDER}/{identity_digest[:32]}.json"
