"""What the recogniser hears in the speech of a recording, utterance by utterance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.engines import Recogniser, RecognitionRequest, RowFault
from bystander.schemas.sid_params import TranscribeRecordings
from bystander.tasks.audio.channels import ChannelValues
from bystander.tasks.audio.coding import dequantise
from bystander.tasks.audio.speech_activity import FRAME_S, Mask, list_runs
from bystander.tasks.stages.own_speech import OwnSpeech, merge_runs
from bystander.tasks.texts.transcript_marks import drop_marks

_NO_SPEECH_PROB, _MEAN_LOGPROB = 0.6, -1.0
"""Above the one and below the other, Whisper's own rule takes a text for made up."""
_BATCH = 64


@dataclass(frozen=True, slots=True)
class HeardUtterance:
    """Speech of one channel, in seconds from the start of the recording, and what the recogniser hears in it."""

    channel: int
    start_s: float
    end_s: float
    text: str

    def describe(self) -> dict[str, Any]:
        """Return it as a row of `UTTERANCE`, without words of its own."""
        return {
            "channel": self.channel,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "text": self.text,
            "words": [],
        }


def hear_utterances(
    values: ChannelValues,
    rate: int,
    speech: OwnSpeech,
    language: str,
    recogniser: Recogniser,
    params: TranscribeRecordings,
) -> list[HeardUtterance] | RowFault:
    """Return the utterances with words in them, in order of time; `recogniser_fault` where it fails on one.

    Args:
        values: 16-bit, shape (n, 2).
        rate: sampling rate in Hz.
        speech: where the channels have speech.
        language: primary subtag.
        recogniser: writes what is said.
        params: how speech is cut into utterances.
    """
    spans = sorted(
        (start * FRAME_S, end * FRAME_S, channel)
        for channel in (0, 1)
        for start, end in cut_utterances(speech.speech[channel], params)
    )
    heard: list[HeardUtterance] = []
    for at in range(0, len(spans), _BATCH):  # the clips of an hour at once would be gigabytes
        batch = spans[at : at + _BATCH]
        replies = recogniser.recognise(
            [
                RecognitionRequest(_cut(values, rate, channel, start_s, end_s, params.margin_s), rate, language)
                for start_s, end_s, channel in batch
            ]
        )
        for (start_s, end_s, channel), reply in zip(batch, replies, strict=True):
            if isinstance(reply, RowFault):
                return RowFault(
                    "recogniser_fault",
                    f"channel {channel}, {start_s:.2f} to {end_s:.2f} s: {reply.reason}: {reply.detail}",
                    reply.raw_output,
                )
            made_up = (
                reply.no_speech_prob is not None
                and reply.mean_logprob is not None
                and reply.no_speech_prob > _NO_SPEECH_PROB
                and reply.mean_logprob < _MEAN_LOGPROB
            )
            if not made_up and drop_marks(reply.text):
                heard.append(HeardUtterance(channel, round(start_s, 3), round(end_s, 3), reply.text.strip()))
    return heard


def cut_utterances(speech: Mask, params: TranscribeRecordings) -> list[tuple[int, int]]:
    """Return utterances as first frames and frames after the last: speech with pauses of up to `max_pause_s`.

    Those longer than `max_utterance_s` are cut at the longest pause within them that leaves a fifth on either side, or
    in their middle where there is none.
    """
    limit = round(params.max_utterance_s / FRAME_S)
    shortest = round(params.min_utterance_s / FRAME_S)
    pending = list(reversed(merge_runs(speech, params.max_pause_s)))
    cut: list[tuple[int, int]] = []
    while pending:
        start, end = pending.pop()
        if end - start <= limit:
            if end - start >= shortest:
                cut.append((start, end))
            continue
        pauses = list_runs(~speech[start:end]) + start
        fifth = (end - start) // 5
        inside = [
            (stop - begin, begin, stop)
            for begin, stop in pauses.tolist()
            if begin >= start + fifth and stop <= end - fifth
        ]
        middle = (start + end) // 2
        _, begin, stop = max(inside) if inside else (0, middle, middle)
        pending += [(stop, end), (start, begin)]
    return cut


def _cut(values: ChannelValues, rate: int, channel: int, start_s: float, end_s: float, margin_s: float) -> Any:
    first, last = max(0, round((start_s - margin_s) * rate)), round((end_s + margin_s) * rate)
    return dequantise(np.ascontiguousarray(values[first:last, channel]))
