"""Finding the audio files of recordings, those that belong together, and the transcripts that belong to them."""

from __future__ import annotations

import io
import os
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import fsspec
from fsspec.core import split_protocol
from fsspec.implementations.local import LocalFileSystem

from bystander.schemas.errors import InputError
from bystander.storage.recording_sides import fold_stem, order_sides, place_side, read_side
from bystander.storage.transcripts.read_transcript import SUFFIXES as TRANSCRIPT_SUFFIXES

AUDIO_SUFFIXES = frozenset(
    ".wav .wave .w64 .rf64 .flac .mp3 .mp2 .opus .ogg .oga .sph .sphere .nist .aif .aiff .aifc .au .snd .caf "
    ".m4a .m4b .mp4 .mov .aac .ac3 .webm .mka .mkv .wma .amr .3gp .gsm .wv .ape .tta .shn .spx".split()
)
"""Endings that make a file of a folder audio. What it is decides its content."""

_PROBED_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file on any fsspec filesystem. `name` is its path within the folder that was searched."""

    name: str
    path: str
    filesystem: Any = field(repr=False, compare=False)
    inner: str

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.name)

    @property
    def stem(self) -> str:
        """The name without folder and ending (`.seglst.json` is one)."""
        stem, ending = posixpath.splitext(posixpath.basename(self.name))
        return stem.removesuffix(".seglst") if ending.casefold() == ".json" else stem

    @property
    def suffix(self) -> str:
        return posixpath.splitext(self.name)[1].casefold()

    def open(self) -> Any:
        """Open it for reading; raises what the filesystem raises."""
        return self.filesystem.open(self.inner, "rb", compression=None)


@dataclass(frozen=True, slots=True)
class FoundAudio:
    """The audio of one recording: a file, or one a speaker in the order of the channels."""

    files: tuple[FoundFile, ...]
    stem: str

    @property
    def source(self) -> str:
        return " + ".join(file.name for file in self.files)


def find_file(address: str) -> FoundFile:
    """Return a file, which need not be there.

    Raises:
        InputError: its protocol is unknown or needs a package that is missing.
    """
    try:
        system, inner = fsspec.core.url_to_fs(address)
    except (ValueError, ImportError) as exc:
        raise InputError(f"{address}: cannot be reached ({exc})") from exc
    is_web = split_protocol(address)[0] in ("http", "https")
    name = posixpath.basename(unquote(urlsplit(address).path) if is_web else inner)
    return FoundFile(name, _name_path(system, inner) if not is_web else address, system, inner)


def list_files(address: str, what: str) -> list[FoundFile]:
    """Return the files of a folder and all below it, of a glob, or the one file, in the order of their names.

    Raises:
        InputError: there is nothing, or the filesystem refuses it; `what` begins the message.
    """
    try:
        system, inner = fsspec.core.url_to_fs(address)
        inner = cast(str, inner).rstrip("/") or "/"
        if system.isfile(inner):
            return [find_file(address)]
        if system.isdir(inner):
            paths, root = system.find(inner), inner
        elif any(sign in address for sign in "*?["):
            paths = [path for path in system.glob(inner) if not system.isdir(path)]
            fixed = inner[: min(inner.index(sign) for sign in "*?[" if sign in inner)]
            root = posixpath.dirname(fixed)
            if not paths:
                raise InputError(f"{what} {address}: no file matches this pattern")
        else:
            raise InputError(f"{what} {address}: there is no such file or folder")
    except ImportError as exc:
        raise InputError(
            f"{what} {address}: reading {split_protocol(address)[0]}:// needs a package that is not here ({exc})"
        ) from exc
    except InputError:
        raise
    except Exception as exc:  # file systems raise errors of their own kind
        raise InputError(f"{what} {address}: cannot be reached ({describe_fault(exc)})") from exc
    return [
        FoundFile(posixpath.relpath(path, root), _name_path(system, path), system, path)
        for path in sorted(paths)
        if not any(part.startswith(".") for part in posixpath.relpath(path, root).split("/"))
    ]


def is_transcript(file: FoundFile) -> bool:
    """Whether a file's ending is that of a transcript."""
    return file.suffix in TRANSCRIPT_SUFFIXES


def pair_audio(files: Iterable[FoundFile]) -> Iterator[FoundAudio]:
    """Yield the recordings of audio files: two files of one name whose ends are a pair of sides are one.

    `call_A.wav` and `call_B.wav`, `call-left` and `call-right`, `call.ch0` and `call.ch1`, `call_1` and `call_2` (where
    no third number is there), `left.wav` and `right.wav` of one folder; their endings are the same. Files that hold two
    channels each are not paired: they are recordings that are numbered.
    """
    files = list(files)
    groups: dict[tuple[str, str, str, str], dict[str, list[FoundFile]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        if (side := read_side(file.stem)) is not None:
            groups[file.folder, side.base, side.kind, file.suffix][side.label].append(file)
    partners: dict[str, FoundAudio] = {}
    for (folder, base, _, _), members in groups.items():
        order = order_sides(set(members))
        if order is None or any(len(same) > 1 for same in members.values()):
            continue
        pair = (members[order[0]][0], members[order[1]][0])
        if not any((count_channels(file) or 1) > 1 for file in pair):
            audio = FoundAudio(pair, base or posixpath.basename(folder) or "recording")
            partners.update({file.name: audio for file in pair})
    for file in files:
        audio = partners.get(file.name) or FoundAudio((file,), file.stem)
        if audio.files[0] is file:
            yield audio


def count_channels(file: FoundFile) -> int | None:
    """Return the channels that a file's header declares; None where libsndfile cannot tell from its beginning."""
    import soundfile

    try:
        with file.open() as stream:
            head = stream.read(_PROBED_BYTES)
        return int(soundfile.info(io.BytesIO(head)).channels)
    except Exception:  # an unreadable file is found out, and said, when it is read
        return None


class TranscriptIndex:
    """Transcripts by the name of the recording that they belong to."""

    def __init__(self, files: Sequence[FoundFile], audio: Sequence[FoundAudio] = ()) -> None:
        """Index the files that are transcripts by their endings. What lies beside `audio` of its name belongs to it."""
        self._owned = {
            (recording.files[0].folder, fold_stem(stem))
            for recording in audio
            for stem in (recording.stem, *(file.stem for file in recording.files))
        }
        self.files = [file for file in files if is_transcript(file)]
        self._by_stem: dict[str, list[FoundFile]] = defaultdict(list)
        self._by_side: dict[tuple[str, int], list[FoundFile]] = defaultdict(list)
        for file in self.files:
            self._by_stem[fold_stem(file.stem)].append(file)
            side = read_side(file.stem)
            place = place_side(side) if side is not None else None
            if side is not None and place is not None:
                self._by_side[fold_stem(side.base), place].append(file)

    def find_whole(self, audio: FoundAudio) -> list[FoundFile]:
        """Return the transcripts of a whole recording: those of its name, in its folder if there are any there."""
        key = fold_stem(audio.stem)
        return self._prefer_folder(self._by_stem.get(key, []), audio.files[0], key)

    def find_sides(self, audio: FoundAudio) -> tuple[list[FoundFile], list[FoundFile]]:
        """Return the transcripts of each channel's own: named as its file is, or as the recording with a side."""
        found = []
        for place in (0, 1):
            key = fold_stem(audio.files[place].stem) if len(audio.files) > 1 else ""
            own = self._by_stem.get(key, [])
            if not own:
                key = fold_stem(audio.stem)
                own = self._by_side.get((key, place), [])
            found.append(self._prefer_folder(own, audio.files[0], key))
        return found[0], found[1]

    def _prefer_folder(self, files: Sequence[FoundFile], audio: FoundFile, key: str) -> list[FoundFile]:
        beside = [file for file in files if file.folder == audio.folder]
        return beside or [file for file in files if (file.folder, key) not in self._owned]


def _name_path(system: Any, inner: str) -> str:
    if isinstance(system, LocalFileSystem):
        return os.path.abspath(inner)  # noqa: PTH100 - `resolve` would follow links, which have names of their own
    return cast(str, system.unstrip_protocol(inner))


def describe_fault(exc: BaseException) -> str:
    """Return one line about an exception of a filesystem."""
    text = getattr(exc, "strerror", None) or str(exc).strip().split("\n", 1)[0]
    return (text or type(exc).__name__)[:200]
