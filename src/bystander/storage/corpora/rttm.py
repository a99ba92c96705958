"""RTTM: who speaks when, for transcripts that name no speaker.

A line is `SPEAKER recording channel start duration <NA> <NA> name <NA> <NA>`; other kinds of lines are passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from bystander.schemas.errors import InputError
from bystander.storage.corpora.utterances import Utterance, WrongFieldError, check_seconds

Stretches = Mapping[str, Sequence[tuple[float, float, str]]]
"""By recording: start and end in seconds, and speaker, in order of the starts."""

_LEAST_SHARE = 0.5
"""Of an utterance, that its speaker must have spoken in."""


def read_rttm(files: Sequence[tuple[str, str]]) -> Stretches:
    """Return who speaks when, from the names and texts of files.

    Raises:
        InputError: a line is wrong; a wrong time would give words to the wrong speaker.
    """
    found: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for name, text in files:
        for number, line in enumerate(text.splitlines(), 1):
            fields = line.split()
            if not fields or fields[0] != "SPEAKER":
                continue
            if len(fields) < 8:
                raise InputError(
                    f"{name}: line {number}: has {len(fields)} fields, a SPEAKER line of RTTM has 8 or more"
                )
            try:
                start_s = check_seconds(fields[3], "start")
                found[fields[1]].append((start_s, start_s + check_seconds(fields[4], "duration"), fields[7]))
            except WrongFieldError as exc:
                raise InputError(f"{name}: line {number}: {exc}") from exc
    return {recording: sorted(stretches) for recording, stretches in found.items()}


def name_speaker(utterance: Utterance, stretches: Stretches) -> None:
    """Give an utterance the speaker who speaks most of it, or the fault that nobody does."""
    if utterance.fault is not None or utterance.speaker is not None:
        return
    start_s, end_s = utterance.start_s or 0.0, utterance.end_s or 0.0
    shares: dict[str, float] = defaultdict(float)
    for begin, end, speaker in stretches.get(utterance.recording, ()):
        shares[speaker] += max(0.0, min(end, end_s) - max(begin, start_s))
    best = max(sorted(shares), key=lambda speaker: shares[speaker], default=None)
    if best is None or shares[best] < _LEAST_SHARE * (end_s - start_s):
        utterance.fault = f"no speaker of the RTTM file speaks most of it, from {start_s:g} s to {end_s:g} s"
    else:
        utterance.speaker = best
