"""Whether a synthesised clip can be its text spoken once, judged by its signal alone."""

from __future__ import annotations

import numpy as np

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.tpi_params import SynthesiseSpeech
from bystander.tasks.audio.levels import measure_clipped_share, measure_rms_dbfs
from bystander.tasks.audio.trimming import trim_speech

CHECK_REASONS = frozenset({"not_finite", "silent", "too_quiet", "clipped", "too_fast", "too_slow", "inner_silence"})
_CHARACTERS_PER_DIGIT = 4  # "7" is spoken as "seven"; the mean over the English digits is 4


def accept_speech(samples: Samples, rate: int, text: str, params: SynthesiseSpeech) -> Samples | RowFault:
    """Return the clip trimmed to its speech, or the first check that it fails.

    Reasons, in the order of the checks:
        not_finite: a sample is not a number or infinite.
        silent: no samples, or digital silence only.
        too_quiet: the speech's RMS is below `min_level_dbfs`; a recogniser would hear words in noise.
        clipped: more than `max_clipped_share` of the samples are at full scale.
        inner_silence: a pause longer than `max_inner_silence_s`.
        too_fast, too_slow: seconds per character of the text out of bounds (a digit counts as four characters).
    """
    if not np.all(np.isfinite(samples)):
        return RowFault("not_finite", "the samples are not all finite numbers")
    trimmed = trim_speech(samples, rate, params.trim_db, params.trim_margin_s)
    speech = trimmed.samples
    if not len(speech):
        return RowFault("silent", f"{len(samples) / rate:.2f} s of digital silence")
    level = measure_rms_dbfs(speech)
    if level < params.min_level_dbfs:
        return RowFault("too_quiet", f"level {level:.1f} dBFS, at least {params.min_level_dbfs:g} is asked for")
    clipped = measure_clipped_share(speech)
    if clipped > params.max_clipped_share:
        return RowFault("clipped", f"{clipped:.2%} of the samples are at full scale")
    if trimmed.longest_silence_s > params.max_inner_silence_s:
        return RowFault("inner_silence", f"a pause of {trimmed.longest_silence_s:.2f} s")
    duration_s, characters = len(speech) / rate, count_spoken_characters(text)
    if duration_s < params.min_seconds_per_character * characters:
        return RowFault("too_fast", f"{duration_s:.2f} s for {characters} characters")
    if duration_s > params.max_seconds_per_character * characters + params.slow_allowance_s:
        return RowFault("too_slow", f"{duration_s:.2f} s for {characters} characters")
    return speech


def count_spoken_characters(text: str) -> int:
    """Return the number of letters and digits, where a digit counts as the four letters that it takes to say it."""
    digits = sum(map(str.isdigit, text))
    return sum(map(str.isalnum, text)) + (_CHARACTERS_PER_DIGIT - 1) * digits
