"""The audio of a corpus: which files a recording has, and their checksums."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass

from bystander.schemas.errors import InputError
from bystander.storage.corpora.corpus_files import list_audio_files
from bystander.storage.filesystem_opening import open_filesystem

_NAME = re.compile(r"(?P<recording>.+?)(?:\.(?P<kind>Headset|Lapel)-(?P<number>\d+)|\.Mix-(?P<mix>Headset|Lapel))?")
_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True)
class RecordingAudio:
    """Files of one recording, as paths or URLs: one with all its channels, or one a microphone, in their order."""

    files: tuple[str, ...]
    digests: tuple[str, ...]
    """SHA-256 of each."""


class CorpusAudio:
    """The audio below a folder, found by name: `<recording>.wav`, or AMI's `.Headset-0.wav` and `.Mix-Headset.wav`.

    Of several, headsets come first, then lapel microphones, the recording's own name, and mixtures.
    """

    def __init__(self, folder: str | None) -> None:
        """List the folder; without one there is no audio.

        Raises:
            InputError: it is not there, or cannot be read.
        """
        self._found: dict[str, dict[str, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
        self._digests: dict[str, str] = {}
        for path in list_audio_files(folder) if folder is not None else ():
            match = _NAME.fullmatch(path.rpartition("/")[2].rpartition(".")[0])
            if match is None:
                continue
            kind = match["kind"] or (f"Mix-{match['mix']}" if match["mix"] else "")
            self._found[match["recording"]][kind].setdefault(int(match["number"] or 0), path)

    def find(self, recording: str) -> RecordingAudio | None:
        """Return the files of a recording, digested now, or None where there are none.

        Raises:
            InputError: a file cannot be read.
        """
        kinds = self._found.get(recording)
        if kinds is None:
            return None
        kind = next(kind for kind in ("Headset", "Lapel", "", "Mix-Headset", "Mix-Lapel") if kind in kinds)
        files = tuple(path for _, path in sorted(kinds[kind].items()))
        return RecordingAudio(files, tuple(self._digest(path) for path in files))

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            system, name = open_filesystem(path)
            digest = hashlib.sha256()
            try:
                with system.open(name, "rb") as file:
                    while chunk := file.read(_CHUNK):
                        digest.update(chunk)
            except OSError as exc:
                raise InputError(f"audio {path}: cannot be read ({exc.strerror or exc})") from exc
            self._digests[path] = digest.hexdigest()
        return self._digests[path]
