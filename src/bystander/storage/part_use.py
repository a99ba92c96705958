"""Which stored results and base parts a build was made from: what must stay so that its next run finds all of it.

A record lies in the cache, not in the manifest: it differs with the sizes of partitions, the build does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from bystander.schemas.errors import StorageError
from bystander.schemas.training_config import TRAINED
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store
from bystander.storage.parts import Partition, PartRef
from bystander.storage.stage_results import STAGES_FOLDER, StageResult

BASES_FOLDER = "cache/bases"
"""Parts that no stage made: the rows that a partition starts with."""
RECORDS_FOLDER = "cache/builds"


@dataclass(frozen=True, slots=True)
class PartUse:
    """What a build uses, as paths in the store: folders of stage results, and base parts."""

    results: frozenset[str] = frozenset()
    bases: frozenset[str] = frozenset()

    def __or__(self, other: PartUse) -> PartUse:
        return PartUse(self.results | other.results, self.bases | other.bases)


@dataclass(frozen=True, slots=True)
class RecordedJourney:
    """The way of one partition in a finished build: what it started with, and the stages with their results."""

    base: PartRef
    steps: tuple[tuple[str, str], ...]
    """Stage and fingerprint of its result, in order."""

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(stage for stage, _ in self.steps)


def record_part_use(store: Store, dataset: str, build: str, runs: Iterable[tuple[Partition, StageResult]]) -> None:
    """Write down what a build's stage runs read and made. To be called before the build is published.

    The runs of a partition come one after another, as `Harvest.runs` has them.
    """
    results: set[str] = set()
    bases: set[str] = set()
    journeys: list[tuple[PartRef, list[tuple[str, str]]]] = []
    for before, result in runs:
        results.add(f"{STAGES_FOLDER}/{result.stage}/{result.fingerprint}")
        bases.update(ref.path for ref in (before.base, *before.layers) if ref.path.startswith(f"{BASES_FOLDER}/"))
        if not before.layers:
            journeys.append((before.base, []))
        journeys[-1][1].append((result.stage, result.fingerprint))
    record = {
        "results": sorted(results),
        "bases": sorted(bases),
        "journeys": [{"base": asdict(base), "steps": steps} for base, steps in journeys],
    }
    store.write_bytes(record_path(store, dataset, build), json.dumps(record).encode())


def read_part_use(store: Store, dataset: str, build: str) -> PartUse | None:
    """Return what a build uses, or None where that was not recorded or cannot be read."""
    try:
        record = json.loads(store.read_bytes(record_path(store, dataset, build)))
        return PartUse(frozenset(record["results"]), frozenset(record["bases"]))
    except (StorageError, ValueError, KeyError, TypeError):
        return None


def read_journeys(store: Store, dataset: str, build: str) -> list[RecordedJourney]:
    """Return the ways of a build's partitions; none where they were not recorded or cannot be read."""
    try:
        record = json.loads(store.read_bytes(record_path(store, dataset, build)))
        return [
            RecordedJourney(PartRef(**journey["base"]), tuple((stage, made) for stage, made in journey["steps"]))
            for journey in record["journeys"]
        ]
    except (StorageError, ValueError, KeyError, TypeError):
        return []


def record_path(store: Store, dataset: str, build: str) -> str:
    """Return where the record of a build lies."""
    return store.path(RECORDS_FOLDER, dataset, f"{build}.json")


def list_finished_builds(store: Store) -> list[tuple[str, str]]:
    """Return dataset and name of every finished build of a store, sorted: those that have a manifest.

    Training runs are none: they are made of no parts.
    """
    return [
        (dataset, build)
        for dataset in store.list_folders()
        if dataset not in ("cache", TRAINED)
        for build in store.list_folders(dataset)
        if store.exists(f"{dataset}/{build}/{MANIFEST_NAME}")
    ]
