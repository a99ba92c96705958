"""Speakers of a folder of sound files: one sub-folder a speaker, one file a voice, or Multilingual LibriSpeech."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import fsspec

from bystander.schemas.errors import InputError
from bystander.schemas.voice_bank_config import VoiceSourceConfig
from bystander.storage.recording_listing import AUDIO_SUFFIXES, describe_fault
from bystander.storage.speaker_tables import TABLE_NAMES, read_genders
from bystander.storage.voice_sources import SourceClip, SourceListing, SourceSpeaker, name_voice

_SUBSET = re.compile(r"(train|dev|test|val|valid|validation|eval)([-_.].*)?", re.IGNORECASE)
_PASSED_OVER = frozenset(
    {"audio", "audios", "wav", "wavs", "flac", "clips", "speech", "wav48", "wav48_silence_trimmed"}
)
"""Folders between a sub-set and its speakers that name nobody."""
_MLS_FOLDER = re.compile(r"mls_([a-z]+)(_opus)?")
_MLS_LANGUAGES = {
    "dutch": "nl",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "polish": "pl",
    "portuguese": "pt",
    "spanish": "es",
}
_MLS_LICENCE = "CC BY 4.0"
"""Of the corpus, as its site says (openslr.org/94); the recordings are LibriVox's, in the public domain."""


@dataclass(slots=True)
class _Walk:
    """What is found on the way to the speakers: their folders and loose files, each with its sub-set."""

    folders: list[tuple[str | None, str]] = field(default_factory=list)
    files: list[tuple[str | None, str]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    subsets: set[str] = field(default_factory=set)
    is_mls: bool = False


def list_folder_speakers(config: VoiceSourceConfig) -> SourceListing:
    """Return the speakers of a folder.

    Folders that are named as sub-sets (train, dev-clean, test_other, ...) or as what they hold (audio, wavs, ...) are
    passed over; the first folder below them is a speaker, with all sound files in it at any depth. So LibriSpeech,
    VCTK and MLS are read as they are, and only the folders above speakers are listed: MLS has ten million files. With
    no such folder, each file is a voice of its own.

    Raises:
        InputError: the folder is missing or cannot be listed, or holds no sound file.
    """
    try:
        system, root = fsspec.core.url_to_fs(config.path)
        root = cast(str, root).rstrip("/") or "/"
        if not system.isdir(root):
            what = "is a file, not a folder or Parquet" if system.exists(root) else "there is no such folder"
            raise InputError(f"voices {config.path}: {what}")
        walk = _Walk()
        _walk(system, root, None, walk)
    except InputError:
        raise
    except Exception as exc:  # file systems raise errors of their own kind
        raise InputError(f"voices {config.path}: cannot be listed ({describe_fault(exc)})") from exc
    layout = config.layout if config.layout != "auto" else _tell_layout(walk)
    listing = _begin_listing(config, root, layout)
    genders = _find_genders(system, root)
    listing.ignored.update(posixpath.splitext(path)[1].casefold() or "without ending" for path in walk.others)
    if layout == "files":
        _add_files(system, root, walk, config, listing, genders)
    else:
        merges = config.merge_subsets if config.merge_subsets is not None else layout == "mls"
        _add_folders(system, walk, config, listing, genders, merges)
        listing.rejects += [
            {
                "speaker": None,
                "clip": posixpath.relpath(path, root),
                "reject_reason": "outside_speaker_folder",
                "reject_detail": "lies beside the folders of speakers; put it into one, or use --layout files",
            }
            for _, path in walk.files
        ]
    if not listing.speakers:
        what = "sound file" if layout == "files" else "folder of a speaker"
        raise InputError(f"voices {config.path}: holds no {what}; see --layout")
    listing.speakers.sort(key=lambda speaker: speaker.voice)
    return listing


def list_folder_clips(speaker: SourceSpeaker) -> tuple[list[SourceClip], dict[str, int]]:
    """Return the sound files of a speaker, by name, and how many others there are by ending.

    A clip's name is its path from the speaker's folder on, with the sub-set where there are several, so that equal file
    names of different folders are different clips.

    Raises:
        InputError: a folder cannot be listed.
    """
    clips, ignored = [], dict[str, int]()
    for subset, place in zip(speaker.subsets or ("",) * len(speaker.places), speaker.places, strict=True):
        try:
            system, inner = fsspec.core.url_to_fs(place)
            found = system.find(inner, detail=True) if system.isdir(inner) else {inner: system.info(inner)}
        except Exception as exc:  # file systems raise errors of their own kind
            raise InputError(f"voices {place}: cannot be listed ({describe_fault(exc)})") from exc
        above = posixpath.dirname(inner.rstrip("/"))
        for path, info in found.items():
            name = posixpath.relpath(path, above)
            ending = posixpath.splitext(path)[1].casefold()
            if ending not in AUDIO_SUFFIXES or any(part.startswith(".") for part in name.split("/")):
                ignored[ending or "without ending"] = ignored.get(ending or "without ending", 0) + 1
                continue
            shown = f"{subset}/{name}" if subset and len(speaker.places) > 1 else name
            clips.append(SourceClip(shown, _address(system, path), int(info.get("size") or 0)))
    return sorted(clips, key=lambda clip: clip.name), ignored


def _walk(system: Any, folder: str, subset: str | None, walk: _Walk) -> None:
    for info in sorted(system.ls(folder, detail=True), key=lambda info: info["name"]):
        path = info["name"].rstrip("/")
        name = posixpath.basename(path)
        if path == folder or name.startswith("."):
            continue
        if info["type"] != "directory":
            (walk.files.append((subset, path)) if _is_audio(path) else walk.others.append(path))
            walk.is_mls |= name == TABLE_NAMES[0]
        elif subset is None and _is_subset(system, path):
            walk.subsets.add(name)
            _walk(system, path, name, walk)
        elif name.casefold() in _PASSED_OVER:
            _walk(system, path, subset, walk)
        elif name != "limited_supervision":  # of MLS: lists of names, no speaker
            walk.folders.append((subset, path))


def _is_subset(system: Any, path: str) -> bool:
    """Whether a folder is named as a sub-set; one such as `test_speaker` that holds sound files itself is a speaker."""
    match = _SUBSET.fullmatch(posixpath.basename(path))
    return match is not None and (not match[2] or not any(_is_audio(name) for name in system.ls(path, detail=False)))


def _tell_layout(walk: _Walk) -> str:
    if walk.is_mls:
        return "mls"
    return "folders" if walk.folders else "files"


def _begin_listing(config: VoiceSourceConfig, root: str, layout: str) -> SourceListing:
    name = posixpath.basename(root)
    match = next(filter(None, (_MLS_FOLDER.fullmatch(part) for part in root.split("/")[::-1])), None)
    language = _MLS_LANGUAGES.get(match[1]) if match else None
    return SourceListing(
        layout=layout,
        language=config.language or language or "en",
        licence=config.licence if config.licence is not None else (_MLS_LICENCE if layout == "mls" else ""),
        name=config.name or name,
    )


def _find_genders(system: Any, root: str) -> Mapping[str, Any]:
    """Return what the tables of the corpus say, which lie in its folder, or above where a sub-set was named."""
    for folder in (root, posixpath.dirname(root)):
        for name in TABLE_NAMES:
            path = posixpath.join(folder, name)
            if system.isfile(path):
                return read_genders(system, path)
    return {}


def _add_files(
    system: Any,
    root: str,
    walk: _Walk,
    config: VoiceSourceConfig,
    listing: SourceListing,
    genders: Mapping[str, Any],
) -> None:
    """Each file is a voice, named by its path without its ending; with it where two differ in nothing else."""
    paths = [path for _, path in walk.files]
    paths += [path for _, folder in walk.folders for path in _find_audio(system, folder, listing)]
    names = {path: posixpath.splitext(posixpath.relpath(path, root))[0] for path in paths}
    uses = Counter(names.values())
    for path in paths:
        speaker = posixpath.relpath(path, root) if uses[names[path]] > 1 else names[path]
        listing.speakers.append(
            SourceSpeaker(
                voice=name_voice(config.id_prefix, speaker, None),
                speaker=speaker,
                gender=genders.get(speaker),
                places=(_address(system, path),),
            )
        )


def _add_folders(
    system: Any,
    walk: _Walk,
    config: VoiceSourceConfig,
    listing: SourceListing,
    genders: Mapping[str, Any],
    merges: bool,
) -> None:
    groups: dict[tuple[str | None, str], list[tuple[str | None, str]]] = {}
    for subset, path in walk.folders:
        groups.setdefault((None if merges else subset, posixpath.basename(path)), []).append((subset, path))
    for (subset, name), places in groups.items():
        listing.speakers.append(
            SourceSpeaker(
                voice=name_voice(config.id_prefix, name, subset),
                speaker=name,
                subsets=tuple(within or "" for within, _ in places),
                gender=genders.get(name),
                places=tuple(_address(system, path) for _, path in places),
            )
        )


def _find_audio(system: Any, folder: str, listing: SourceListing) -> Iterator[str]:
    for path in sorted(cast(Sequence[str], system.find(folder))):
        if _is_audio(path):
            yield path
        else:
            listing.ignored[posixpath.splitext(path)[1].casefold() or "without ending"] += 1


def _is_audio(path: str) -> bool:
    return posixpath.splitext(path)[1].casefold() in AUDIO_SUFFIXES


def _address(system: Any, path: str) -> str:
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    return path if protocol in ("file", "local") else cast(str, system.unstrip_protocol(path))
