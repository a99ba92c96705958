"""Publishes a dyadic build: shards, rejects, report, card, and the manifest last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.dyadic import DYADIC_FINAL
from bystander.schemas.dyadic_config import DYADIC_ROLES, DyadicConfig
from bystander.schemas.identity import digest_json
from bystander.storage.build_contents import describe_build
from bystander.storage.build_manifest import (
    BuildManifest,
    EngineInfo,
    digest_rows,
    get_code_version,
    list_package_versions,
    write_manifest,
)
from bystander.storage.dataset_card import choose_licence
from bystander.storage.dyadic_card import write_dyadic_card
from bystander.storage.dyadic_manifest import DYADIC_KIND, DyadicManifest, DyadicRequests, DyadicRowCounter
from bystander.storage.file_stamps import stamp_files
from bystander.storage.filesystem import Store
from bystander.storage.published import find_published_build
from bystander.storage.shards import ShardWriter
from bystander.tasks.build_rejects import SetAside, StageRuns, write_rejects
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.report_dyadic import write_dyadic_report
from bystander.tasks.stage_description import describe_stages
from bystander.tasks.stages.finalise_dyadic import finalise_dyadic

SELECTION = "plan_dyadic"
"""Name under which spoken requests beyond the number asked for stand among the rejects."""
_TEXT_ROLES = ("writer", "judge")
"""Engines of the source build that made texts and replies."""


@dataclass(frozen=True, slots=True)
class DyadicSource:
    """The TPI build that requests and replies are taken from."""

    folder: Store
    manifest: BuildManifest


@dataclass(slots=True)
class DyadicRows:
    """What is to be published. The iterators yield MIXED tables in plan order, and are read once."""

    splits: Mapping[str, Iterator[pa.Table]]
    set_aside: Sequence[SetAside]
    requests: DyadicRequests


def digest_dyadic_content(
    config: DyadicConfig, environment: StageEnvironment, source: DyadicSource, runs: StageRuns, ids: Sequence[str]
) -> str:
    """Return a digest of all that a build's files are made from: settings, engines, the rows of the source, stage
    results, selection, code."""
    versions = [get_code_version(), list_package_versions(), DYADIC_FINAL.names]
    made_from = [digest_rows(source.manifest), environment.pack.digest]
    settings = [config.content_digest(), config.report_rows, _list_engines(environment, source), made_from]
    return digest_json([settings, runs.digest(), sorted(ids), versions])


def find_published_dyadic(
    config: DyadicConfig, environment: StageEnvironment, content_digest: str
) -> DyadicManifest | None:
    """Return the manifest of the build, or of one that may stand in for it, if it was published from the same content
    and its files are what it says."""
    builds = (config.build_name, *environment.also_published)
    return find_published_build(environment.store, config.dataset, builds, DyadicManifest, content_digest)


def publish_dyadic(
    config: DyadicConfig,
    environment: StageEnvironment,
    source: DyadicSource,
    rows: DyadicRows,
    runs: StageRuns,
    content_digest: str,
) -> DyadicManifest:
    """Write a build's folder and return its manifest, which is written last: without one the build is unfinished.

    Raises:
        CorruptPartError: a part that is to be published is damaged; nothing new is published then.
    """
    store = environment.store.child(config.dataset, config.build_name)
    store.remove("manifest.json")
    store.remove_temporaries()  # of a run that was killed here
    store.remove("data", recursive=True)  # of another split of the same name's earlier build
    sampling_rate = config.stages.mix_speakers.sampling_rate
    engines = _list_engines(environment, source)
    counter = DyadicRowCounter()
    shards = []
    for split, batches in rows.splits.items():
        with ShardWriter(
            store, "data", split, DYADIC_FINAL, sampling_rate=sampling_rate, shard_mib=config.shard_mib
        ) as writer:
            for batch in batches:
                final = finalise_dyadic(batch, split, config.seed, engines, environment.pack)
                counter.add(final)
                writer.write(final)
        shards += writer.shards
    rejects, stages = write_rejects(store, environment.store, runs, rows.set_aside, sampling_rate)
    manifest = DyadicManifest(
        dataset=config.dataset,
        build=config.build_name,
        kind=DYADIC_KIND,
        content_digest=content_digest,
        seed=config.seed,
        config=config.model_dump(mode="json"),
        code_version=get_code_version(),
        packages=list_package_versions(),
        pack=source.manifest.pack,
        made_from=describe_build(source.folder, source.manifest),
        disjoint_from=source.manifest.disjoint_from,
        voices_disjoint_by=source.manifest.voices_disjoint_by,
        licence=choose_licence(source.manifest)[0],
        asked=config.rows,
        requests=rows.requests,
        engines={role: EngineInfo(**identity) for role, identity in engines.items()},
        models=environment.list_model_files(),
        sampling_rate=sampling_rate,
        stages=tuple(stages),
        fingerprints=describe_stages(runs.names(), environment),
        counts=counter.finish(),
        shards=tuple(shards),
        rejects=tuple(rejects),
    )
    write_dyadic_report(store, manifest, config.report_rows)
    write_dyadic_card(store, manifest)
    environment.assert_alone()
    write_manifest(store, manifest)
    stamp_files(environment.store, config.dataset, config.build_name, (*manifest.shards, *manifest.rejects))
    return manifest


def _list_engines(environment: StageEnvironment, source: DyadicSource) -> dict[str, dict[str, Any]]:
    """Return role to identity: of the source those that wrote, of this build those that spoke and listened."""
    wrote = {
        role: source.manifest.engines[role].model_dump() for role in _TEXT_ROLES if role in source.manifest.engines
    }
    return wrote | {role: environment.engine(role).identity.describe() for role in DYADIC_ROLES}
