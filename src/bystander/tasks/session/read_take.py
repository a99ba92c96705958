"""What was really said in a take: words against the script, who speaks from when to when, and the clip cut to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bystander.schemas.alignment import Aligner
from bystander.schemas.engines import Recogniser, RecognitionReply, RecognitionRequest, RowFault, Samples
from bystander.schemas.recording_session import ImportSettings, Take
from bystander.tasks.audio.levels import measure_rms_dbfs
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import FADE_S, fade_edges
from bystander.tasks.metrics.wer import WordErrorRates, measure_wer
from bystander.tasks.session.align_lines import SpokenWord, align_lines, drop_slate, split_heard
from bystander.tasks.session.check_sound import (
    drop_idle_channel,
    find_quiet_line,
    find_recording_fault,
    measure_separation_db,
)
from bystander.tasks.session.found_takes import FoundTake, mix_down
from bystander.tasks.session.own_voice import find_voices, mute_others, snap_to_voice

READ_REASONS = frozenset(
    {
        "too_many_channels",  # more than two
        "cross_talk",  # two channels that both hear both speakers
        "misread",  # other words than the script's
        "not_aligned",  # the aligner does not find the words in the sound
        "too_quiet",
        "clipped",
        "came_in_early",  # the third party began before the primary, or much earlier than the sheet asks
        "came_in_late",  # much later than the sheet asks
        "recogniser_fault",
    }
)
"""Reasons why a take does not become a row."""
_BEFORE_S, _AFTER_S = 0.15, 0.25
"""How far a line may begin before its first word was aligned, and end after its last."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One speaker's line as it was read: seconds from the start of the stretch."""

    start_s: float
    end_s: float
    heard: str
    rates: WordErrorRates
    temperature: float | None
    level_dbfs: float
    words: tuple[SpokenWord, ...]


@dataclass(frozen=True, slots=True)
class ReadTake:
    """A take that is good: the clip, and cells of its row. `errors` is its normalised word error rate."""

    samples: Samples
    errors: float
    cells: dict[str, Any]
    start_s: float
    """Of the clip, in the file."""
    end_s: float
    offset_s: float
    """The third party's start minus the primary's end. With one channel, overlap is not seen, and 0 or more is."""
    words: tuple[tuple[str, SpokenWord], ...]
    """Role and word, with times from the start of the clip; the primary's first."""
    came_in_at: str | None
    """The primary's word during which, or after which, the third party began; None with one channel."""


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
    found = replace(found, samples=drop_idle_channel(found.samples, settings.min_level_dbfs))
    channels = found.samples.shape[1]
    if channels > 2:
        return RowFault("too_many_channels", f"{channels} channels; record one, or one a speaker")
    fault = find_recording_fault(found.samples, found.rate, settings)
    if fault is not None:
        return fault
    lines = (_read_two if channels == 2 else _read_one)(found, take, settings, recogniser, aligner)
    if isinstance(lines, RowFault):
        return lines
    primary, third = lines
    return _find_timing_fault(primary, third, take, settings, channels) or _cut(found, take, settings, primary, third)


def _find_timing_fault(
    primary: _Line, third: _Line, take: Take, settings: ImportSettings, channels: int
) -> RowFault | None:
    if third.start_s < primary.start_s:
        ahead = primary.start_s - third.start_s
        return RowFault("came_in_early", f"{take.third_party} began {ahead:.2f} s before {take.primary}")
    offset = third.start_s - primary.end_s
    # One channel shows no overlap: its segments meet.
    asked = take.offset_s if channels == 2 else max(0.0, take.offset_s)
    late = offset - asked
    if abs(late) <= settings.max_cut_in_error_s or (channels == 1 and late < 0):
        return None
    how = (
        f"{abs(late):.2f} s {'later' if late > 0 else 'earlier'} than asked, at most {settings.max_cut_in_error_s:g} s"
    )
    cue = take.primary_words[take.cue_word].strip(".,?!")
    reason = "came_in_late" if late > 0 else "came_in_early"
    return RowFault(reason, f"{take.third_party} began {how}: come in at {cue!r}")


def _read_two(
    found: FoundTake, take: Take, settings: ImportSettings, recogniser: Recogniser, aligner: Aligner
) -> tuple[_Line, _Line] | RowFault:
    apart = measure_separation_db(found.samples, found.rate)
    if apart < settings.min_separation_db:
        detail = f"the channels hear both speakers, {apart:.1f} dB apart, at least {settings.min_separation_db:g}"
        return RowFault("cross_talk", f"{detail}: a microphone near each speaker, or --set channels=mixed")
    voices = find_voices(found.samples, found.rate)
    own = mute_others(found.samples, found.rate, voices)
    heard = _recognise([own[:, 0], own[:, 1]], found.rate, take, recogniser)
    if isinstance(heard, RowFault):
        return heard
    texts = (str(take.row["primary_text"]), str(take.row["third_party_text"]))
    language = str(take.row["language"])
    cuts = [[drop_slate(text, reply.text, take.slate, language) for reply in heard] for text in texts]
    ways = [
        [measure_wer(texts[role], cuts[role][way[role]][1], language) for role in (0, 1)] for way in ((0, 1), (1, 0))
    ]
    swapped = sum(rates.normalised for rates in ways[1]) < sum(rates.normalised for rates in ways[0])
    way, rates = ((1, 0), ways[1]) if swapped else ((0, 1), ways[0])
    said = [cuts[role][way[role]][1] for role in (0, 1)]
    for role, speaker in enumerate((take.primary, take.third_party)):
        if rates[role].normalised > settings.max_wer:
            return _say_misread(take, speaker, texts[role], said[role], " ".join(said), rates[role], settings)
    lines = []
    for role, speaker in enumerate((take.primary, take.third_party)):
        channel = own[:, way[role]]
        slate = cuts[role][way[role]][0]
        spoken = align_lines(aligner, channel, found.rate, [texts[role]], slate, take.code, language)
        if isinstance(spoken, RowFault):
            return spoken
        first, last = spoken[0][0].start_s, spoken[0][-1].end_s
        start, end = snap_to_voice(voices[way[role]], first, last, _BEFORE_S, _AFTER_S)
        fault = find_quiet_line(found.samples[:, way[role]], found.rate, start, end, speaker, settings)
        if fault is not None:
            return fault
        level = measure_rms_dbfs(channel[round(start * found.rate) : round(end * found.rate)])
        temperature = heard[way[role]].temperature
        lines.append(_Line(start, end, said[role], rates[role], temperature, level, tuple(spoken[0])))
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
    slate, exchange = drop_slate(take.transcript, heard[0].text, take.slate, language)
    whole = measure_wer(take.transcript, exchange, language)
    if whole.normalised > settings.max_wer:
        both = f"{take.primary} or {take.third_party}"
        return _say_misread(take, both, take.transcript, exchange, exchange, whole, settings)
    spoken = align_lines(aligner, mono, found.rate, texts, slate, take.code, language)
    if isinstance(spoken, RowFault):
        return spoken
    (voice,) = find_voices(mono[:, None], found.rate)
    times = [(line[0].start_s, line[-1].end_s) for line in spoken]
    spans = [
        (snap_to_voice(voice, *times[0], _BEFORE_S, 0.0)[0], times[0][1]),
        (times[1][0], snap_to_voice(voice, *times[1], 0.0, _AFTER_S)[1]),
    ]
    lines = []
    parts = split_heard(texts, exchange, language)
    for role, (start, end) in enumerate(spans):
        fault = find_quiet_line(mono, found.rate, start, end, (take.primary, take.third_party)[role], settings)
        if fault is not None:
            return fault
        level = measure_rms_dbfs(mono[round(start * found.rate) : round(end * found.rate)])
        rates = measure_wer(texts[role], parts[role], language)
        lines.append(_Line(start, end, parts[role], rates, heard[0].temperature, level, tuple(spoken[role])))
    return lines[0], lines[1]


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


def _say_misread(
    take: Take, speaker: str, text: str, heard: str, exchange: str, rates: WordErrorRates, settings: ImportSettings
) -> RowFault:
    detail = f"{speaker} was to read {text!r}: word error rate {rates.normalised:.2f}, at most {settings.max_wer:g}"
    complete = str(take.row["primary_complete"])
    if take.within_sentence and measure_wer(complete, heard, str(take.row["language"])).normalised < rates.normalised:
        detail += "; the request was read on to its end"
    return RowFault("misread", f"{detail}; heard {heard!r}", exchange)


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
    offset = third.start_s - primary.end_s
    knows_overlap = found.samples.shape[1] == 2
    overlap = max(0.0, -offset) if knows_overlap else None
    cells = {
        "duration_s": length_s,
        "sampling_rate": settings.sampling_rate,
        "segments": segments,
        "offset_asked_s": take.offset_s,
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
    words = [
        (speaker, SpokenWord(w.word, w.start_s - begin, w.end_s - begin))
        for speaker, line in (("primary", primary), ("third_party", third))
        for w in line.words
    ]
    started = [word.word for word in primary.words if word.start_s <= third.start_s]
    came_in_at = (started or [primary.words[0].word])[-1] if knows_overlap else None
    start_s = found.start_s + begin
    return ReadTake(clip, errors, cells, start_s, start_s + length_s, offset, tuple(words), came_in_at)
