"""What a finished build tells of the next one: yields, tries, lengths, read without its audio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from bystander.schemas.errors import InputError
from bystander.schemas.plan import BuildMeasures, Yield
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import BuildManifest, read_manifest
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import telling_damage

_SELECTION = "select_quotas"
_PUBLISHED = (
    "label",
    "n_speakers",
    "ambiguity_score",
    "primary_complete",
    "primary_text",
    "third_party_text",
    "reply",
    "duration_s",
    "write_attempts",
    "reply_attempts",
    "primary_attempts",
    "third_party_attempts",
)
_SURPLUS = ("label", "n_speakers", "ambiguity_score")
_SAMPLE = 500
Texts = Mapping[str, str]


def measure_build(store: Store, min_ambiguity: float) -> tuple[BuildMeasures, list[Texts]]:
    """Return what a finished TPI-Train build measures, and the texts of its first rows (`primary_complete`,
    `primary_text`, `third_party_text`, `label`).

    Rows that were accepted and not needed count as much as published ones: quotas decide which is which.

    Raises:
        BuildError: it is not a finished build.
        InputError: it is no TPI-Train build, or has no two-speaker row.
        StorageError: a file cannot be read.
    """
    manifest = read_manifest(store)
    if manifest.kind != "tpi_train":
        raise InputError(
            f"{store.uri}: is of kind {manifest.kind}; yields are measured in a build of TPI-Train, whose rejects say "
            "how many rows each label and hard negatives would have had without quotas"
        )
    rows = [row for _, batch in read_columns(store, manifest, _PUBLISHED) for row in batch.to_pylist()]
    pairs = [row for row in rows if row["n_speakers"] == 2]
    if not pairs:
        raise InputError(f"{store.uri}: has no two-speaker row to measure")
    singles = [row for row in rows if row["n_speakers"] == 1]
    accepted = [*pairs, *(row for row in _read_surplus(store, manifest) if row["n_speakers"] == 2)]
    spoken = [row["primary_attempts"] for row in rows] + [row["third_party_attempts"] for row in pairs]
    duration_s = sum(row["duration_s"] for row in rows)
    characters = sum(len(row["primary_text"]) + len(row["third_party_text"]) for row in rows)
    measures = BuildMeasures(
        source=f"measured in {manifest.dataset}/{manifest.build}, {manifest.counts.rows} rows",
        engines={role: f"{info.name} {info.model}" for role, info in sorted(manifest.engines.items())},
        yields={
            stage.stage: Yield(rows_in=stage.rows_in, kept=stage.kept)
            for stage in manifest.stages
            if stage.stage != _SELECTION and stage.rows_in
        },
        labels=dict(Counter(row["label"] for row in accepted)),
        ambiguous=Yield(rows_in=len(accepted), kept=sum(row["ambiguity_score"] >= min_ambiguity for row in accepted)),
        write_tries=_mean([row["write_attempts"] for row in pairs]),
        reply_tries=_mean([row["reply_attempts"] for row in pairs]),
        one_speaker_reply_tries=_mean([row["reply_attempts"] for row in singles or pairs]),
        track_tries=_mean(spoken),
        primary_characters=_mean([len(row["primary_text"]) for row in pairs]),
        third_party_characters=_mean([len(row["third_party_text"]) for row in pairs]),
        reply_characters=_mean([len(row["reply"]) for row in rows]),
        speech_s_per_character=duration_s / characters,
        flac_bytes_per_s=sum(shard.bytes for shard in manifest.shards) / duration_s,
    )
    names = ("primary_complete", "primary_text", "third_party_text", "label")
    return measures, [{name: row[name] for name in names} for row in pairs[:_SAMPLE]]


def _read_surplus(store: Store, manifest: BuildManifest) -> Iterator[dict[str, Any]]:
    for file in manifest.rejects:
        if file.file != f"rejects/{_SELECTION}.parquet":
            continue
        with telling_damage(store, file.file), store.open_read(file.file) as source:
            yield from pq.read_table(source, columns=list(_SURPLUS)).to_pylist()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
