"""Publishes a TPI build: shards, rejects, report, card, and the manifest last."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bystander.schemas.config import TpiConfig
from bystander.schemas.engine_configs import BUILD_ROLES
from bystander.schemas.errors import BuildError, StageContractError, StorageError
from bystander.schemas.identity import digest_json
from bystander.schemas.stages import REJECT_FIELDS, reject_schema
from bystander.schemas.tpi import CHECKED, FINAL
from bystander.storage.build_contents import COLUMNS, RowContents
from bystander.storage.build_manifest import (
    BuildKind,
    BuildManifest,
    EngineInfo,
    FileInfo,
    PackInfo,
    Quota,
    RowCounter,
    ShardInfo,
    StageCounts,
    TaxonomyInfo,
    get_code_version,
    list_package_versions,
    read_manifest,
    write_manifest,
)
from bystander.storage.control_section import CONTROLS_NAME
from bystander.storage.dataset_card import CARD_NAME, write_card
from bystander.storage.filesystem import Store
from bystander.storage.parts import Partition
from bystander.storage.shards import ShardWriter, write_table
from bystander.storage.stage_results import StageResult, read_rejects
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.report_tpi import REPORT_NAME, write_report
from bystander.tasks.stages import get_stage
from bystander.tasks.stages.finalise_rows import finalise_rows

SELECTION = "select_quotas"
"""Name under which rows that no quota had room for stand among the rejects."""
TEXT_SELECTION = "select_texts"
"""Name under which rows that were never spoken, because no quota had room for them, stand among the rejects."""


@dataclass(slots=True)
class SetAside:
    """Good rows that are left out at a step of the flow's own: they stand among the rejects under its name."""

    step: str
    reason: str
    kept: int
    """Rows that went on."""
    schema: pa.Schema
    rows: Iterator[pa.Table]
    """Those that did not; read once."""
    after: str = ""
    """The stage that it follows; the last one where none is named."""


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


@dataclass(slots=True)
class StageRuns:
    """Every stage run of the build, in order: what it read and what it made of it."""

    runs: list[tuple[Partition, StageResult]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the stages in the order in which they were first run."""
        return list(dict.fromkeys(result.stage for _, result in self.runs))

    def count(self, stage: str) -> StageCounts:
        """Return a stage's counts over all partitions."""
        results = [result for _, result in self.runs if result.stage == stage]
        reasons: Counter[str] = Counter()
        for result in results:
            reasons.update(result.reasons)
        return StageCounts(
            stage=stage,
            version=get_stage(stage).version,
            rows_in=sum(result.rows_in for result in results),
            kept=sum(result.rows_kept for result in results),
            reasons=dict(sorted(reasons.items())),
        )

    def rejects(self, stage: str, store: Store) -> Iterator[pa.Table]:
        """Yield the rejected rows of a stage, a partition at a time."""
        for before, result in self.runs:
            if result.stage == stage and result.rows_rejected:
                yield read_rejects(store, before, result)


def digest_content(config: TpiConfig, environment: StageEnvironment, runs: StageRuns, ids: Sequence[str]) -> str:
    """Return a digest of all that a build's files are made from: settings, engines, stage results, selection, code."""
    results = sorted([result.stage, result.kept.sha256, result.rejected.sha256] for _, result in runs.runs)
    engines = {role: environment.engine(role).identity.describe() for role in BUILD_ROLES}
    texts = [environment.pack.digest, environment.taxonomy.digest(), environment.other_builds.digest]
    versions = [get_code_version(), list_package_versions(), FINAL.names]
    settings = [config.content_digest(), config.report_rows, engines, texts]
    return digest_json([settings, results, sorted(ids), versions])


def find_published(config: TpiConfig, environment: StageEnvironment, content_digest: str) -> BuildManifest | None:
    """Return the manifest of the build if it was published from the same content and its files are what it says."""
    store = environment.store.child(config.dataset, config.build_name)
    try:
        manifest = read_manifest(store)
        if manifest.content_digest != content_digest:
            return None
        whole = store.exists(REPORT_NAME) and store.exists(CARD_NAME)
        for info in (*manifest.shards, *manifest.rejects):
            whole = whole and store.size(info.file) == info.bytes and store.sha256(info.file) == info.sha256
    except (BuildError, StorageError):
        return None
    return manifest if whole else None


def publish_tpi(
    config: TpiConfig,
    environment: StageEnvironment,
    rows: TpiRows,
    runs: StageRuns,
    quotas: Sequence[Quota],
    content_digest: str,
    kind: BuildKind,
) -> BuildManifest:
    """Write a build's folder and return its manifest, which is written last: without one the build is unfinished.

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
                final = finalise_rows(batch, split, config.seed, described, rows.twins, rows.lone)
                _assert_disjoint(final, environment)
                counter.add(final)
                writer.write(final)
        shards += writer.shards
    rejects, stages = _write_rejects(store, environment.store, runs, rows, sampling_rate)
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
        quotas=tuple(quotas),
        disjoint_from=tuple(environment.other_builds.builds),
        counts=counter.finish(),
        shards=tuple(shards),
        rejects=tuple(rejects),
    )
    write_report(store, manifest, config.report_rows)
    write_card(store, manifest)
    write_manifest(store, manifest)
    return manifest


def _assert_disjoint(final: pa.Table, environment: StageEnvironment) -> None:
    others = environment.other_builds
    if not others.builds:
        return
    for row in final.select(COLUMNS).to_pylist():
        for column, shared in others.find_shared(RowContents.of(row, others.normalise)):
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


def _write_rejects(
    target: Store, source: Store, runs: StageRuns, rows: TpiRows, sampling_rate: int
) -> tuple[list[FileInfo], list[StageCounts]]:
    """Write one file of rejects a stage or step, where there are any, and count every one."""
    target.remove("rejects", recursive=True)
    stages = [runs.count(stage) for stage in runs.names()]
    files = [
        write_table(
            target,
            f"rejects/{counts.stage}.parquet",
            reject_schema(get_stage(counts.stage).reads),
            runs.rejects(counts.stage, source),
            sampling_rate,
        )
        for counts in stages
        if counts.rejected
    ]
    for aside in rows.set_aside:
        info = write_table(
            target, f"rejects/{aside.step}.parquet", reject_schema(aside.schema), _mark(aside), sampling_rate
        )
        reasons = {aside.reason: info.rows} if info.rows else {}
        counts = StageCounts(stage=aside.step, rows_in=aside.kept + info.rows, kept=aside.kept, reasons=reasons)
        names = [stage.stage for stage in stages]
        stages.insert(names.index(aside.after) + 1 if aside.after in names else len(stages), counts)
        if info.rows:
            files.append(info)
        else:
            target.remove(info.file)
    return files, stages


def _mark(aside: SetAside) -> Iterator[pa.Table]:
    for table in aside.rows:
        for column, value in zip(REJECT_FIELDS, (aside.step, aside.reason, None, None), strict=True):
            table = table.append_column(column, pa.array([value] * len(table), column.type))
        yield table
