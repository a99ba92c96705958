"""What was really said in a take: words against the script, who speaks from when to when, and the clip cut to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.alignment import Aligner, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import Recogniser, RecognitionReply, RecognitionRequest, RowFault, Samples
from bystander.schemas.recording_session import ImportSettings, Take
from bystander.tasks.audio.levels import measure_rms_dbfs
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import FADE_S, fade_edges
from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.metrics.wer import WordErrorRates, measure_wer
from bystander.tasks.session.found_takes import FoundTake, mix_down
from bystander.tasks.session.own_voice import find_voices, mute_others, snap_to_voice

READ_REASONS = frozenset(
    {
        "too_many_channels",  # more than two
        "misread",  # other words than the script's
        "not_aligned",  # the aligner does not find the words in the sound
        "came_in_early",  # the third party began before the primary
        "came_in_late",  # the third party waited longer than `max_gap_s`
        "recogniser_fault",
    }
)
"""Reasons why a take does not become a row."""
_BEFORE_S, _AFTER_S = 0.15, 0.25
"""How far a line may begin before its first word was aligned, and end after its last."""
_PAD_S = 0.12
"""Digital silence put before and after what is aligned."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One speaker's line as it was read: seconds from the start of the stretch."""

    start_s: float
    end_s: float
    heard: str
    rates: WordErrorRates
    temperature: float | None
    level_dbfs: float


@dataclass(frozen=True, slots=True)
class ReadTake:
    """A take that is good: the clip, and cells of its row. `errors` is its normalised word error rate."""

    samples: Samples
    errors: float
    cells: dict[str, Any]
    start_s: float
    """Of the clip, in the file."""
    end_s: float


def read_take(
    found: FoundTake, take: Take, settings: ImportSettings, recogniser: Recogniser, aligner: Aligner
) -> ReadTake | RowFault:
    """Check what was read and find when each of the two speaks.

    With two channels, each has the microphone of one speaker: which one is told by the words. What leaks over from the
    other one is turned down first (`own_voice`). Each line is aligned on its own channel, begins and ends with the
    voice that is heard there, and the overlap is measured.

    With one channel, both lines are aligned one after the other: the segments meet where one voice takes over from the
    other, and how long both talk cannot be told (`overlap_s` is null).

    Raises:
        EngineError: an engine as a whole failed.
    """
    channels = found.samples.shape[1]
    if channels > 2:
        return RowFault("too_many_channels", f"{channels} channels; record one, or one a speaker")
    lines = (_read_two if channels == 2 else _read_one)(found, take, settings, recogniser, aligner)
    if isinstance(lines, RowFault):
        return lines
    primary, third = lines
    if third.start_s < primary.start_s:
        return RowFault("came_in_early", f"{take.third_party} began {primary.start_s - third.start_s:.2f} s too early")
    gap = third.start_s - primary.end_s
    if gap > settings.max_gap_s:
        return RowFault(
            "came_in_late", f"{take.third_party} began {gap:.2f} s after the end; at most {settings.max_gap_s:g} s"
        )
    return _cut(found, take, settings, primary, third)


def _read_two(
    found: FoundTake, take: Take, settings: ImportSettings, recogniser: Recogniser, aligner: Aligner
) -> tuple[_Line, _Line] | RowFault:
    voices = find_voices(found.samples, found.rate)
    own = mute_others(found.samples, found.rate, voices)
    heard = _recognise([own[:, 0], own[:, 1]], found.rate, take, recogniser)
    if isinstance(heard, RowFault):
        return heard
    texts = (str(take.row["primary_text"]), str(take.row["third_party_text"]))
    language = str(take.row["language"])
    ways = [[measure_wer(texts[role], heard[way[role]].text, language) for role in (0, 1)] for way in ((0, 1), (1, 0))]
    swapped = sum(rates.normalised for rates in ways[1]) < sum(rates.normalised for rates in ways[0])
    way, rates = ((1, 0), ways[1]) if swapped else ((0, 1), ways[0])
    said = [heard[way[role]] for role in (0, 1)]
    for role, speaker in enumerate((take.primary, take.third_party)):
        if rates[role].normalised > settings.max_wer:
            return _say_misread(take, speaker, texts[role], said[role].text, rates[role], settings)
    lines = []
    for role in (0, 1):
        channel = own[:, way[role]]
        words = _align(channel, found.rate, [texts[role]], take, aligner)
        if isinstance(words, RowFault):
            return words
        start, end = snap_to_voice(voices[way[role]], *words[0], _BEFORE_S, _AFTER_S)
        level = measure_rms_dbfs(channel[round(start * found.rate) : round(end * found.rate)])
        lines.append(_Line(start, end, said[role].text, rates[role], said[role].temperature, level))
    return lines[0], lines[1]


def _read_one(
    found: FoundTake, take: Take, settings: ImportSettings, recogniser: Recogniser, aligner: Aligner
) -> tuple[_Line, _Line] | RowFault:
    mono = mix_down(found.samples)
    heard = _recognise([mono], found.rate, take, recogniser)
    if isinstance(heard, RowFault):
        return heard
    texts = (str(take.row["primary_text"]), str(take.row["third_party_text"]))
    language = str(take.row["language"])
    whole = measure_wer(take.transcript, heard[0].text, language)
    if whole.normalised > settings.max_wer:
        both = f"{take.primary} or {take.third_party}"
        return _say_misread(take, both, take.transcript, heard[0].text, whole, settings)
    words = _align(mono, found.rate, texts, take, aligner)
    if isinstance(words, RowFault):
        return words
    (voice,) = find_voices(mono[:, None], found.rate)
    begin, cut = snap_to_voice(voice, *words[0], _BEFORE_S, 0.0)[0], words[0][1]
    spans = [(begin, cut), (words[1][0], snap_to_voice(voice, *words[1], 0.0, _AFTER_S)[1])]
    lines = []
    for text, said, (start, end) in zip(texts, split_heard(texts, heard[0].text, language), spans, strict=True):
        level = measure_rms_dbfs(mono[round(start * found.rate) : round(end * found.rate)])
        lines.append(_Line(start, end, said, measure_wer(text, said, language), heard[0].temperature, level))
    return lines[0], lines[1]


def split_heard(texts: tuple[str, str], heard: str, language: str) -> tuple[str, str]:
    """Cut what was heard of both lines where the two parts have the fewest word errors; of ties, the first."""
    words = heard.split()
    expected = [normalise_text(text, language).split() for text in texts]
    parts = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(len(words) + 1)]
    costs = [
        sum(
            _count_edits(want, normalise_text(part, language).split()) for want, part in zip(expected, two, strict=True)
        )
        for two in parts
    ]
    return parts[costs.index(min(costs))]


def _recognise(
    parts: Sequence[Samples], rate: int, take: Take, recogniser: Recogniser
) -> list[RecognitionReply] | RowFault:
    language = str(take.row["language"])
    replies = recogniser.recognise([RecognitionRequest(np.ascontiguousarray(x), rate, language) for x in parts])
    heard = []
    for reply in replies:
        if isinstance(reply, RowFault):
            return RowFault("recogniser_fault", f"{reply.reason}: {reply.detail}", reply.raw_output)
        heard.append(reply)
    return heard


def _align(
    samples: Samples, rate: int, lines: Sequence[str], take: Take, aligner: Aligner
) -> list[tuple[float, float]] | RowFault:
    """Return start and end of each line, in seconds; the lines follow each other in the sound."""
    split = [[word for word in line.split() if any(letter.isalnum() for letter in word)] for line in lines]
    pad = np.zeros(round(_PAD_S * rate), np.float32)
    padded = np.concatenate([pad, samples, pad]).astype(np.float32)
    words = tuple(word.removesuffix("...") for line in split for word in line)
    (reply,) = aligner.align([AlignmentRequest(take.code, padded, rate, words, str(take.row["language"]))])
    if not isinstance(reply, AlignmentReply):
        return RowFault("not_aligned", f"{reply.reason}: {reply.detail}", reply.raw_output)
    duration_s = len(samples) / rate
    spans, at = [], 0
    for line in split:
        own = reply.words[at : at + len(line)]
        at += len(line)
        times = (min(max(own[0].start_s - _PAD_S, 0.0), duration_s), min(max(own[-1].end_s - _PAD_S, 0.0), duration_s))
        spans.append(times)
    if any(start >= end for start, end in spans):
        return RowFault("not_aligned", "the words lie outside the sound")
    return spans


def _say_misread(
    take: Take, speaker: str, text: str, heard: str, rates: WordErrorRates, settings: ImportSettings
) -> RowFault:
    detail = f"{speaker} was to read {text!r}: word error rate {rates.normalised:.2f}, at most {settings.max_wer:g}"
    complete = str(take.row["primary_complete"])
    if take.within_sentence and measure_wer(complete, heard, str(take.row["language"])).normalised < rates.normalised:
        detail += "; the request was read on to its end"
    return RowFault("misread", detail, heard)


def _cut(found: FoundTake, take: Take, settings: ImportSettings, primary: _Line, third: _Line) -> ReadTake:
    duration_s = len(found.samples) / found.rate
    begin = max(0.0, primary.start_s - settings.margin_s)
    end = min(duration_s, max(primary.end_s, third.end_s) + settings.margin_s)
    first, last = round(begin * found.rate), round(end * found.rate)
    clip = resample(mix_down(found.samples[first:last]), found.rate, settings.sampling_rate)
    peak = float(np.abs(clip).max()) if len(clip) else 0.0
    clip = fade_edges(clip / np.float32(peak) if peak > 1 else clip, round(FADE_S * settings.sampling_rate))
    length_s = len(clip) / settings.sampling_rate
    begin = first / found.rate
    segments = [
        {"speaker": speaker, "start_s": line.start_s - begin, "end_s": min(line.end_s - begin, length_s)}
        for speaker, line in (("primary", primary), ("third_party", third))
    ]
    overlap = None
    if found.samples.shape[1] == 2:
        overlap = segments[0]["end_s"] - segments[1]["start_s"]  # type: ignore[operator]
    cells = {
        "duration_s": length_s,
        "sampling_rate": settings.sampling_rate,
        "segments": segments,
        "offset_asked_s": -take.overlap_s,
        "overlap_s": overlap,
        "loudness_difference_db": third.level_dbfs - primary.level_dbfs,
        "primary_recognised": primary.heard,
        "third_party_recognised": third.heard,
        "primary_wer_raw": primary.rates.raw,
        "primary_wer": primary.rates.normalised,
        "third_party_wer_raw": third.rates.raw,
        "third_party_wer": third.rates.normalised,
        "primary_recognition_temperature": primary.temperature,
        "third_party_recognition_temperature": third.temperature,
    }
    errors = (primary.rates.normalised + third.rates.normalised) / 2
    start_s = found.start_s + begin
    return ReadTake(clip, errors, cells, start_s, start_s + length_s)


def _count_edits(expected: Sequence[str], found: Sequence[str]) -> int:
    """Return the least number of words to replace, insert and drop."""
    row = list(range(len(found) + 1))
    for i, want in enumerate(expected, 1):
        before, row[0] = row[0], i
        for j, word in enumerate(found, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (want != word))
    return row[-1]
