"""Makes a bank of reference voices from speech of many speakers; what is finished survives the end of the process."""

from __future__ import annotations

import posixpath
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa

from bystander.schemas.errors import InputError
from bystander.schemas.identity import digest_json
from bystander.schemas.model_manifest import load_manifest
from bystander.schemas.voice_bank import BANK_REJECT, BANK_VOICE, SPEAKER_REASONS
from bystander.schemas.voice_bank_config import IndexVoicesConfig, VoiceSourceConfig
from bystander.storage.build_lock import lock_build
from bystander.storage.build_manifest import (
    MANIFEST_NAME,
    EngineInfo,
    FileInfo,
    ModelFileInfo,
    get_code_version,
    list_package_versions,
)
from bystander.storage.filesystem import Store, open_store
from bystander.storage.shards import ShardWriter, write_table
from bystander.storage.speaker_parts import SPEAKERS_FOLDER, WORK_FOLDER, read_speaker_part
from bystander.storage.voice_bank import DATA_FOLDER, digest_voices
from bystander.storage.voice_bank_manifest import (
    VoiceBankManifest,
    VoiceCounts,
    VoiceSourceInfo,
    read_bank_manifest,
    write_bank_manifest,
)
from bystander.storage.voice_folders import list_folder_speakers
from bystander.storage.voice_sources import SourceListing, SourceSpeaker
from bystander.storage.voice_tables import VoiceTables
from bystander.tasks.voice_workers import (
    WAITING_A_WORKER,
    SpeakerDone,
    SpeakerTask,
    SpeakerWorker,
    list_task,
    run_tasks,
)

_RECIPE_VERSION = 1
"""Raised whenever the same source and settings would give another bank."""
_GROUP_ROWS = 16
"""Of a bank's row groups: a clip is read alone, and its row group with it."""
_SPEAKERS_AT_ONCE = 500
"""Of a table, whose clips are copied out together: about 1 GB of disk."""
_SPLIT = "voices"
_REJECTS = f"rejects/{_SPLIT}.parquet"
_PACKAGES = ("av", "librosa", "numpy", "onnxruntime", "pyarrow", "scipy", "soundfile", "soxr")

OnSpeaker = Callable[[int, int, int, bool], None]
"""Told after each speaker: done, of how many, how many of those are voices, and whether it had been done before."""


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """Where the bank is, its manifest, whether it was there already, and the result in sentences."""

    location: str
    manifest: VoiceBankManifest
    unchanged: bool
    summary: tuple[str, ...]


def index_voices(
    config: IndexVoicesConfig, to: str, on_speaker: OnSpeaker | None = None, *, replace_bank: bool = False
) -> IndexOutcome:
    """Choose and check a reference clip of each speaker of a source, and write the bank.

    A finished bank that another source or other settings made stays as it is, unless `replace_bank` is set; then too it
    stays until there is a voice to replace it with.

    Each speaker that is done is kept in `work/` of the bank's folder until the bank is finished, under a key of the
    speaker's files, the settings and the engines. So a run that was stopped goes on, and one with other settings takes
    nothing from it. Speakers are indexed by `workers` processes; this one holds no audio but of the shard's row group
    that it is writing.

    Raises:
        InputError: the source is missing, cannot be read, or has no speaker whose speech can be used; or a finished
            bank of something else is in this place.
        EngineError: an engine failed as a whole, or a worker died.
        BuildError: another process makes the same bank.
        StorageError: the bank cannot be written.
    """
    store = open_store(to)
    _check_place(store)
    tables = VoiceTables(config.source) if _is_table(config.source) else None
    listing = list_folder_speakers(config.source) if tables is None else tables.listing
    engines = SpeakerWorker(config, store)
    identities = {"decoder": engines.decoder.identity, "verifier": engines.verifier.identity}
    engines.close()
    described = {role: identity.describe() for role, identity in identities.items()}
    recipe = digest_json([_RECIPE_VERSION, config.describe()["index"], described])
    tasks = [_make_task(speaker, listing, recipe, tables, config) for speaker in listing.speakers]
    finished = _find_finished(store, tasks, listing)
    if finished is not None:
        return IndexOutcome(store.uri, finished, True, summarise_bank(store.uri, finished))
    if not replace_bank and store.exists(MANIFEST_NAME):
        _refuse_other(store, config)
    with lock_build(store.child(WORK_FOLDER), _SPLIT, "index"):
        done = _run(config, store, tasks, tables, on_speaker)
        manifest = _assemble(config, store, listing, done, described)
    store.remove(WORK_FOLDER, recursive=True)
    return IndexOutcome(store.uri, manifest, False, summarise_bank(store.uri, manifest))


def summarise_bank(location: str, manifest: VoiceBankManifest) -> tuple[str, ...]:
    """Return a bank in sentences, one a line."""
    counts = manifest.counts
    lines = [
        f"{location}: {counts.voices} voices of {counts.speakers} speakers ({manifest.source.layout}), "
        f"{sum(shard.bytes for shard in manifest.shards) / 1e6:.0f} MB.",
        f"Clips: {counts.clips} found, {counts.clips_read} read, {counts.clips_usable} usable.",
    ]
    for what, reasons in (("Speakers", counts.speaker_reasons), ("Clips", counts.clip_reasons)):
        if reasons:
            listed = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
            lines.append(f"{what} rejected: {sum(reasons.values())} ({listed}).")
    if manifest.source.ignored:
        listed = ", ".join(f"{ending} {count}" for ending, count in sorted(manifest.source.ignored.items()))
        lines.append(f"Files that are no audio: {listed}.")
    return tuple(lines)


def _check_place(store: Store) -> None:
    """Refuse a folder that holds something else: a bank's data are replaced."""
    if store.exists(MANIFEST_NAME):
        read_bank_manifest(store)  # raises where it is none of a bank
    elif not store.exists(SPEAKERS_FOLDER) and store.list():
        raise InputError(f"voice bank {store.uri}: this folder holds other files; name a new one with --to")


def _refuse_other(store: Store, config: IndexVoicesConfig) -> None:
    """Refuse to replace a finished bank, unless it is of the same source and settings and only the files changed."""
    manifest = read_bank_manifest(store)
    asked = config.model_dump(mode="json", include={"source", "index", "verifier"})
    if any(manifest.config.get(name) != value for name, value in asked.items()):
        raise InputError(
            f"voice bank {store.uri}: is finished, and was made of another source or other settings "
            f"({manifest.source.uri}); name another place with --to, or replace it with --replace"
        )


def _is_table(source: VoiceSourceConfig) -> bool:
    if source.layout != "auto":
        return source.layout == "parquet"
    if source.path.endswith(".parquet"):
        return True
    try:
        system, root = fsspec.core.url_to_fs(source.path)
        if not system.isdir(root):
            return False
        folders = [root, posixpath.join(root, "data")]
        names = [name for folder in folders if system.isdir(folder) for name in system.ls(folder, detail=False)]
    except Exception:  # file systems raise errors of their own kind; the reader says what is wrong
        return False
    return any(str(name).endswith(".parquet") for name in names)


def _make_task(
    speaker: SourceSpeaker, listing: SourceListing, recipe: str, tables: VoiceTables | None, config: IndexVoicesConfig
) -> SpeakerTask:
    stated = {
        "language": speaker.language or listing.language,
        "licence": listing.licence,
        "source": listing.name,
    }
    if tables is None:
        return SpeakerTask(speaker, stated, recipe)
    rows = tables.choose_rows(speaker, config.index.max_read)
    marks = tuple(tables.mark_row(row) for row in rows)
    return SpeakerTask(speaker, stated, recipe, (), tables.count_clips(speaker), marks)


def _find_finished(store: Store, tasks: Sequence[SpeakerTask], listing: SourceListing) -> VoiceBankManifest | None:
    """Return the manifest of a bank that was made of all this before and is there whole."""
    if not store.exists(MANIFEST_NAME):
        return None
    manifest = read_bank_manifest(store)
    keys = [list_task(task)[2] for task in tasks]
    if manifest.content_digest != _digest_content(keys, listing):
        return None
    files: list[FileInfo] = [*manifest.shards, *manifest.rejects]
    whole = all(store.exists(info.file) and store.size(info.file) == info.bytes for info in files)
    return manifest if whole else None


def _digest_content(keys: Iterable[str], listing: SourceListing) -> str:
    return digest_json([sorted(keys), listing.rejects, listing.layout])


def _run(
    config: IndexVoicesConfig,
    store: Store,
    tasks: Sequence[SpeakerTask],
    tables: VoiceTables | None,
    on_speaker: OnSpeaker | None,
) -> list[SpeakerDone]:
    done: list[SpeakerDone] = []
    voices = 0
    for one in _work_through(config, store, tasks, tables):
        done.append(one)
        voices += one.has_voice
        if on_speaker is not None:
            on_speaker(len(done), len(tasks), voices, one.reused)
    return sorted(done, key=lambda one: one.voice)


def _work_through(
    config: IndexVoicesConfig, store: Store, tasks: Sequence[SpeakerTask], tables: VoiceTables | None
) -> Iterator[SpeakerDone]:
    if tables is None:
        yield from run_tasks(config, store, tasks)
        return
    left = []
    for task in tasks:
        key = list_task(task)[2]
        before = read_speaker_part(store, key)
        if before is None:
            left.append(task)
        else:
            yield SpeakerDone(task.speaker.voice, key, len(before[0]) > 0, True)
    yield from run_tasks(config, store, _copy_out(config, left, tables, _clear_copies(store)))


def _clear_copies(store: Store) -> Path | None:
    """Return the folder for copied clips: in the bank's own, where a killed run's are found and removed."""
    folder = store.local_path(f"{WORK_FOLDER}/clips")
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    return folder


def _copy_out(
    config: IndexVoicesConfig, tasks: Sequence[SpeakerTask], tables: VoiceTables, parent: Path | None
) -> Iterator[SpeakerTask]:
    """Yield the tasks with their clips, some hundreds at a time; a folder of clips is gone when its tasks are done.

    The next folder is asked for while the last tasks of one may still run, so one more is kept.
    """
    remaining = iter(tasks)
    kept: list[tempfile.TemporaryDirectory[str]] = []
    try:
        while members := list(islice(remaining, max(_SPEAKERS_AT_ONCE, 2 * config.workers * WAITING_A_WORKER))):
            kept.append(tempfile.TemporaryDirectory(prefix="bystander-voices-", dir=parent))
            if len(kept) > 2:
                kept.pop(0).cleanup()
            wanted = {task.speaker.voice: tables.choose_rows(task.speaker, config.index.max_read) for task in members}
            clips = tables.copy_clips(wanted, Path(kept[-1].name))
            for task in members:
                yield replace(task, clips=tuple(clips[task.speaker.voice]))
    finally:
        for folder in kept:
            folder.cleanup()


def _assemble(
    config: IndexVoicesConfig,
    store: Store,
    listing: SourceListing,
    done: Sequence[SpeakerDone],
    engines: dict[str, dict[str, Any]],
) -> VoiceBankManifest:
    gathered = _Gathered(list(listing.rejects))
    if not any(one.has_voice for one in done):
        for one in done:
            gathered.take(*_read_part(store, one))
        where = f"{WORK_FOLDER}/{_REJECTS}" if store.exists(MANIFEST_NAME) else _REJECTS
        _write_rejects(store, gathered.rejects, where)
        reasons = ", ".join(sorted({reject["reject_reason"] for reject in gathered.rejects}))
        raise InputError(
            f"voices {config.source.path}: of {len(listing.speakers)} speakers, none has speech that can be used "
            f"({reasons}); {store.uri_of(where)} says why, and index.* what is asked of a clip"
        )
    store.remove(MANIFEST_NAME)
    with ShardWriter(
        store, DATA_FOLDER, _SPLIT, BANK_VOICE, sampling_rate=None, shard_mib=config.shard_mib, group_rows=_GROUP_ROWS
    ) as writer:
        for one in done:
            voice = gathered.take(*_read_part(store, one))
            if voice is not None:
                writer.write(voice)
    rejects = _write_rejects(store, gathered.rejects)
    ignored = Counter(listing.ignored)
    for one in done:
        ignored.update(one.ignored)
    manifest = VoiceBankManifest(
        digest=digest_voices(gathered.rows),
        content_digest=_digest_content([one.key for one in done], listing),
        config=config.model_dump(mode="json"),
        code_version=get_code_version(),
        packages=list_package_versions(_PACKAGES),
        engines={role: EngineInfo(**info) for role, info in engines.items()},
        models=_list_models(config),
        source=VoiceSourceInfo(
            uri=config.source.path,
            layout=listing.layout,
            name=listing.name,
            licence=listing.licence,
            ignored=dict(sorted(ignored.items())),
        ),
        counts=gathered.count(len(listing.speakers)),
        shards=tuple(writer.shards),
        rejects=rejects,
    )
    write_bank_manifest(store, manifest)
    return manifest


def _read_part(store: Store, done: SpeakerDone) -> tuple[pa.Table, dict[str, Any]]:
    part = read_speaker_part(store, done.key)
    if part is None:
        raise InputError(f"voice bank {store.uri}: the part of {done.voice} is gone; run the same command again")
    return part


class _Gathered:
    """Voices without their clips, and rejects, of all speakers so far."""

    def __init__(self, rejects: list[dict[str, Any]]) -> None:
        self.rejects = rejects
        self.rows: list[dict[str, Any]] = []
        self._owners: dict[str, str] = {}
        self._found = self._read = 0
        self._unusable = 0
        self._stray = len(rejects)

    def take(self, table: pa.Table, facts: dict[str, Any]) -> pa.Table | None:
        """Take in a speaker; return the voice where there is one that no earlier speaker has."""
        self._found += facts["clips_found"]
        self._read += facts["clips_read"]
        self._unusable += sum(reject["clip"] is not None for reject in facts["rejects"])
        self.rejects += facts["rejects"]
        if not len(table):
            return None
        (row,) = table.drop_columns(["audio"]).to_pylist()
        owner = self._owners.setdefault(row["audio_sha256"], row["voice"])
        if owner != row["voice"]:
            detail = f"has the same reference clip as {owner}, which comes first"
            reason = "same_audio_as_other"
            self.rejects.append(
                {"speaker": row["voice"], "clip": None, "reject_reason": reason, "reject_detail": detail}
            )
            return None
        self.rows.append(row)
        return table

    def count(self, speakers: int) -> VoiceCounts:
        """Return the counts; every reject is either a speaker's or a clip's."""
        whole = Counter(one["reject_reason"] for one in self.rejects if one["reject_reason"] in SPEAKER_REASONS)
        clips = Counter(one["reject_reason"] for one in self.rejects if one["reject_reason"] not in SPEAKER_REASONS)
        return VoiceCounts(
            speakers=speakers,
            voices=len(self.rows),
            speaker_reasons=dict(sorted(whole.items())),
            clips=self._found + self._stray,
            clips_read=self._read,
            clips_usable=self._read - self._unusable,
            clip_reasons=dict(sorted(clips.items())),
        )


def _write_rejects(store: Store, rejects: Sequence[dict[str, Any]], path: str = _REJECTS) -> tuple[FileInfo, ...]:
    if not rejects:
        store.remove(path)
        return ()
    return (write_table(store, path, BANK_REJECT, [pa.Table.from_pylist(list(rejects), schema=BANK_REJECT)]),)


def _list_models(config: IndexVoicesConfig) -> tuple[ModelFileInfo, ...]:
    name = getattr(config.verifier, "model", None)
    entry = load_manifest().models.get(name) if name is not None else None
    if entry is None:
        return ()
    return tuple(
        ModelFileInfo(
            name=f"{name}/{file.path}",
            bytes=file.bytes,
            sha256=file.sha256,
            licence=entry.licence,
            sources=entry.source_names,
        )
        for file in entry.files
    )
