"""A bank of reference voices: real speakers whose recordings a zero-shot speech engine imitates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from bystander.schemas.engines import Samples, Voice
from bystander.schemas.recordings import DECODER_REASONS
from bystander.schemas.tpi import AUDIO


@runtime_checkable
class VoiceBank(Protocol):
    """Reference voices, one a speaker, each with the clip that stands for it."""

    @property
    def digest(self) -> str:
        """Digest of everything that decides how the voices sound: ids and reference clips."""
        ...

    @property
    def voices(self) -> Sequence[Voice]:
        """All voices, ordered by id."""
        ...

    def read_reference(self, voice: str) -> tuple[Samples, int]:
        """Return a voice's reference clip and its sampling rate in Hz.

        Raises:
            InputError: the bank has no such voice, or its clip cannot be read.
        """
        ...


BANK_VOICE = pa.schema(
    [
        pa.field("voice", pa.string(), nullable=False),  # id in the bank
        pa.field("speaker", pa.string(), nullable=False),  # id in the source
        pa.field("subset", pa.string()),  # sub-sets of the source that the speaker is in, joined by commas
        pa.field("language", pa.string(), nullable=False),
        pa.field("gender", pa.string()),  # female | male | null
        pa.field("audio", AUDIO, nullable=False),  # the reference clip: mono, FLAC of 16 bits
        pa.field("sampling_rate", pa.int32(), nullable=False),
        pa.field("duration_s", pa.float64(), nullable=False),
        pa.field("level_dbfs", pa.float64(), nullable=False),  # RMS of its speech
        pa.field("snr_db", pa.float64(), nullable=False),
        pa.field("clipped_share", pa.float64(), nullable=False),
        pa.field("consistency", pa.float64()),  # median cosine to the speaker's other clips; null where there is none
        pa.field("clips_compared", pa.int32(), nullable=False),  # how many those are
        pa.field("clips_found", pa.int32(), nullable=False),
        pa.field("clips_read", pa.int32(), nullable=False),
        pa.field("clips", pa.list_(pa.string()), nullable=False),  # those that the reference is made of, in order
        pa.field("embedding", pa.list_(pa.float32()), nullable=False),  # of the reference, L2 norm 1
        pa.field("audio_sha256", pa.string(), nullable=False),  # of the FLAC bytes
        pa.field("source", pa.string(), nullable=False),
        pa.field("licence", pa.string(), nullable=False),
    ]
)
"""A row of a bank: one speaker and the clip that stands for the speaker."""

BANK_REJECT = pa.schema(
    [
        pa.field("speaker", pa.string()),  # id that the voice has or would have; null for a file of no speaker
        pa.field("clip", pa.string()),  # null where it is the speaker who is rejected
        pa.field("reject_reason", pa.string(), nullable=False),
        pa.field("reject_detail", pa.string(), nullable=False),
    ]
)
"""A clip, or a speaker with all clips, that a bank does not have, and why."""

CLIP_REASONS = DECODER_REASONS | frozenset(
    {
        "outside_speaker_folder",  # a stray file beside the folders of speakers
        "no_speaker",  # a row of a table that names none
        "no_audio",  # a row of a table without any
        "channels_differ",  # several channels that do not hold the same voice
        "silent",  # nothing in it that its energy shows as speech
        "too_short",  # less speech than `min_clip_s`
        "too_quiet",
        "clipped",
        "noisy",  # its signal-to-noise ratio is below `min_snr_db`
        "duplicate_clip",  # the same samples as another clip of the speaker
        "unlike_speaker",  # the speaker's other clips agree with each other, and not with it
        "too_short_to_embed",
        "non_finite_audio",
    }
)
"""Reasons why a clip is rejected."""

SPEAKER_REASONS = frozenset(
    {
        "no_clip",  # a speaker's folder without audio
        "no_usable_clip",  # all that were read are rejected
        "too_few_clips",  # fewer usable ones than `min_clips`
        "inconsistent_speaker",  # clips that do not sound like one speaker
        "too_little_speech",  # no reference of `min_duration_s` can be made
        "same_audio_as_other",  # the same reference clip as another voice
    }
)
"""Reasons why a speaker is rejected."""
