"""A finished bank of reference voices: reading it clip by clip, and verifying it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.engines import Samples, Voice
from bystander.schemas.errors import BuildError, InputError, StorageError
from bystander.schemas.identity import digest_json
from bystander.schemas.voice_bank import BANK_VOICE
from bystander.storage.build_checks import Finding, read_batches
from bystander.storage.build_manifest import MANIFEST_NAME, FileInfo, ShardInfo
from bystander.storage.filesystem import Store, open_store
from bystander.storage.voice_bank_manifest import VoiceBankManifest, read_bank_manifest

DATA_FOLDER = "data"
_DESCRIBING = [name for name in BANK_VOICE.names if name != "audio"]
_DURATION_TOLERANCE_S = 0.001


class FileVoiceBank:
    """A bank in a folder or under an fsspec URL, as `schemas.voice_bank.VoiceBank`; for any number of threads.

    What describes the voices is read once, about 2 KB a voice; clips are read a row group at a time, when asked for.
    """

    def __init__(self, store: Store, manifest: VoiceBankManifest) -> None:
        self._store = store
        self.manifest = manifest
        self._lock = threading.Lock()
        self._kept: tuple[ShardInfo, int, pa.Table] | None = None

    def __repr__(self) -> str:
        return f"FileVoiceBank({self._store.uri!r})"

    @property
    def digest(self) -> str:
        return self.manifest.digest

    @cached_property
    def voices(self) -> Sequence[Voice]:
        """All voices, ordered by id, with their embeddings."""
        return tuple(
            Voice(
                id=row["voice"],
                language=row["language"],
                gender=row["gender"],
                source=row["source"],
                licence=row["licence"],
                embedding=np.asarray(row["embedding"], "<f4").tobytes(),
            )
            for row in self._index.rows
        )

    def list_rows(self) -> Sequence[dict[str, Any]]:
        """Return what is known of each voice but its clip, ordered by id: `BANK_VOICE` without `audio`.

        Raises:
            InputError: a shard cannot be read.
        """
        return self._index.rows

    def read_reference(self, voice: str) -> tuple[Samples, int]:
        """Return a voice's reference clip, shape (n,), float32, and its sampling rate in Hz.

        Raises:
            InputError: the bank has no such voice, or its clip cannot be read.
        """
        import soundfile

        place = self._index.places.get(voice)
        if place is None:
            raise InputError(f"voice bank {self._store.uri}: has no voice {voice!r}; see `bystander voices show`")
        shard, group, at = place
        data = self._read_group(shard, group)["audio"][at].as_py()["bytes"]
        try:
            samples, rate = soundfile.read(io.BytesIO(data or b""), dtype="float32")
        except soundfile.LibsndfileError as exc:
            raise InputError(f"voice bank {self._store.uri}: the clip of {voice!r} cannot be decoded ({exc})") from exc
        return samples, int(rate)

    def _read_group(self, shard: ShardInfo, group: int) -> pa.Table:
        """Return a row group's clips; the last one is kept, as voices are mostly asked for in their order."""
        with self._lock:
            kept = self._kept
            if kept is None or kept[:2] != (shard, group):
                with _open_shard(self._store, shard) as file:
                    kept = self._kept = (shard, group, file.read_row_group(group, columns=["audio"], use_threads=False))
            return kept[2]

    @cached_property
    def _index(self) -> _Index:
        with self._lock:
            return _read_index(self._store, self.manifest.shards)


class _Index:
    """What is known of each voice, and where its clip is: shard, row group, row there."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.places: dict[str, tuple[ShardInfo, int, int]] = {}


def open_voice_bank(uri: str) -> FileVoiceBank:
    """Open a bank that `bystander voices index` made; its shards are read when voices are asked for.

    Raises:
        InputError: there is no finished bank, or a shard is missing or of another size than its manifest says.
    """
    store = open_store(uri)
    try:
        manifest = read_bank_manifest(store)
        for shard in manifest.shards:
            if store.size(shard.file) != shard.bytes:
                raise InputError(
                    f"voice bank {uri}: {shard.file} is not of the size that the manifest says; copy the bank anew, or "
                    "index again"
                )
    except (BuildError, StorageError) as exc:
        raise InputError(f"voice bank {uri}: {exc}") from exc
    return FileVoiceBank(store, manifest)


def digest_voices(rows: Sequence[dict[str, Any]]) -> str:
    """Return the digest of a bank's voices: ids, languages, clips, embeddings."""
    return digest_json(
        [
            [row["voice"], row["language"], row["audio_sha256"], _digest_embedding(row["embedding"])]
            for row in sorted(rows, key=lambda row: row["voice"])
        ]
    )


def _digest_embedding(values: Sequence[float]) -> str:
    return hashlib.sha256(np.asarray(values, "<f4").tobytes()).hexdigest()


def stack_embeddings(rows: Sequence[dict[str, Any]]) -> npt.NDArray[np.float32]:
    """Return the embeddings of voices, shape (voices, d)."""
    return np.array([row["embedding"] for row in rows], np.float32).reshape(len(rows), -1)


def verify_voice_bank(uri: str) -> list[Finding]:
    """Return everything wrong with a bank: files against the manifest, every clip against its row, digest and counts.

    Raises:
        BuildError: there is no manifest of a bank.
    """
    store = open_store(uri)
    manifest = read_bank_manifest(store)
    findings = [*_check_files(store, manifest)]
    rows: list[dict[str, Any]] = []
    for shard in manifest.shards:
        for batch in read_batches(store, shard, BANK_VOICE):
            if isinstance(batch, Finding):
                findings.append(batch)
                continue
            for row in batch.to_pylist():
                findings += [Finding(shard.file, problem, row["voice"], name) for name, problem in _check_row(row)]
                rows.append({name: row[name] for name in _DESCRIBING})
    doubled = sorted(voice for voice, count in Counter(row["voice"] for row in rows).items() if count > 1)
    findings += [Finding(MANIFEST_NAME, f"voice {voice} is there more than once") for voice in doubled]
    if digest_voices(rows) != manifest.digest:
        findings.append(Finding(MANIFEST_NAME, "has another digest than its voices", field="digest"))
    return [*findings, *_check_counts(store, manifest, len(rows))]


def _check_files(store: Store, manifest: VoiceBankManifest) -> Iterator[Finding]:
    listed: list[FileInfo] = [*manifest.shards, *manifest.rejects]
    for info in listed:
        if not store.exists(info.file):
            yield Finding(info.file, "is missing")
        elif (size := store.size(info.file)) != info.bytes:
            yield Finding(info.file, f"has {size} bytes, the manifest says {info.bytes}")
        elif (found := store.sha256(info.file)) != info.sha256:
            yield Finding(info.file, f"has checksum {found[:12]}…, the manifest says {info.sha256[:12]}…")
    for name in store.list(DATA_FOLDER):
        if name not in {info.file for info in listed}:
            yield Finding(name, "is not in the manifest")


def _check_row(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    import soundfile

    data = (row["audio"] or {}).get("bytes") or b""
    if hashlib.sha256(data).hexdigest() != row["audio_sha256"]:
        yield "audio", "does not match its checksum"
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as exc:
        yield "audio", f"cannot be decoded ({exc})"
        return
    if samples.shape[1] != 1 or rate != row["sampling_rate"]:
        yield "audio", f"has {samples.shape[1]} channels at {rate} Hz, the row says one at {row['sampling_rate']}"
    if abs(len(samples) / rate - row["duration_s"]) > _DURATION_TOLERANCE_S:
        yield "duration_s", f"says {row['duration_s']:.3f}, the clip has {len(samples) / rate:.3f}"
    norm = float(np.linalg.norm(np.array(row["embedding"] or [], np.float32)))
    if abs(norm - 1) > 1e-3:
        yield "embedding", f"has norm {norm:.3f}, not 1"


def _check_counts(store: Store, manifest: VoiceBankManifest, voices: int) -> Iterator[Finding]:
    counts = manifest.counts
    if voices != counts.voices:
        yield Finding(MANIFEST_NAME, f"says {counts.voices} voices, the shards have {voices}", field="counts")
    if counts.speakers != counts.voices + sum(counts.speaker_reasons.values()):
        problem = f"of {counts.speakers} speakers, {counts.voices} are voices and others not all rejected"
        yield Finding(MANIFEST_NAME, problem, field="counts")
    found: Counter[str] = Counter()
    for info in manifest.rejects:
        for batch in read_batches(store, info, None):
            if isinstance(batch, Finding):
                yield batch
            else:
                found.update(batch.column("reject_reason").to_pylist())
    stated = Counter(counts.speaker_reasons) + Counter(counts.clip_reasons)
    for reason in sorted({*found, *stated}):
        if found[reason] != stated[reason]:
            problem = f"says {stated[reason]} rejected as {reason}, the rejects have {found[reason]}"
            yield Finding(MANIFEST_NAME, problem, field="counts")


@contextlib.contextmanager
def _open_shard(store: Store, shard: ShardInfo) -> Iterator[pq.ParquetFile]:
    try:
        with store.open_read(shard.file) as source, pq.ParquetFile(source) as file:
            yield file
    except (StorageError, pa.ArrowException, OSError, ValueError, KeyError) as exc:
        reason = str(exc).splitlines()[0].rstrip(".")
        raise InputError(f"voice bank {store.uri}: {shard.file} cannot be read ({reason}); copy it anew") from exc


def _read_index(store: Store, shards: Sequence[ShardInfo]) -> _Index:
    index = _Index()
    for shard in shards:
        with _open_shard(store, shard) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, columns=_DESCRIBING).to_pylist()
                index.places.update({row["voice"]: (shard, group, at) for at, row in enumerate(rows)})
                index.rows += rows
    index.rows.sort(key=lambda row: row["voice"])
    return index
