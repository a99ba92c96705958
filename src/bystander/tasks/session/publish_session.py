"""Publishes the takes of a session as a build: rows as a bench has them, rejects, report, card, and the manifest."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import EngineIdentity
from bystander.schemas.errors import BuildError, ConfigError, InputError
from bystander.schemas.field_types import NAME, NAME_IN_WORDS
from bystander.schemas.identity import digest_json, make_id
from bystander.schemas.real_world import REAL_FINAL, REAL_WORLD
from bystander.schemas.recording_session import TPI_REAL, ImportSettings, SessionSheet, Take
from bystander.schemas.stages import reject_schema
from bystander.schemas.tpi import AUDIO
from bystander.storage.build_lock import lock_build
from bystander.storage.build_manifest import (
    MANIFEST_NAME,
    BuildManifest,
    CorpusInfo,
    EngineInfo,
    FileInfo,
    PackInfo,
    Quota,
    RowCounter,
    StageCounts,
    TaxonomyInfo,
    get_code_version,
    list_package_versions,
    read_manifest,
    write_manifest,
)
from bystander.storage.filesystem import Store, open_store
from bystander.storage.part_use import record_part_use
from bystander.storage.real_world_card import write_real_world_card
from bystander.storage.shards import ShardWriter, write_table
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.report_real_world import write_real_world_report
from bystander.tasks.session.found_takes import FoundTake, mix_down
from bystander.tasks.session.read_take import ReadTake
from bystander.tasks.session.take_harvest import STEPS, RefusedTake, TakeHarvest

_REFUSED = pa.schema(
    [
        pa.field("id", pa.string()),  # of the take: its code
        pa.field("source", pa.string()),
        pa.field("start_s", pa.float64()),
        pa.field("n_speakers", pa.int32()),
        *(
            pa.field(name, pa.string())
            for name in (
                "primary_text",
                "primary_complete",
                "third_party_text",
                "primary_voice",
                "third_party_voice",
                "scenario",
                "category",
                "timing",
                "label",
                "kind",
            )
        ),
        pa.field("audio", AUDIO),
        pa.field("duration_s", pa.float64()),
    ]
)
"""A recording that became no row; a take that nobody recorded has no audio."""
_ROLES_OF_THE_BENCH = ("writer", "judge")
"""Engines that made the texts; voices and recognition are not the bench's."""


@dataclass(frozen=True, slots=True)
class PublishedSession:
    """The build: where it lies, its manifest, and what a person wants to hear of it, a sentence a line."""

    location: str
    manifest: BuildManifest
    summary: tuple[str, ...]


def publish_session(
    sheet: SessionSheet,
    harvest: TakeHarvest,
    engines: Mapping[str, EngineIdentity],
    digests: Sequence[str],
    out: str,
    name: str,
    settings: ImportSettings,
) -> PublishedSession:
    """Write the build `out`/tpi-real/`name`. The same recordings and settings give the same files.

    Raises:
        ConfigError: the name is none that a folder can have.
        InputError: no take is good.
        BuildError: another build has the name, or another process makes it.
    """
    if not re.fullmatch(NAME, name) or name == "latest":
        raise ConfigError(f"--name {name[:40]!r}: use {NAME_IN_WORDS}, other than latest")
    if not harvest.good:
        reasons = Counter(one.fault.reason for one in harvest.refused)
        said = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        raise InputError(f"session {sheet.prefix}: no take became a row ({said}); see --max-wer and the recordings")
    store = open_store(out)
    target = store.child(TPI_REAL, name)
    infos = _list_engines(sheet, engines)
    seed = sheet.plan.seed
    config = {"session": sheet.prefix, "bench": sheet.build, **settings.model_dump(mode="json")}
    made_from = [sheet.model_dump(mode="json"), settings.model_dump(mode="json"), list(digests), _dump(infos)]
    if target.exists(MANIFEST_NAME) and read_manifest(target).config.get("session") != sheet.prefix:
        raise BuildError(f"{target.uri}: there is a build of other recordings; choose another --name")
    with lock_build(store, TPI_REAL, name) as lock:
        target.remove(MANIFEST_NAME)
        target.remove_temporaries()
        target.remove("data", recursive=True)
        target.remove("rejects", recursive=True)
        counter = RowCounter()
        with ShardWriter(target, "data", REAL_WORLD, REAL_FINAL, sampling_rate=settings.sampling_rate) as writer:
            for table in _make_rows(sheet, harvest.good, infos, settings):
                counter.add(table)
                writer.write(table)
        rejects, stages = _write_rejects(target, harvest)
        facts = sheet.build_facts
        manifest = BuildManifest(
            dataset=TPI_REAL,
            build=name,
            kind="tpi_real",
            content_digest=digest_json(made_from),
            seed=seed,
            config=config,
            code_version=get_code_version(),
            packages=list_package_versions(),
            pack=PackInfo(**facts["pack"]),
            taxonomy=TaxonomyInfo(**facts["taxonomy"]),
            engines=infos,
            sampling_rate=settings.sampling_rate,
            stages=tuple(stages),
            quotas=(Quota(asked=len(sheet.takes), got=len(harvest.good)),),
            corpora=tuple(_list_corpora(sheet, harvest, settings)),
            counts=counter.finish(),
            shards=tuple(writer.shards),
            rejects=tuple(rejects),
        )
        record_part_use(store, TPI_REAL, name, ())
        write_real_world_report(target, manifest, 20, ())
        write_real_world_card(target, manifest)
        lock.assert_held()
        write_manifest(target, manifest)
    location = store.uri_of(f"{TPI_REAL}/{name}")
    return PublishedSession(location, manifest, tuple(_summarise(location, sheet, harvest)))


def _dump(infos: Mapping[str, EngineInfo]) -> dict[str, Any]:
    return {role: info.model_dump() for role, info in infos.items()}


def _list_engines(sheet: SessionSheet, engines: Mapping[str, EngineIdentity]) -> dict[str, EngineInfo]:
    base = sheet.build_facts["engines"]
    infos = {role: EngineInfo(**base[role]) for role in _ROLES_OF_THE_BENCH if role in base}
    return infos | {role: EngineInfo(**identity.describe()) for role, identity in engines.items()}


def _make_rows(
    sheet: SessionSheet,
    good: Sequence[tuple[FoundTake, ReadTake]],
    infos: Mapping[str, EngineInfo],
    settings: ImportSettings,
) -> Iterator[pa.Table]:
    engines = json.dumps(_dump(infos), sort_keys=True, ensure_ascii=False)
    for found, read in good:
        assert found.take is not None
        base: dict[str, Any] = found.take.row
        row_id = make_id("row", "session", base["id"], found.digest, round(found.start_s * 1000))
        row = {
            **{name: base.get(name) for name in REAL_FINAL.names},
            **read.cells,
            "id": row_id,
            "split": REAL_WORLD,
            "audio": {"bytes": encode_flac(read.samples, read.cells["sampling_rate"]), "path": f"{row_id}.flac"},
            "n_speakers": 2,
            "track_similarity": None,
            "mixture_similarity": None,
            "twin_id": None,
            "primary_voice": None,
            "third_party_voice": None,
            "primary_attempts": 1,
            "third_party_attempts": 1,
            "corpus": name_corpus(sheet, found.take.room),
            "recording": found.source,
            "start_s": read.start_s,
            "end_s": read.end_s,
            "licence": settings.licence,
            "primary_speaker": found.take.primary,
            "third_party_speaker": found.take.third_party,
            "primary_source_text": base["primary_text"],
            "third_party_source_text": base["third_party_text"],
            "others_s": 0.0,
            "engines": engines,
            "seed": sheet.plan.seed,
        }
        yield pa.Table.from_pylist([row], schema=REAL_FINAL)


def name_corpus(sheet: SessionSheet, room: str) -> str:
    """Return what rows call the recordings of a session in one room: each room is a corpus of its own."""
    return f"session_{sheet.prefix}_{room}"


def _list_corpora(sheet: SessionSheet, harvest: TakeHarvest, settings: ImportSettings) -> Iterator[CorpusInfo]:
    for room in sheet.plan.rooms:
        files = {found.source for found, _ in harvest.good if found.take is not None and found.take.room == room}
        if files:
            yield CorpusInfo(
                name=name_corpus(sheet, room),
                path=f"recording session {sheet.prefix}, lines of {sheet.build}",
                licence=settings.licence,
                utterances=2 * sum(take.room == room for take in sheet.takes),
                recordings=len(files),
                recordings_with_audio=len(files),
            )


def _write_rejects(target: Store, harvest: TakeHarvest) -> tuple[list[FileInfo], list[StageCounts]]:
    files, stages = [], []
    schema = reject_schema(_REFUSED)
    going = len(harvest.good) + len(harvest.refused)
    for step in STEPS:
        refused = [one for one in harvest.refused if one.step == step]
        reasons = Counter(one.fault.reason for one in refused)
        left = going - len(refused)
        stages.append(StageCounts(stage=step, rows_in=going, kept=left, reasons=dict(sorted(reasons.items()))))
        going = left
        if refused:
            rows = (pa.Table.from_pylist([_describe(one)], schema=schema) for one in refused)
            files.append(write_table(target, f"rejects/{step}.parquet", schema, rows))
    return files, stages


def _describe(one: RefusedTake) -> dict[str, Any]:
    take: Take | None = one.found.take if one.found is not None else None
    row: dict[str, Any] = take.row if take is not None else {}
    names = ("primary_text", "primary_complete", "third_party_text", "scenario", "category", "timing", "label", "kind")
    described = {
        "id": one.code,
        "source": one.source or None,
        "reject_stage": one.step,
        "reject_reason": one.fault.reason,
        "reject_detail": one.fault.detail or None,
        "raw_output": one.fault.raw_output,
        **{name: row.get(name) for name in names},
    }
    if take is not None:
        described |= {"primary_voice": take.primary, "third_party_voice": take.third_party, "n_speakers": 2}
    if one.found is not None:
        mono = mix_down(one.found.samples)
        audio = {"bytes": encode_flac(mono, one.found.rate), "path": f"{one.code or 'recording'}.flac"}
        described |= {"start_s": one.found.start_s, "audio": audio, "duration_s": len(mono) / one.found.rate}
    return described


def _summarise(location: str, sheet: SessionSheet, harvest: TakeHarvest) -> Iterator[str]:
    yield f"{location}: {len(harvest.good)} of {len(sheet.takes)} takes became rows."
    reasons = Counter(one.fault.reason for one in harvest.refused)
    for reason, count in sorted(reasons.items()):
        codes = sorted({one.code for one in harvest.refused if one.fault.reason == reason and one.code})
        yield f"{reason}: {count}{' (' + ', '.join(codes[:12]) + ')' if codes else ''}."
    got = [(found.take.offset_s, read.offset_s) for found, read in harvest.good if found.take and read.came_in_at]
    if got:
        asked_s, got_s = (statistics.median(column) for column in zip(*got, strict=True))
        off = statistics.median(abs(one - other) for one, other in got)
        yield (
            f"Cut-ins: {asked_s:+.2f} s asked for, {got_s:+.2f} s obtained (medians; negative is overlap), "
            f"{off:.2f} s from what was asked."
        )
    if len(got) < len(harvest.good):
        yield f"{len(harvest.good) - len(got)} rows have one channel, so that their overlap is not known."
