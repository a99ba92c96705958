"""What must hold of every finished TPI row, on its own and among the others of its build."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile

from bystander.schemas.identity import digest_json
from bystander.schemas.taxonomy import Timing
from bystander.schemas.tpi import FINAL, HARD_NEGATIVE_LABEL, JANUS_TEST, TPI_TEST
from bystander.storage.build_manifest import BuildManifest, ManifestBase

Fault = tuple[str, str]
"""The field that is wrong, and what is wrong with it."""

_UNIT_FIELDS = ("label_score", "realism_score")
_COSINES = ("track_similarity", "mixture_similarity")
_WORD_ERROR_RATES = ("primary_wer_raw", "primary_wer", "third_party_wer_raw", "third_party_wer")
_TEMPERATURES = ("primary_recognition_temperature", "third_party_recognition_temperature")
_ATTEMPTS = ("write_attempts", "reply_attempts", "primary_attempts", "third_party_attempts")
_OF_PAIRS = (
    "third_party_voice",
    "third_party_recognised",
    "third_party_wer_raw",
    "third_party_wer",
    "third_party_attempts",
    "offset_asked_s",
    "overlap_s",
    "loudness_difference_db",
)
"""Filled in a two-speaker row, null in a hard negative."""
_SPOKEN = ("primary_complete", "primary_text", "third_party_text")


def check_row(row: Mapping[str, Any], split: str, manifest: BuildManifest) -> Iterator[Fault]:
    """Yield what is wrong with a row's fields; audio is not decoded."""
    missing = list(find_nulls(row, FINAL))
    yield from missing
    if missing:
        return
    yield from check_origin(row, split, manifest)
    yield from check_pack(row, manifest)
    yield from check_label(row, manifest)
    yield from _check_scenario(row, manifest)
    yield from _check_texts(row)
    yield from _check_numbers(row, manifest)
    if row["n_speakers"] == 2:
        yield from _check_pair(row)
    elif row["n_speakers"] == 1:
        yield from _check_hard_negative(row)
    else:
        yield "n_speakers", f"is {row['n_speakers']}, neither 1 nor 2"
    yield from check_segments(row)
    if manifest.kind == "tpi_bench":
        yield from _check_bench_row(row, split, manifest)


def find_nulls(row: Mapping[str, Any], schema: pa.Schema) -> Iterator[Fault]:
    """Yield the fields that are null and may not be."""
    for column in schema:
        if not column.nullable and row[column.name] is None:
            yield column.name, "is null"


def check_origin(row: Mapping[str, Any], split: str, manifest: ManifestBase) -> Iterator[Fault]:
    """Yield what does not fit the build that a row of any kind is in; a rate of 0 stands for clips of several."""
    if row["split"] != split:
        yield "split", f"is {row['split']!r} in a shard of {split!r}"
    if row["seed"] != manifest.seed:
        yield "seed", f"is {row['seed']}, the build's is {manifest.seed}"
    if manifest.sampling_rate and row["sampling_rate"] != manifest.sampling_rate:
        yield "sampling_rate", f"is {row['sampling_rate']} Hz, the build's is {manifest.sampling_rate} Hz"
    try:
        roles = json.loads(row["engines"])
    except ValueError:
        roles = None
    if not isinstance(roles, dict) or not roles:
        yield "engines", "is not a JSON object from role to identity"
    elif unknown := sorted(set(roles) - set(manifest.engines)):
        yield "engines", f"names roles that the manifest does not have: {', '.join(unknown)}"


def check_audio(row: Mapping[str, Any]) -> Iterator[Fault]:
    """Decode a row's clip and yield what is wrong with it."""
    content = (row["audio"] or {}).get("bytes")
    if not content:
        yield "audio", "holds no bytes"
        return
    try:
        samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as exc:
        yield "audio", f"cannot be decoded ({exc.error_string.rstrip('.')})"
        return
    if samples.shape[1] != 1:
        yield "audio", f"has {samples.shape[1]} channels instead of one"
    if rate != row["sampling_rate"]:
        yield "sampling_rate", f"is {row['sampling_rate']} Hz, the clip has {rate} Hz"
    if abs(len(samples) - row["duration_s"] * rate) > 1:
        yield "duration_s", f"is {row['duration_s']:.4f} s, the clip lasts {len(samples) / rate:.4f} s"
    if not len(samples) or not np.abs(samples).max() > 0:
        yield "audio", "is silent"


def check_pack(row: Mapping[str, Any], manifest: BuildManifest) -> Iterator[Fault]:
    """Yield what does not fit the pack of the build."""
    if (row["pack"], row["pack_digest"]) != (manifest.pack.name, manifest.pack.digest):
        yield "pack_digest", f"names another pack ({row['pack']!r}) than the manifest"


def check_label(row: Mapping[str, Any], manifest: BuildManifest) -> Iterator[Fault]:
    """Yield what is wrong with label and kind."""
    label = row["label"]
    if label != HARD_NEGATIVE_LABEL and label not in manifest.pack.classes:
        yield "label", f"{label!r} is no class of the pack"
    elif row["kind"] is not None and row["kind"] not in manifest.pack.classes.get(label, ()):
        yield "kind", f"{row['kind']!r} is no kind of {label!r}"


def _check_scenario(row: Mapping[str, Any], manifest: BuildManifest) -> Iterator[Fault]:
    scenarios = manifest.taxonomy.scenarios
    if row["scenario"] not in scenarios:
        yield "scenario", f"{row['scenario']!r} is not in the taxonomy"
    elif row["category"] != scenarios[row["scenario"]]:
        yield "category", f"is {row['category']!r}, the scenario's is {scenarios[row['scenario']]!r}"
    if row["timing"] not in set(Timing):
        yield "timing", f"{row['timing']!r} is no timing"


def _check_texts(row: Mapping[str, Any]) -> Iterator[Fault]:
    for name in (*_SPOKEN, "reply"):
        if not row[name].strip():
            yield name, "is empty"
    for name in _SPOKEN:
        if odd := find_unspeakable(row[name]):
            yield name, f"holds {odd!r}, which a voice cannot speak"
    spoken, complete = _split_words(row["primary_text"]), _split_words(row["primary_complete"])
    if row["timing"] == Timing.WITHIN_SENTENCE:
        if not row["primary_text"].endswith("..."):
            yield "primary_text", "is cut off but does not end in '...'"
        if len(spoken) >= len(complete) or spoken != complete[: len(spoken)]:
            yield "primary_text", "is not a beginning of primary_complete"
    elif spoken != complete:
        yield "primary_text", "differs from primary_complete although nobody cut it off"


def find_unspeakable(text: str) -> str | None:
    """Return the first character that is no letter, digit, space, `.,?!` or apostrophe inside a word, if any."""
    for index, character in enumerate(text):
        if character.isalnum() or character in " .,?!":
            continue
        around = text[index - 1 : index] + text[index + 1 : index + 2]
        if character != "'" or len(around) < 2 or not around.isalnum():
            return character
    return None


def _check_numbers(row: Mapping[str, Any], manifest: BuildManifest) -> Iterator[Fault]:
    for names, low, high in (
        (_UNIT_FIELDS, 0.0, 1.0),
        (_COSINES, -1.0, 1.0),
        (_WORD_ERROR_RATES, 0.0, float("inf")),
        (("ambiguity_score",), 1.0, 5.0),
        (_ATTEMPTS, 1, float("inf")),
        (_TEMPERATURES, 0.0, 2.0),
    ):
        for name in names:
            if row[name] is not None and not low - 1e-6 <= row[name] <= high + 1e-6:
                yield name, f"is {row[name]}, outside {low:g} to {high:g}"
    most = manifest.config.get("stages", {}).get("synthesise_speech", {}).get("max_wer")
    for name in ("primary_wer", "third_party_wer"):
        if most is not None and row[name] is not None and row[name] > most + 1e-9:
            yield name, f"is {row[name]:.3f}, above the configured {most:g}"


def _check_pair(row: Mapping[str, Any]) -> Iterator[Fault]:
    yield from ((name, "is null in a two-speaker row") for name in _OF_PAIRS if row[name] is None)
    if row["label"] == HARD_NEGATIVE_LABEL:
        yield "label", "says hard negative, but the row has two speakers"
    if row["primary_voice"] == row["third_party_voice"]:
        yield "third_party_voice", f"is the primary's voice too ({row['primary_voice']!r})"


def _check_hard_negative(row: Mapping[str, Any]) -> Iterator[Fault]:
    alone = (*_OF_PAIRS, "third_party_recognition_temperature")
    yield from ((name, "is set in a one-speaker row") for name in alone if row[name] is not None)
    if row["label"] != HARD_NEGATIVE_LABEL:
        yield "label", f"is {row['label']!r}, but the row has one speaker"
    if len(row["segments"]) != 1:
        yield "segments", f"are {len(row['segments'])} in a one-speaker row"


def _check_bench_row(row: Mapping[str, Any], split: str, manifest: BuildManifest) -> Iterator[Fault]:
    speakers = {TPI_TEST: 2, JANUS_TEST: 1}.get(split)
    if speakers is None:
        yield "split", f"is {split!r}; a bench has {TPI_TEST} and {JANUS_TEST}"
    elif row["n_speakers"] != speakers:
        yield "n_speakers", f"is {row['n_speakers']} in {split}"
    for name in ("primary_wer", "third_party_wer"):
        if row[name]:
            yield name, f"is {row[name]:.3f}, in a bench it must be 0"
    least = manifest.config.get("stages", {}).get("build_hard_negatives", {}).get("min_ambiguity")
    if split == JANUS_TEST and least is not None and row["ambiguity_score"] < least - 1e-9:
        yield "ambiguity_score", f"is {row['ambiguity_score']:.2f} in {JANUS_TEST}, below the configured {least:g}"


def check_segments(row: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield where segments are not of the row's speakers, do not lie in the clip, or overlap otherwise than said."""
    segments: Sequence[Mapping[str, Any]] = row["segments"]
    expected = {"primary", "third_party"} if row["n_speakers"] == 2 else {"primary"}
    if {segment["speaker"] for segment in segments} != expected:
        yield "segments", f"are not of {' and '.join(sorted(expected))}"
        return
    tolerance = 2 / row["sampling_rate"]
    for segment in segments:
        start, end = segment["start_s"], segment["end_s"]
        if not -tolerance <= start < end <= row["duration_s"] + tolerance:
            yield "segments", f"{segment['speaker']} from {start} s to {end} s does not lie in {row['duration_s']} s"
    if row["n_speakers"] == 2 and row["overlap_s"] is not None:
        overlap = measure_overlap(segments)
        if abs(max(row["overlap_s"], 0.0) - overlap) > tolerance:
            yield "overlap_s", f"is {row['overlap_s']:.4f} s, the segments overlap by {overlap:.4f} s"


def measure_overlap(segments: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds in which both speakers speak."""
    primary = [segment for segment in segments if segment["speaker"] == "primary"]
    other = [segment for segment in segments if segment["speaker"] != "primary"]
    shared = (min(one["end_s"], two["end_s"]) - max(one["start_s"], two["start_s"]) for one in primary for two in other)
    return float(sum(max(0.0, length) for length in shared))


def _split_words(text: str) -> list[str]:
    return [word.strip(".,?!").lower() for word in text.split() if word.strip(".,?!")]


@dataclass(frozen=True, slots=True)
class _Seen:
    file: str
    n_speakers: int
    twin_id: str | None
    transcript: str


class RowLinks:
    """Checks what holds between rows: unique ids, and twins. It keeps about 200 bytes a row."""

    def __init__(self) -> None:
        self._rows: dict[str, _Seen] = {}

    def add(self, row: Mapping[str, Any], file: str) -> Iterator[Fault]:
        """Remember a row; yield a fault if its id has occurred before."""
        seen = self._rows.get(row["id"])
        if seen:
            yield "id", f"occurs in {seen.file} too"
            return
        transcript = digest_json([row["primary_complete"], row["primary_text"], row["third_party_text"]])
        self._rows[row["id"]] = _Seen(file, row["n_speakers"], row["twin_id"], transcript)

    def finish(self) -> Iterator[tuple[str, str, Fault]]:
        """Yield file, row id and fault of every broken link, once all rows are added."""
        pairs_alone = defaultdict(list)
        for row_id, row in self._rows.items():
            if row.twin_id is None and row.n_speakers == 2:
                pairs_alone[row.transcript].append(row_id)
        for row_id, row in self._rows.items():
            if row.twin_id is None:
                if row.n_speakers == 1 and (unlinked := pairs_alone.get(row.transcript)):
                    yield row.file, row_id, ("twin_id", f"is null, but {unlinked[0]} has the same transcript")
                continue
            twin = self._rows.get(row.twin_id)
            if twin is None:
                yield row.file, row_id, ("twin_id", f"names {row.twin_id}, which is not in the build")
            elif twin.twin_id != row_id:
                yield row.file, row_id, ("twin_id", f"names {row.twin_id}, which does not name it back")
            elif twin.transcript != row.transcript:
                yield row.file, row_id, ("twin_id", f"names {row.twin_id}, which has another transcript")
            elif {twin.n_speakers, row.n_speakers} != {1, 2}:
                yield row.file, row_id, ("twin_id", f"names {row.twin_id}, which has as many speakers")
