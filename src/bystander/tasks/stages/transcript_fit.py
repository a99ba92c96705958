"""Whether the times of a transcript agree with the speech of the channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import RowFault
from bystander.schemas.sid_params import TranscribeRecordings
from bystander.tasks.audio.speech_activity import FRAME_S, Mask, mark_spans
from bystander.tasks.stages.own_speech import OwnSpeech, merge_runs
from bystander.tasks.stages.transcript_atoms import list_atoms

MAX_SHIFT_S = 60.0
"""How far a transcript is moved to see whether it fits elsewhere."""

_MIN_JUDGED_S = 0.3
_NEAR_S = 1.0
_WORD_GAP_S = 0.2
"""Gaps between words up to this long are no pauses of the speaker's."""
_COARSE_FRAMES = 10
_MIN_SHIFT_S = 0.3
_BETTER_BY = 0.2
_SHIFTED_CONTRAST = 0.47
"""What a moved transcript must reach. Of 50 transcripts of other one-minute calls, moved as fits best, one does (0.51);
right ones that are late have 0.87 and more, those with sloppy times 0.48."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A transcript that fits; `exchanged` says that its channels were."""

    utterances: tuple[dict[str, Any], ...]
    exchanged: bool = False


@dataclass(frozen=True, slots=True)
class ChannelFit:
    """Of one channel: the share of transcribed time that has speech, and of other time near it (None: too little)."""

    inside: float
    outside: float | None

    @property
    def contrast(self) -> float | None:
        return None if self.outside is None else self.inside - self.outside

    def is_good(self, params: TranscribeRecordings) -> bool:
        """Whether it is what the settings ask for."""
        return self.inside >= params.min_transcript_overlap and (
            self.contrast is None or self.contrast >= params.min_transcript_contrast
        )


def check_fit(
    utterances: Sequence[Mapping[str, Any]], speech: OwnSpeech, duration_s: float, params: TranscribeRecordings
) -> Fitted | RowFault:
    """Return the utterances, or why they do not fit: the first of the reasons of `transcribe_recordings` that holds."""
    ends = [(time, utterance) for utterance in utterances for time in _list_times(utterance)]
    last, late = max(ends, key=lambda item: item[0])
    if last > duration_s + params.max_overrun_s:
        return RowFault(
            "transcript_outside_audio",
            f"{late['text'][:40]!r} ends at {last:.2f} s and the audio at {duration_s:.2f} s; it is the transcript of "
            "another recording, or the audio is cut",
        )
    said = [
        mark_spans(
            np.array(
                [(atom.start_s, atom.end_s) for atom in list_atoms(utterances, channel, duration_s)], np.float64
            ).reshape(-1, 2),
            len(speech.speech[channel]),
        )
        for channel in (0, 1)
    ]
    fits = [_fit(said[channel], speech.speech[channel]) for channel in (0, 1)]
    if all(fit is None or fit.is_good(params) for fit in fits):
        return Fitted(tuple(dict(utterance) for utterance in utterances))
    swapped = [_fit(said[1 - channel], speech.speech[channel]) for channel in (0, 1)]
    if all(fit is None or fit.is_good(params) for fit in swapped) and _rate(swapped) > _rate(fits) + _BETTER_BY:
        if params.exchange_swapped:
            changed = ({**utterance, "channel": 1 - utterance["channel"]} for utterance in utterances)
            return Fitted(tuple(changed), exchanged=True)
        return RowFault(
            "channels_swapped",
            f"it fits with its speakers exchanged ({_describe(swapped)}; as it is: {_describe(fits)}); name the "
            "speakers in the order of the channels in a manifest, or set exchange_swapped",
        )
    shift_s = _find_shift(said, speech.speech)
    moved = [_fit(_move(mask, shift_s), own) for mask, own in zip(said, speech.speech, strict=True)]
    if (
        abs(shift_s) >= _MIN_SHIFT_S
        and all(fit is None or fit.is_good(params) for fit in moved)
        and _rate(moved) > max(_SHIFTED_CONTRAST, _rate(fits) + _BETTER_BY)
    ):
        return RowFault(
            "transcript_shifted",
            f"its times fit when {abs(shift_s):.1f} s are {'added to' if shift_s > 0 else 'taken from'} them "
            f"({_describe(moved)}; as they are: {_describe(fits)})",
        )
    return RowFault(
        "transcript_disagrees",
        f"{_describe(fits)}; at least {params.min_transcript_overlap:.0%}, and {params.min_transcript_contrast:.0%} "
        "more than elsewhere, are asked for; it is another recording's transcript, or its times are wrong",
    )


def _fit(said: Mask, speech: Mask) -> ChannelFit | None:
    """Return how the times of one channel fit; None where too little is transcribed to tell."""
    if said.sum() * FRAME_S < _MIN_JUDGED_S:
        return None
    whole, near = np.zeros_like(said), np.zeros_like(said)
    reach = round(_NEAR_S / FRAME_S)
    for start, end in merge_runs(said, _WORD_GAP_S):
        whole[start:end] = True
        near[max(0, start - reach) : end + reach] = True
    near &= ~whole
    enough = near.sum() * FRAME_S >= _MIN_JUDGED_S
    return ChannelFit(float(speech[said].mean()), float(speech[near].mean()) if enough else None)


def _rate(fits: Sequence[ChannelFit | None]) -> float:
    rates = [fit.inside if fit.contrast is None else fit.contrast for fit in fits if fit is not None]
    return sum(rates) / len(rates) if rates else 0.0


def _describe(fits: Sequence[ChannelFit | None]) -> str:
    parts = [
        f"channel {channel} has speech in {fit.inside:.0%} of its transcribed time"
        + ("" if fit.outside is None else f" and {fit.outside:.0%} of the second about it")
        for channel, fit in enumerate(fits)
        if fit is not None
    ]
    return ", ".join(parts) or "too little is transcribed to tell"


def _find_shift(said: Sequence[Mask], speech: Sequence[Mask]) -> float:
    """Return by how many seconds the transcript must be moved to agree best with the speech, within `MAX_SHIFT_S`."""
    from scipy.signal import correlate

    total: npt.NDArray[np.float64] | None = None
    for mask, own in zip(said, speech, strict=True):
        count = len(own) // _COARSE_FRAMES
        coarse = [_centre(one[: count * _COARSE_FRAMES].reshape(count, -1).mean(axis=1)) for one in (own, mask)]
        found = correlate(coarse[0], coarse[1], mode="full", method="fft")
        total = found if total is None else total + found
    if total is None or not len(total):
        return 0.0
    middle = len(total) // 2
    reach = min(middle, round(MAX_SHIFT_S / FRAME_S / _COARSE_FRAMES))
    best = int(np.argmax(total[middle - reach : middle + reach + 1])) - reach
    return best * _COARSE_FRAMES * FRAME_S


def _centre(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return values - values.mean() if len(values) else values


def _move(mask: Mask, shift_s: float) -> Mask:
    moved = np.zeros_like(mask)
    frames = round(shift_s / FRAME_S)
    if frames >= 0:
        moved[frames:] = mask[: len(mask) - frames]
    else:
        moved[:frames] = mask[-frames:]
    return moved


def _list_times(utterance: Mapping[str, Any]) -> list[float]:
    return [one["end_s"] for one in (utterance, *(utterance["words"] or ())) if one["end_s"] is not None]
