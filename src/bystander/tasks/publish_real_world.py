"""Publishes a build of real recordings: shards, pairs without audio, rejects, report, card, and the manifest last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.identity import digest_json
from bystander.schemas.real_world import REAL_FINAL, REAL_WORLD
from bystander.schemas.real_world_config import REAL_WORLD_ROLES, RealWorldConfig
from bystander.storage.build_manifest import (
    BuildManifest,
    CorpusInfo,
    EngineInfo,
    PackInfo,
    RowCounter,
    TaxonomyInfo,
    get_code_version,
    list_package_versions,
    write_manifest,
)
from bystander.storage.candidate_files import write_candidates
from bystander.storage.file_stamps import stamp_files
from bystander.storage.published import find_published_build
from bystander.storage.real_world_card import write_real_world_card
from bystander.storage.shards import ShardWriter
from bystander.tasks.build_rejects import StageRuns, write_rejects
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.report_real_world import write_real_world_report
from bystander.tasks.stage_description import describe_stages
from bystander.tasks.stages.finalise_real_world import finalise_real_world

REAL_KIND = "tpi_real"


@dataclass(slots=True)
class RealWorldRows:
    """What is to be published. `pairs` yields REVIEWED_PAIR tables with clips, and is read once."""

    pairs: Iterator[pa.Table]
    replies: Mapping[str, Mapping[str, Any]]
    """By id, labels and replies of all, with and without a clip."""
    candidates: Sequence[Mapping[str, Any]]
    """Rows of REVIEWED_PAIR without a clip."""
    corpora: Sequence[CorpusInfo]
    decisions: str | None
    """Digest of the decisions that were applied."""


def digest_real_world_content(
    config: RealWorldConfig,
    environment: StageEnvironment,
    runs: StageRuns,
    ids: Sequence[str],
    corpora: Sequence[CorpusInfo],
    decisions: str | None,
) -> str:
    """Return a digest of all that a build's files are made from: settings, engines, stage results, code."""
    engines = {role: environment.engine(role).identity.describe() for role in REAL_WORLD_ROLES}
    versions = [get_code_version(), list_package_versions(), REAL_FINAL.names]
    sources = [[corpus.model_dump(exclude={"path"}) for corpus in corpora], decisions, environment.pack.digest]
    settings = [config.content_digest(), config.report_rows, engines, sources]
    return digest_json([settings, runs.digest(), sorted(ids), versions])


def find_published_real_world(
    config: RealWorldConfig, environment: StageEnvironment, content_digest: str
) -> BuildManifest | None:
    """Return the manifest of the build, or of one that may stand in for it, if it was published from the same content
    and its files are what it says."""
    builds = (config.build_name, *environment.also_published)
    return find_published_build(environment.store, config.dataset, builds, BuildManifest, content_digest)


def publish_real_world(
    config: RealWorldConfig, environment: StageEnvironment, rows: RealWorldRows, runs: StageRuns, content_digest: str
) -> BuildManifest:
    """Write a build's folder and return its manifest, which is written last: without one the build is unfinished.

    Raises:
        CorruptPartError: a part that is to be published is damaged; nothing new is published then.
    """
    store = environment.store.child(config.dataset, config.build_name)
    store.remove("manifest.json")
    store.remove_temporaries()  # of a run that was killed here
    sampling_rate = config.stages.cut_clips.sampling_rate
    engines: dict[str, EngineInfo] = {
        role: EngineInfo(**environment.engine(role).identity.describe()) for role in REAL_WORLD_ROLES
    }
    described = {role: info.model_dump() for role, info in engines.items()}
    counter = RowCounter()
    with ShardWriter(
        store, "data", REAL_WORLD, REAL_FINAL, sampling_rate=sampling_rate, shard_mib=config.shard_mib
    ) as writer:
        for batch in rows.pairs:
            final = finalise_real_world(batch, rows.replies, config.seed, described, environment.pack)
            counter.add(final)
            writer.write(final)
    candidates = [{**row, **rows.replies[row["id"]]} for row in rows.candidates]
    rejects, stages = write_rejects(store, environment.store, runs, (), sampling_rate)
    manifest = BuildManifest(
        dataset=config.dataset,
        build=config.build_name,
        kind="tpi_real",
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
        taxonomy=TaxonomyInfo(name=environment.taxonomy.name, digest=environment.taxonomy.digest(), scenarios={}),
        engines=engines,
        models=environment.list_model_files(),
        sampling_rate=sampling_rate,
        stages=tuple(stages),
        fingerprints=describe_stages(runs.names(), environment),
        corpora=tuple(rows.corpora),
        candidates=write_candidates(store, candidates),
        decisions=rows.decisions,
        counts=counter.finish(),
        shards=tuple(writer.shards),
        rejects=tuple(rejects),
    )
    write_real_world_report(store, manifest, config.report_rows, candidates)
    write_real_world_card(store, manifest)
    environment.assert_alone()
    write_manifest(store, manifest)
    stamp_files(environment.store, config.dataset, config.build_name, (*manifest.shards, *manifest.rejects))
    return manifest
