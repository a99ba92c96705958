"""Publishes a TPI build: shards, rejects, report, card, and the manifest last."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.config import TpiConfig
from bystander.schemas.engine_configs import BUILD_ROLES
from bystander.schemas.errors import StageContractError
from bystander.schemas.identity import digest_json
from bystander.schemas.tpi import CHECKED, FINAL
from bystander.storage.build_contents import COLUMNS, RowContents
from bystander.storage.build_manifest import (
    BaseInfo,
    BuildKind,
    BuildManifest,
    EngineInfo,
    PackInfo,
    Quota,
    RowCounter,
    ShardInfo,
    TaxonomyInfo,
    VoicesDisjointBy,
    get_code_version,
    list_package_versions,
    write_manifest,
)
from bystander.storage.control_section import CONTROLS_NAME
from bystander.storage.dataset_card import write_card
from bystander.storage.file_stamps import stamp_files
from bystander.storage.published import find_published_build
from bystander.storage.shards import ShardWriter
from bystander.tasks.build_rejects import SetAside, StageRuns, write_rejects
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.report_tpi import write_report
from bystander.tasks.stage_description import describe_stages
from bystander.tasks.stages.finalise_rows import finalise_rows

SELECTION = "select_quotas"
"""Name under which rows that no quota had room for stand among the rejects."""
TEXT_SELECTION = "select_texts"
"""Name under which rows that were never spoken, because no quota had room for them, stand among the rejects."""


@dataclass(slots=True)
class TpiRows:
    """What is to be published. The iterators yield CHECKED tables in plan order, and are read once.

    Plan order is that of a hash of seed and query (see `enumerate_candidates`), so scenarios, labels and timings lie
    mixed in every shard. A shuffle of its own would have to hold every partition's audio at once.

    The tracks may come without their audio: rows that no quota had room for keep their mixture, as published ones do.
    """

    splits: Mapping[str, Iterator[pa.Table]]
    """The rows of each split."""
    set_aside: Sequence[SetAside]
    twins: Mapping[str, str]
    """For each selected hard negative whose two-speaker row is selected too, that row."""
    lone: frozenset[str] = frozenset()
    """Selected hard negatives whose two-speaker row is not."""


def digest_content(
    config: TpiConfig,
    environment: StageEnvironment,
    runs: StageRuns,
    ids: Sequence[str],
    on_top_of: BaseInfo | None = None,
) -> str:
    """Return a digest of all that a build's files are made from: settings, engines, stage results, selection, code.

    Of the build that it stands on, the rows count, wherever they lie.
    """
    engines = {role: environment.engine(role).identity.describe() for role in BUILD_ROLES}
    texts = [environment.pack.digest, environment.taxonomy.digest(), environment.other_builds.digest]
    versions = [get_code_version(), list_package_versions(), FINAL.names]
    settings = [config.content_digest(), config.report_rows, engines, texts]
    base = [on_top_of.rows_digest] if on_top_of is not None else []
    return digest_json([settings, runs.digest(), sorted(ids), versions, *base])


def find_published(config: TpiConfig, environment: StageEnvironment, content_digest: str) -> BuildManifest | None:
    """Return the manifest of the build, or of one that may stand in for it, if it was published from the same content
    and its files are what it says."""
    builds = (config.build_name, *environment.also_published)
    return find_published_build(environment.store, config.dataset, builds, BuildManifest, content_digest)


def publish_tpi(
    config: TpiConfig,
    environment: StageEnvironment,
    rows: TpiRows,
    runs: StageRuns,
    quotas: Sequence[Quota],
    content_digest: str,
    kind: BuildKind,
    on_top_of: BaseInfo | None = None,
    base_fingerprints: Mapping[str, dict[str, Any]] | None = None,
) -> BuildManifest:
    """Write a build's folder and return its manifest, which is written last: without one the build is unfinished.

    `base_fingerprints` are those of the build that it stands on: they hold for stages that were not run here.

    Raises:
        CorruptPartError: a part that is to be published is damaged; nothing new is published then.
        StageContractError: a row has something in common with a build of `disjoint_from`.
    """
    store = environment.store.child(config.dataset, config.build_name)
    store.remove("manifest.json")
    store.remove(CONTROLS_NAME)  # of the rows that were here
    store.remove_temporaries()  # of a run that was killed here
    sampling_rate = config.stages.mix_speakers.sampling_rate
    engines: dict[str, EngineInfo] = {
        role: EngineInfo(**environment.engine(role).identity.describe()) for role in BUILD_ROLES
    }
    described = {role: info.model_dump() for role, info in engines.items()}
    counter = RowCounter()
    shards: list[ShardInfo] = []
    for split, batches in rows.splits.items():
        with ShardWriter(
            store, "data", split, FINAL, sampling_rate=sampling_rate, shard_mib=config.shard_mib
        ) as writer:
            for batch in batches:
                final = finalise_rows(batch, split, config.seed, described, environment.pack, rows.twins, rows.lone)
                _assert_disjoint(final, environment, config.stages.choose_voices.hold_out_by)
                counter.add(final)
                writer.write(final)
        shards += writer.shards
    rejects, stages = write_rejects(store, environment.store, runs, rows.set_aside, sampling_rate)
    manifest = BuildManifest(
        dataset=config.dataset,
        build=config.build_name,
        kind=kind,
        content_digest=content_digest,
        seed=config.seed,
        config=config.model_dump(mode="json"),
        code_version=get_code_version(),
        packages=list_package_versions(),
        pack=PackInfo(
            name=environment.pack.name,
            digest=environment.pack.digest,
            classes={item.key: tuple(kind.key for kind in item.kinds) for item in environment.pack.classes},
        ),
        taxonomy=TaxonomyInfo(
            name=environment.taxonomy.name,
            digest=environment.taxonomy.digest(),
            scenarios={item.key: item.category for item in environment.taxonomy.scenarios},
        ),
        engines=engines,
        models=environment.list_model_files(),
        sampling_rate=sampling_rate,
        stages=tuple(stages),
        fingerprints={**(base_fingerprints or {}), **describe_stages(runs.names(), environment)},
        quotas=tuple(quotas),
        disjoint_from=tuple(environment.other_builds.builds),
        voices_disjoint_by=config.stages.choose_voices.hold_out_by,
        on_top_of=on_top_of,
        counts=counter.finish(),
        shards=tuple(shards),
        rejects=tuple(rejects),
    )
    write_report(store, manifest, config.report_rows)
    write_card(store, manifest)
    environment.assert_alone()
    write_manifest(store, manifest)
    stamp_files(environment.store, config.dataset, config.build_name, (*manifest.shards, *manifest.rejects))
    return manifest


def _assert_disjoint(final: pa.Table, environment: StageEnvironment, by: VoicesDisjointBy) -> None:
    others = environment.other_builds
    if not others.builds:
        return
    for row in final.select(COLUMNS).to_pylist():
        for column, shared in others.find_shared(RowContents.of(row, others.normalise), by):
            raise StageContractError(f"row {row['id']}: {column} {shared} is in a build of `disjoint_from` too")


def interleave(
    pairs: Iterator[pa.Table], n_pairs: int, singles: Iterator[pa.Table], n_singles: int
) -> Iterator[pa.Table]:
    """Spread the hard negatives evenly among the pairs, each in its own order, whatever the sizes of the tables.

    Row i of n lies at (i + 0.5) / n of the whole; on a tie the pair comes first.
    """
    waiting = CHECKED.empty_table()
    i = j = 0
    for table in pairs:
        order: list[int] = []
        needed = 0
        for k in range(len(table)):
            while j + needed < n_singles and (2 * (j + needed) + 1) * n_pairs < (2 * (i + k) + 1) * n_singles:
                order.append(len(table) + needed)
                needed += 1
            order.append(k)
        while len(waiting) < needed:
            waiting = pa.concat_tables([waiting, next(singles)])
        yield _take_runs(pa.concat_tables([table, waiting.slice(0, needed)]), order)
        waiting = waiting.slice(needed)
        i += len(table)
        j += needed
    yield waiting
    yield from singles


def _take_runs(table: pa.Table, order: Sequence[int]) -> pa.Table:
    """Take rows as `take` does, copying runs of neighbours at once: rows with audio are dear to copy one by one."""
    if not order:
        return table.slice(0, 0)
    cuts = [0, *(i for i in range(1, len(order)) if order[i] != order[i - 1] + 1), len(order)]
    runs = [table.slice(order[start], end - start) for start, end in itertools.pairwise(cuts)]
    return pa.concat_tables(runs).combine_chunks()
