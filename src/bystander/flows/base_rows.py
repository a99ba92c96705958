"""The rows of the build that another one stands on, as the flows of TPI builds use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bystander.flows.tpi_harvest import RowHarvest
from bystander.schemas.config import OnTopOf, TpiConfig
from bystander.schemas.errors import BuildError, ConfigError
from bystander.storage.base_build import assert_whole, open_base, read_base_columns
from bystander.storage.build_contents import RowContents, describe_build, read_final_rows
from bystander.storage.build_manifest import BaseInfo, BuildManifest, get_code_version
from bystander.storage.filesystem import Store
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages.restore_rows import (
    PUBLISHED_TEXTS,
    Origin,
    find_origin,
    restore_checked,
    restore_voiced,
)
from bystander.tasks.stages.select_quotas import Selection

Change = Callable[[pa.Table], pa.Table]
"""What is done to CHECKED rows of the base on their way into the new build."""


@dataclass(frozen=True, slots=True)
class BaseRows:
    """All rows of the build named in `on_top_of`; their audio stays where it is until it is published."""

    folder: Store
    manifest: BuildManifest
    asked: OnTopOf
    rows: pa.Table
    """VOICED rows, in the order of the build's shards."""
    origins: dict[str, Origin]

    @classmethod
    def read(cls, asked: OnTopOf, config: TpiConfig, environment: StageEnvironment, queries: pa.Table) -> BaseRows:
        """Return the rows of a build, held against the queries (a QUERY table) and other builds of the new one.

        Raises:
            BuildError: a shard is missing or damaged, or its rows are not named as this version names them.
            ConfigError: a request of it is not among the queries, or a build of `disjoint_from` has something of it.
        """
        folder, manifest = open_base(asked.build)
        assert_whole(folder, manifest, environment.store)
        rows = read_base_columns(folder, manifest, PUBLISHED_TEXTS)
        lines = dict(zip(queries["query_id"].to_pylist(), queries["query_line"].to_pylist(), strict=True))
        # Queries that another build has are out of use already, so this comes first.
        _check_disjointness(rows, asked, config, environment)
        _check_queries(rows, set(lines), asked, config)
        draws = len(environment.taxonomy.scenarios)
        origins: dict[str, Origin] = {}
        keys = (rows[name].to_pylist() for name in ("id", "query_id", "n_speakers"))
        for row_id, query_id, speakers in zip(*keys, strict=True):
            origin = find_origin(row_id, query_id, speakers, lines[query_id], draws)
            if origin is None:
                raise BuildError(
                    f"on_top_of {asked.build}: row {row_id} is named in another way than this version of Bystander "
                    "names rows; build it again with this version"
                )
            origins[row_id] = origin
        return cls(folder, manifest, asked, restore_voiced(rows, origins), origins)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self.origins)

    @property
    def pairs(self) -> pa.Table:
        """The two-speaker rows."""
        return self.rows.filter(pc.equal(self.rows["n_speakers"], 2))

    @property
    def singles(self) -> pa.Table:
        """The hard negatives."""
        return self.rows.filter(pc.equal(self.rows["n_speakers"], 1))

    def sum_up(self, rows: pa.Table) -> pa.Table:
        """Return what planning and selection need to know of `pairs` or `singles`."""
        return rows.select(RowHarvest.SUMMARY.names)

    def find_candidates(self, candidates: pa.Table, queries: pa.Table) -> npt.NDArray[np.int64]:
        """Return the places of the rows in a CANDIDATES table of these queries."""
        at = {query_id: i for i, query_id in enumerate(queries["query_id"].to_pylist())}
        columns = zip(self.rows["query_id"].to_pylist(), self.rows["draw"].to_pylist(), strict=True)
        known = {at[query_id] * 128 + draw for query_id, draw in columns}
        keys = candidates["query"].to_numpy().astype(np.int64) * 128 + candidates["draw"].to_numpy()
        return np.flatnonzero(np.isin(keys, np.fromiter(known, np.int64)))

    def read_split(self, split: str, ids: AbstractSet[str], change: Change = lambda rows: rows) -> Iterator[pa.Table]:
        """Yield the rows of these ids in a split, with their audio, as CHECKED tables in the order of the shards."""
        if not ids:
            return
        shards = tuple(shard for shard in self.manifest.shards if shard.split == split)
        for _, rows in read_final_rows(self.folder, self.manifest.model_copy(update={"shards": shards})):
            chosen = rows.filter(pa.array([row_id in ids for row_id in rows["id"].to_pylist()], pa.bool_()))
            if len(chosen):
                yield change(restore_checked(chosen, self.origins))

    def is_all_there_is(self, selection: Selection, config: TpiConfig) -> bool:
        """Return whether a build that was to be grown from it has its rows and no other: the same content."""
        return (
            self.asked.rows == "first"
            and not selection.shortfalls
            and set(selection.ids) == self.ids
            and self.manifest.code_version == get_code_version()
            and self.manifest.config.get("shard_mib") == config.shard_mib
        )

    def describe(self, ids: AbstractSet[str]) -> BaseInfo:
        """Return what the new build's manifest says of it, given the ids of that build's rows."""
        named = describe_build(self.folder, self.manifest)
        return BaseInfo(
            **named.model_dump(), rows=self.asked.rows, rows_there=len(self.rows), rows_here=len(self.ids & ids)
        )


def _check_queries(rows: pa.Table, known: AbstractSet[str], asked: OnTopOf, config: TpiConfig) -> None:
    needed = set(rows["query_id"].to_pylist())
    missing = needed - known
    if missing:
        others = ", to which others may be added" if asked.rows == "first" else ""
        raise ConfigError(
            f"on_top_of {asked.build}: {len(missing)} of the {len(needed)} requests that its rows were made of are not "
            f"among those that can be used of {config.queries.path or 'the starter set'}; name the queries that it was "
            f"built from with --queries{others}"
        )


def _check_disjointness(rows: pa.Table, asked: OnTopOf, config: TpiConfig, environment: StageEnvironment) -> None:
    others = environment.other_builds
    if not others.builds:
        return
    by = config.stages.choose_voices.hold_out_by
    shared = [
        (row["id"], found)
        for row in rows.to_pylist()
        for found in list(others.find_shared(RowContents.of(row, others.normalise), by))[:1]
    ]
    if shared:
        row_id, (column, value) = shared[0]
        raise ConfigError(
            f"on_top_of {asked.build}: {len(shared)} of its {len(rows)} rows have something in common with a build of "
            f"disjoint_from ({column} {value} of row {row_id}, for one); leave that build out of disjoint_from, or "
            "build without on_top_of"
        )
