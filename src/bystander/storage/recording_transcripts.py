"""The transcript of one recording from the files that belong to it, as utterances on channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bystander.storage.recording_listing import FoundFile, describe_fault
from bystander.storage.recording_sides import fold_stem
from bystander.storage.transcripts.channels import assign_channels
from bystander.storage.transcripts.read_transcript import (
    CTM,
    MAX_BYTES,
    PARSERS,
    SEGLST,
    STM,
    name_format,
    parse_transcript,
)
from bystander.storage.transcripts.segments import Segment, Transcript, TranscriptError

_OF_CORPORA = frozenset({CTM, STM, SEGLST})


@dataclass(frozen=True, slots=True)
class ReadTranscript:
    """A transcript as `RAW_RECORDING` has it; `utterances` are rows of `UTTERANCE`."""

    format: str
    utterances: list[dict[str, Any]]
    speakers: tuple[str, str]
    language: str | None = None


def read_whole(
    files: Sequence[FoundFile], stem: str, speakers: tuple[str, str] | None, form: str | None
) -> ReadTranscript:
    """Read the transcript of a whole recording; of several formats, the first in the order of `PARSERS`.

    Raises:
        TranscriptError: it cannot be read or used; its message names the file.
    """
    file, chosen, transcript = _choose(files, form)
    try:
        segments = _take_recording(transcript.segments, stem)
        places, names = assign_channels(segments, stem, speakers) if segments else ([], speakers or ("", ""))
    except TranscriptError as exc:
        raise TranscriptError(f"transcript {file.name}, {exc}", exc.reason) from exc
    return _finish(chosen, list(zip(places, segments, strict=True)), names, transcript.language, file.name)


def read_sides(
    sides: tuple[Sequence[FoundFile], Sequence[FoundFile]],
    stem: str,
    speakers: tuple[str, str] | None,
    form: str | None,
) -> ReadTranscript:
    """Read a transcript that has a file a channel, whatever labels are in it. One that is missing has no speech.

    Raises:
        TranscriptError: one cannot be read or used; its message names the file.
    """
    placed: list[tuple[int, Segment]] = []
    names = list(speakers or (f"{stem}-A", f"{stem}-B"))
    formats, languages, read = [], [], []
    for place, files in enumerate(sides):
        if not files:
            continue
        file, chosen, transcript = _choose(files, form)
        labels = {segment.speaker for segment in transcript.segments if segment.speaker}
        if len(labels) > 1:
            raise TranscriptError(
                f"transcript {file.name}, has {len(labels)} speakers, and belongs to one channel", "too_many_speakers"
            )
        if labels and speakers is None and not labels & set(names):
            names[place] = next(iter(labels))
        placed += [(place, segment) for segment in transcript.segments]
        formats.append(chosen)
        languages.append(transcript.language)
        read.append(file.name)
    if names[0] == names[1]:
        names = [f"{stem}-A", f"{stem}-B"]
    language = next((language for language in languages if language), None)
    return _finish(formats[0], placed, (names[0], names[1]), language, " and ".join(read))


class CorpusTranscripts:
    """CTM, STM and SegLST files that hold many recordings, looked into when the first recording asks."""

    def __init__(self, files: Sequence[FoundFile], form: str | None) -> None:
        """Keep the files whose names show such a format (or all, where `form` is one)."""
        chosen = [file for file in files if (form or name_format(file.name)) in _OF_CORPORA]
        self._files = chosen
        self._form = form
        self._segments: Mapping[str, list[tuple[str, str, Segment]]] | None = None
        self._faults: list[TranscriptError] = []

    def find(self, stem: str, speakers: tuple[str, str] | None) -> ReadTranscript | None:
        """Return the transcript whose recording id is `stem`, or None.

        Raises:
            TranscriptError: a file cannot be read, so that it is not known what is in it.
        """
        if self._segments is None:
            self._segments = self._read()
        found = self._segments.get(fold_stem(stem))
        if not found:
            if self._faults:
                raise self._faults[0]
            return None
        files = sorted({name for name, _, _ in found})
        if len(files) > 1:
            raise TranscriptError(f"transcripts {' and '.join(files[:3])} both have it", "transcript_ambiguous")
        segments = [segment for _, _, segment in found]
        try:
            places, names = assign_channels(segments, stem, speakers)
        except TranscriptError as exc:
            raise TranscriptError(f"transcript {files[0]}, {exc}", exc.reason) from exc
        return _finish(found[0][1], list(zip(places, segments, strict=True)), names, None, files[0])

    def _read(self) -> Mapping[str, list[tuple[str, str, Segment]]]:
        found: dict[str, list[tuple[str, str, Segment]]] = defaultdict(list)
        for file in self._files:
            try:
                chosen, transcript = _read(file, self._form)
            except TranscriptError as exc:
                self._faults.append(exc)
                continue
            for segment in transcript.segments:
                if segment.recording is not None:
                    found[fold_stem(segment.recording)].append((file.name, chosen, segment))
        return found


def _choose(files: Sequence[FoundFile], form: str | None) -> tuple[FoundFile, str, Transcript]:
    """Return the file that counts, its format and what it holds."""
    if len(files) == 1:
        return files[0], *_read(files[0], form)
    order = list(PARSERS)
    read = sorted(((file, *_read(file, form)) for file in files), key=lambda item: _rank(item, order))
    if _rank(read[0], order) == _rank(read[1], order):
        raise TranscriptError(
            f"transcripts {read[0][0].name} and {read[1][0].name} both fit; keep one of them, or name it in a manifest",
            "transcript_ambiguous",
        )
    return read[0]


def _rank(item: tuple[FoundFile, str, Transcript], order: Sequence[str]) -> tuple[int, bool]:
    """Formats in their order; of one format, words with times before utterances."""
    return order.index(item[1]), not any(segment.words for segment in item[2].segments)


def _read(file: FoundFile, form: str | None) -> tuple[str, Transcript]:
    try:
        with file.open() as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError as exc:
        raise TranscriptError(f"there is no transcript {file.path}", "transcript_missing") from exc
    except Exception as exc:  # file systems raise errors of their own kind
        raise TranscriptError(
            f"transcript {file.name} cannot be read ({describe_fault(exc)})", "transcript_unreadable"
        ) from exc
    if len(data) > MAX_BYTES:
        raise TranscriptError(f"transcript {file.name} is larger than {MAX_BYTES >> 20} MiB", "transcript_unreadable")
    try:
        return parse_transcript(file.name, data, form)
    except TranscriptError as exc:
        raise TranscriptError(f"transcript {file.name}, {exc}", exc.reason) from exc


def _take_recording(segments: Sequence[Segment], stem: str) -> list[Segment]:
    """Return the segments of one recording, where a file names several."""
    ids = {segment.recording for segment in segments}
    if len(ids) < 2:
        return list(segments)
    wanted = fold_stem(stem)
    found = [segment for segment in segments if segment.recording and fold_stem(segment.recording) == wanted]
    if not found:
        raise TranscriptError(f"has {len(ids)} recordings, and none is called {stem!r}")
    return found


def _finish(
    form: str,
    placed: Sequence[tuple[int, Segment]],
    names: tuple[str, str],
    language: str | None,
    file: str,
) -> ReadTranscript:
    if not placed:
        raise TranscriptError(
            f"transcript {file} has no speech in it; take it away to have the recogniser write one", "transcript_empty"
        )
    untimed = [segment.start_s is None for _, segment in placed]
    if any(untimed) and not all(untimed):
        line = next(segment.line for _, segment in placed if segment.start_s is None)
        raise TranscriptError(f"transcript {file}, line or segment {line}: has no times, where others have them")
    if not any(untimed):
        placed = sorted(placed, key=lambda item: (item[1].start_s, item[1].end_s, item[0]))
    utterances = [
        {
            "channel": place,
            "start_s": segment.start_s,
            "end_s": segment.end_s,
            "text": segment.text,
            "words": [
                {"word": word.word, "start_s": word.start_s, "end_s": word.end_s, "score": word.score}
                for word in segment.words
            ],
        }
        for place, segment in placed
    ]
    return ReadTranscript(form, utterances, names, language)
