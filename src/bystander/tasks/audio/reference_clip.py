"""Making the clip that stands for a speaker: a stretch of one recording, or short ones joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bystander.schemas.engines import Samples
from bystander.tasks.audio.levels import SILENCE_DBFS, convert_from_db, measure_peak
from bystander.tasks.audio.room_tone import make_room_tone
from bystander.tasks.audio.speech_activity import FRAME_S, list_runs, measure_levels
from bystander.tasks.audio.speech_quality import find_speech_frames, measure_quality
from bystander.tasks.audio.trimming import FADE_S, fade_edges

_MOST_GAIN_DB = 12.0
_PEAK_CEILING = 0.99


def find_stretch(samples: Samples, rate: int, max_s: float, max_pause_s: float, margin_s: float) -> tuple[int, int]:
    """Return the stretch of a clip that holds most speech: its first sample and the one after its last.

    It begins and ends at pauses, lasts at most `max_s` with its margins, and has no pause longer than `max_pause_s`.
    Where a speaker goes on for longer than `max_s` without a pause of 100 ms, it is cut in the middle of speech. Of
    equal stretches, the first. (0, 0) where there is no speech.
    """
    runs = list_runs(find_speech_frames(measure_levels(samples, rate)))
    most = int((max_s - 2 * margin_s) / FRAME_S)
    pause = round(max_pause_s / FRAME_S)
    best, best_speech = (0, 0), 0
    speech, first = 0, 0
    for last, (start, end) in enumerate(runs):
        if last and start - runs[last - 1][1] > pause:
            speech, first = 0, last
        speech += int(end - start)
        while first < last and end - runs[first][0] > most:
            speech -= int(runs[first][1] - runs[first][0])
            first += 1
        begin, finish = int(runs[first][0]), int(min(end, runs[first][0] + most))
        held = min(speech, most)
        if held > best_speech:
            best, best_speech = (begin, finish), held
    if not best_speech:
        return 0, 0
    margin = round(margin_s * rate)
    start, end = (round(edge * FRAME_S * rate) for edge in best)
    return max(0, start - margin), min(len(samples), end + margin)


def join_stretches(pieces: Sequence[Samples], rate: int, gap_s: float, rng: np.random.Generator) -> Samples:
    """Return pieces of one speaker one after the other, with a gap between them: shape (n,), float32.

    Each is brought to the level of the first one's speech, by 12 dB at most, and its edges are faded. A gap is not
    digital silence but noise as loud as that of the first piece.
    """
    first = measure_quality(pieces[0], rate)
    noise_dbfs = max(SILENCE_DBFS, first.level_dbfs - first.snr_db)
    joined: list[Samples] = []
    for piece in pieces:
        gain = float(np.clip(first.level_dbfs - measure_quality(piece, rate).level_dbfs, -_MOST_GAIN_DB, _MOST_GAIN_DB))
        if joined and gap_s > 0:
            joined.append(make_room_tone(round(gap_s * rate), rate, noise_dbfs, rng))
        joined.append(fade_edges(piece, round(FADE_S * rate)) * np.float32(convert_from_db(gain)))
    whole: Samples = np.concatenate(joined)
    peak = measure_peak(whole)
    return whole * np.float32(_PEAK_CEILING / peak) if peak > _PEAK_CEILING else whole


def take_middle(samples: Samples, rate: int, longest_s: float) -> Samples:
    """Return at most `longest_s` of a clip, from its middle."""
    longest = round(longest_s * rate)
    start = max(0, (len(samples) - longest) // 2)
    return samples[start : start + longest]
