"""The files of a corpus: in a folder, an archive or alone, on any filesystem."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from bystander.schemas.errors import InputError
from bystander.storage.filesystem_opening import open_filesystem

MAX_BYTES = 1 << 30
"""A longer file is no transcript."""


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """Names of files, with `/` between folders, and how each is read."""

    names: tuple[str, ...]
    read: Callable[[str], bytes]


def list_corpus_files(path: str, what: str = "corpus") -> CorpusFiles:
    """List the files of a folder, a zip archive, a pattern or one file; gzip is undone as they are read.

    Raises:
        InputError: there is nothing, or it cannot be read.
    """
    system, root = open_filesystem(path)
    try:
        if system.isfile(root):
            if root.lower().endswith(".zip"):
                return _list_archive(system.cat_file(root), path, what)
            found, base = [root], root.rpartition("/")[0]
        elif system.isdir(root):
            found, base = sorted(system.find(root)), root
        else:
            found = (
                sorted(one for one in system.glob(root) if system.isfile(one)) if any(c in path for c in "*?[") else []
            )
            base = ""
    except OSError as exc:
        raise InputError(f"{what} {path}: cannot be read ({exc.strerror or exc})") from exc
    if not found:
        raise InputError(f"{what} {path}: there is no file; give a folder, a file, a zip archive or a pattern")
    full = {one.removeprefix(base.rstrip("/") + "/") if base else one: one for one in found}

    def read(name: str) -> bytes:
        try:
            if system.size(full[name]) > MAX_BYTES:
                raise InputError(f"{what} {name}: is larger than {MAX_BYTES >> 20} MiB, so it is no transcript")
            return _unpack(name, system.cat_file(full[name]), what)
        except OSError as exc:
            raise InputError(f"{what} {name}: cannot be read ({exc.strerror or exc})") from exc

    return CorpusFiles(tuple(full), read)


def _list_archive(data: bytes, path: str, what: str) -> CorpusFiles:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except zipfile.BadZipFile as exc:
        raise InputError(f"{what} {path}: is no zip archive ({exc})") from exc
    sizes = {entry.filename: entry.file_size for entry in archive.infolist() if not entry.is_dir()}

    def read(name: str) -> bytes:
        if sizes[name] > MAX_BYTES:
            raise InputError(f"{what} {path}: {name} is larger than {MAX_BYTES >> 20} MiB, so it is no transcript")
        try:
            return _unpack(name, archive.read(name), what)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as exc:
            raise InputError(f"{what} {path}: {name} cannot be unpacked ({exc})") from exc

    return CorpusFiles(tuple(sorted(sizes)), read)


def _unpack(name: str, data: bytes, what: str) -> bytes:
    if not name.lower().endswith(".gz"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as exc:
        raise InputError(f"{what} {name}: is no whole gzip file ({exc})") from exc


_AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".au", ".sph")


def list_audio_files(folder: str) -> list[str]:
    """Return the audio files in a folder and below, as paths or URLs, sorted.

    Raises:
        InputError: there is no such folder, or it cannot be read.
    """
    system, root = open_filesystem(folder)
    try:
        if not system.isdir(root):
            raise InputError(f"audio {folder}: there is no such folder")
        found = [one for one in system.find(root) if one.lower().endswith(_AUDIO_SUFFIXES)]
    except OSError as exc:
        raise InputError(f"audio {folder}: cannot be read ({exc.strerror or exc})") from exc
    is_local = "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)
    return sorted(one if is_local else str(system.unstrip_protocol(one)) for one in found)
