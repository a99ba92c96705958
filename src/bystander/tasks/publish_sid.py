"""Publishes a SID build: shards, rejects, report, card, and the manifest last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import EngineRole
from bystander.schemas.identity import digest_json
from bystander.schemas.sid import SID_FINAL
from bystander.schemas.sid_config import SidConfig
from bystander.schemas.sid_engine_configs import SID_ROLES
from bystander.storage.build_manifest import (
    EngineInfo,
    get_code_version,
    list_package_versions,
    write_manifest,
)
from bystander.storage.file_stamps import stamp_files
from bystander.storage.published import find_published_build
from bystander.storage.shards import ShardWriter
from bystander.storage.sid_card import write_sid_card
from bystander.storage.sid_manifest import (
    PromptsInfo,
    SidKind,
    SidManifest,
    SidQuota,
    SidRowCounter,
)
from bystander.tasks.build_rejects import SetAside, StageRuns, write_rejects
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.metrics.annotation_error import COLUMNS, measure_annotation
from bystander.tasks.report_sid import write_sid_report
from bystander.tasks.stage_description import describe_stages
from bystander.tasks.stages import CONVERSATION_STAGES, RECORDING_STAGES
from bystander.tasks.stages.finalise_sid import finalise_noise, finalise_turns

SELECTION = "select_sid"
"""Name under which rows that no quota had room for stand among the rejects."""


WHOLE_RECORDINGS = frozenset({*RECORDING_STAGES, *CONVERSATION_STAGES})
"""Stages whose rejects are whole recordings: of these the name of the file is kept, not the sound."""


@dataclass(slots=True)
class SidRows:
    """What is to be published, in plan order; the iterators are read once."""

    turns: Iterator[pa.Table]
    """PLACED tables."""
    noise: Iterator[pa.Table]
    """NOISE_CLIP tables."""
    set_aside: Sequence[SetAside]


def list_used_engines(config: SidConfig, environment: StageEnvironment) -> dict[str, dict[str, Any]]:
    """Return role to the description of the identity of each engine that the build can use."""
    roles: list[EngineRole] = [role for role in SID_ROLES if getattr(config.engines, role) is not None]
    return {role: environment.engine(role).identity.describe() for role in roles}


def digest_sid_content(
    config: SidConfig, environment: StageEnvironment, runs: StageRuns, ids: Sequence[str], left_out: Mapping[str, str]
) -> str:
    """Return a digest of all that a build's files are made from: settings, engines, stage results, selection, code."""
    engines = list_used_engines(config, environment)
    versions = [get_code_version(), list_package_versions(), SID_FINAL.names]
    settings = [config.content_digest(), config.report_rows, engines, environment.pack.digest, dict(left_out)]
    if config.disjoint_from:
        settings.append(environment.other_sid_builds.digest)
    return digest_json([settings, runs.digest(), sorted(ids), versions])


def find_published_sid(config: SidConfig, environment: StageEnvironment, content_digest: str) -> SidManifest | None:
    """Return the manifest of the build, or of one that may stand in for it, if it was published from the same content
    and its files are what it says."""
    builds = (config.build_name, *environment.also_published)
    return find_published_build(environment.store, config.dataset, builds, SidManifest, content_digest)


def publish_sid(
    config: SidConfig,
    environment: StageEnvironment,
    rows: SidRows,
    runs: StageRuns,
    quotas: Sequence[SidQuota],
    left_out: Mapping[str, str],
    content_digest: str,
    kind: SidKind,
    split: str,
) -> SidManifest:
    """Write a build's folder and return its manifest, which is written last: without one the build is unfinished.

    Raises:
        CorruptPartError: a part that is to be published is damaged; nothing new is published then.
    """
    store = environment.store.child(config.dataset, config.build_name)
    store.remove("manifest.json")
    store.remove_temporaries()  # of a run that was killed here
    described = list_used_engines(config, environment)
    counter = SidRowCounter()
    known: list[dict[str, Any]] = []
    sampling_rate = config.stages.cut_turns.sampling_rate
    with ShardWriter(
        store, "data", split, SID_FINAL, sampling_rate=sampling_rate, shard_mib=config.shard_mib
    ) as writer:
        for final in _finalise(rows, split, config.seed, described):
            counter.add(final)
            known += final.select(COLUMNS).to_pylist()
            writer.write(final)
    rejects, stages = write_rejects(store, environment.store, runs, rows.set_aside, None, WHOLE_RECORDINGS)
    manifest = SidManifest(
        dataset=config.dataset,
        build=config.build_name,
        kind=kind,
        content_digest=content_digest,
        seed=config.seed,
        config=config.model_dump(mode="json"),
        code_version=get_code_version(),
        packages=list_package_versions(),
        prompts=PromptsInfo(name=environment.pack.name, digest=environment.pack.digest),
        engines={role: EngineInfo(**identity) for role, identity in described.items()},
        models=environment.list_model_files(),
        sampling_rate=sampling_rate or 0,
        stages=tuple(stages),
        fingerprints=describe_stages(runs.names(), environment),
        quotas=tuple(quotas),
        left_out=dict(left_out),
        disjoint_from=tuple(environment.other_sid_builds.builds),
        annotation=measure_annotation(known),
        counts=counter.finish(),
        shards=tuple(writer.shards),
        rejects=tuple(rejects),
    )
    write_sid_report(store, manifest, config.report_rows)
    write_sid_card(store, manifest)
    environment.assert_alone()
    write_manifest(store, manifest)
    stamp_files(environment.store, config.dataset, config.build_name, (*manifest.shards, *manifest.rejects))
    return manifest


def _finalise(rows: SidRows, split: str, seed: int, engines: Mapping[str, Any]) -> Iterator[pa.Table]:
    for table in rows.turns:
        yield finalise_turns(table, split, seed, engines)
    for table in rows.noise:
        yield finalise_noise(table, split, seed, engines)
