"""Arrow schemas of SID rows, stage by stage.

A recording has two speakers, one a channel. Turns are cut from it, tagged, aligned, and given their break time. Times
are in seconds: within `utterances`, `turns`, `silences` and `truths` from the start of the recording, elsewhere from
the start of the clip that the row is about.
"""

from __future__ import annotations

import pyarrow as pa

from bystander.schemas.tpi import AUDIO


def _extend(schema: pa.Schema, *columns: pa.Field) -> pa.Schema:
    return pa.schema([*schema, *columns])


def _text(name: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.string(), nullable=nullable)


def _number(name: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.float64(), nullable=nullable)


BEGINNING, MIDDLE, UNINTERRUPTED, SILENCE, NOISE = "beginning", "middle", "uninterrupted", "silence", "noise"
SPEECH_CATEGORIES = (BEGINNING, MIDDLE, UNINTERRUPTED)
CATEGORIES = (*SPEECH_CATEGORIES, SILENCE, NOISE)
"""Interruption at the beginning, in the middle (after a backchannel), none; near-silent clips; environmental noise."""

SID_BENCH_SPLIT, SID_TRAIN_SPLIT = "sid_bench", "train"

WORD = pa.struct(
    [
        pa.field("word", pa.string()),
        pa.field("start_s", pa.float64()),  # null where the transcript has no word times
        pa.field("end_s", pa.float64()),
        pa.field("score", pa.float64()),
    ]
)
"""A word of a transcript, with its times where the transcript gives them."""

UTTERANCE = pa.struct(
    [
        pa.field("channel", pa.int32()),  # 0 or 1
        pa.field("start_s", pa.float64()),
        pa.field("end_s", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("words", pa.list_(WORD)),  # empty where the transcript has no words of its own
    ]
)
"""A stretch of one speaker's speech, as the transcript (or the recogniser) has it."""

TRUTH = pa.struct(
    [
        pa.field("channel", pa.int32()),
        pa.field("start_s", pa.float64()),  # of the turn's first speech
        pa.field("end_s", pa.float64()),
        pa.field("category", pa.string()),
        pa.field("break_word_index", pa.int32()),  # null where there is no break
        pa.field("break_time_s", pa.float64()),  # start of that word's first phone, in the recording
        pa.field("words", pa.list_(WORD)),
    ]
)
"""What is known of a synthetic turn from its making. No stage that annotates may read it."""

SPAN = pa.struct([pa.field("start_s", pa.float64()), pa.field("end_s", pa.float64())])

TURN_SPAN = pa.struct(
    [
        pa.field("channel", pa.int32()),
        pa.field("start_s", pa.float64()),  # of the clip: the turn and a margin on either side
        pa.field("end_s", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("words", pa.list_(WORD)),  # times from the start of the recording
        pa.field("speech", pa.list_(SPAN)),  # where the turn's own channel has speech
        pa.field("other_text", pa.string()),  # the turn of the other speaker that it overlaps
        pa.field("other_start_s", pa.float64()),
        pa.field("other_end_s", pa.float64()),
        pa.field("overlap_s", pa.float64()),  # time in which both speak
    ]
)
"""A turn of one speaker that begins while the other is speaking."""

_RECORDING_ORIGIN = pa.schema(
    [
        _text("recording_id"),  # hash of the digests of its files; of the plan, where it is synthetic
        _text("source"),  # file or folder name that it came from, or `synthetic`
        _text("licence", nullable=True),
        _text("language"),  # primary subtag: en | zh
        pa.field("speakers", pa.list_(pa.string()), nullable=False),  # name of each channel's speaker, two
    ]
)

RAW_RECORDING = _extend(
    _RECORDING_ORIGIN,
    pa.field("audio_files", pa.list_(pa.string()), nullable=False),  # one, or one a speaker
    pa.field("audio_digests", pa.list_(pa.string()), nullable=False),  # SHA-256 of each
    pa.field("utterances", pa.list_(UTTERANCE), nullable=False),  # of the transcript; empty where there is none
    _text("transcript_source", nullable=True),  # format of the transcript; null where there is none
    _text("fault_reason", nullable=True),  # why the recording cannot be used at all, a stable code
    _text("fault", nullable=True),
)
"""A recording as `storage.recording_files` finds it; its audio is not read yet."""

DECODED = _extend(
    RAW_RECORDING,
    pa.field("audio", AUDIO, nullable=False),  # FLAC, 16 bit, two channels
    pa.field("sampling_rate", pa.int32(), nullable=False),
    _number("duration_s"),
)
"""After `decode_recordings`."""

_HEARD = (
    pa.field("audio", AUDIO, nullable=False),
    pa.field("sampling_rate", pa.int32(), nullable=False),
    _number("duration_s"),
    pa.field("utterances", pa.list_(UTTERANCE), nullable=False),
    _text("transcript_source"),  # its format, `recogniser`, or `script` where it is synthetic
    pa.field("synthetic", pa.bool_(), nullable=False),
    pa.field("truths", pa.list_(TRUTH), nullable=False),  # empty unless it is synthetic
)

RECORDING = _extend(_RECORDING_ORIGIN, *_HEARD)
"""A recording that can be annotated: after `transcribe_recordings`, or after `speak_conversations`."""

CONVERSATION_PLAN = pa.schema(
    [
        _text("recording_id"),
        _text("language"),
        _text("category"),  # of the user's turn: beginning | middle | uninterrupted
        pa.field("draw", pa.int32(), nullable=False),
    ]
)
"""A conversation that is to be scripted and spoken."""

SCRIPTED = _extend(
    CONVERSATION_PLAN,
    _text("assistant_text"),  # what is interrupted
    _text("backchannel"),  # said first, or alone; empty in `beginning`
    _text("substance"),  # what carries the new intent; empty in `uninterrupted`
    pa.field("gap_s", pa.float64()),  # pause between the two; null where they are spoken as one utterance
)
"""After `write_conversations`. The user's turn is the backchannel, then the substance."""

TURNS_FOUND = _extend(
    RECORDING,
    pa.field("turns", pa.list_(TURN_SPAN), nullable=False),
    pa.field("silences", pa.list_(pa.struct([pa.field("channel", pa.int32()), *SPAN])), nullable=False),
)
"""After `find_turns`: near-silent stretches too, from which silence clips are made."""

TURN = pa.schema(
    [
        _text("id"),  # hash of the recording, the channel and the start in samples
        _text("recording_id"),
        _text("source"),
        _text("licence", nullable=True),
        _text("language"),
        _text("speaker"),
        pa.field("channel", pa.int32(), nullable=False),
        _number("turn_start_s"),  # of the clip, in the recording
        pa.field("audio", AUDIO, nullable=False),  # the speaker's own channel, mono
        pa.field("sampling_rate", pa.int32(), nullable=False),
        _number("duration_s"),
        _text("text"),
        pa.field("transcript_words", pa.list_(WORD), nullable=False),
        pa.field("speech", pa.list_(SPAN), nullable=False),
        _text("context_text"),  # what the other speaker was saying
        _number("context_start_s"),  # may be negative: it began before the clip
        _number("context_end_s"),
        _number("overlap_s"),
        _text("transcript_source"),
        pa.field("synthetic", pa.bool_(), nullable=False),
        _text("true_category", nullable=True),
        pa.field("true_break_word_index", pa.int32()),
        _number("true_break_time_s", nullable=True),
    ]
)
"""One turn cut from its recording. The `true_` columns are null unless it is synthetic, and no annotator reads them."""

VOTE = pa.struct([pa.field("tagger", pa.string()), pa.field("break_word_index", pa.int32())])
"""What one tagger, or one sample of it, said; null for no break."""

TAGGED = _extend(
    TURN,
    pa.field("words", pa.list_(pa.string()), nullable=False),  # of the text, as written, in order
    pa.field("break_word_index", pa.int32()),  # position in `words`, from 0; null where there is no break
    _text("text_with_break"),  # the text with one <break> before that word, or the text itself
    pa.field("tag_votes", pa.list_(VOTE), nullable=False),
    _number("tag_agreement"),  # share of the votes that agree with the tag, in (0, 1]
)

TIMED_WORD = pa.struct(
    [
        pa.field("word", pa.string()),
        pa.field("start_s", pa.float64()),
        pa.field("end_s", pa.float64()),
        pa.field("score", pa.float64()),
        pa.field("in_vocabulary", pa.bool_()),
    ]
)
PHONE = pa.struct(
    [
        pa.field("phone", pa.string()),
        pa.field("start_s", pa.float64()),
        pa.field("end_s", pa.float64()),
        pa.field("word_index", pa.int32()),
    ]
)
ALIGNED = _extend(
    TAGGED,
    pa.field("timed_words", pa.list_(TIMED_WORD), nullable=False),  # one a word of `words`
    pa.field("phones", pa.list_(PHONE), nullable=False),
    _text("aligner"),
    pa.field("alignment_is_fallback", pa.bool_(), nullable=False),
    pa.field("alignment_score", pa.float64()),
    _text("second_aligner", nullable=True),
    _number("aligner_disagreement_s", nullable=True),  # of the break word's start; largest of all where none breaks
)
PLACED = _extend(
    ALIGNED,
    _text("category"),
    pa.field("total_nonbreak", pa.bool_(), nullable=False),
    _number("break_time_s"),  # = duration_s where there is no break
)
"""After `place_breaks`: a finished row before quotas and splits."""

NOISE_PLAN = pa.schema(
    [
        _text("id"),
        _text("category"),  # silence | noise
        _text("source"),  # file name, generator or recording ids
        _text("licence", nullable=True),
        pa.field("synthetic", pa.bool_(), nullable=False),  # generated, or of synthetic recordings
        pa.field("pieces", pa.list_(AUDIO), nullable=False),  # FLAC or file bytes, mono; empty for a generator
        pa.field("draw", pa.int32(), nullable=False),
    ]
)
"""A clip without speech that is to be made: from near-silent stretches, a file, or a generator."""

NOISE_CLIP = pa.schema(
    [
        _text("id"),
        _text("category"),
        _text("source"),
        _text("licence", nullable=True),
        pa.field("synthetic", pa.bool_(), nullable=False),
        pa.field("audio", AUDIO, nullable=False),
        pa.field("sampling_rate", pa.int32(), nullable=False),
        _number("duration_s"),
    ]
)
"""After `make_noise_clips`."""

SID_FINAL = pa.schema(
    [
        _text("id"),
        _text("split"),
        pa.field("audio", AUDIO, nullable=False),
        pa.field("sampling_rate", pa.int32(), nullable=False),
        _number("duration_s"),
        _text("language", nullable=True),  # null for silence and noise, as the text is
        _text("category"),
        pa.field("total_nonbreak", pa.bool_(), nullable=False),
        _number("break_time_s"),  # = duration_s where there is no break
        pa.field("break_word_index", pa.int32()),
        _text("text", nullable=True),
        _text("text_with_break", nullable=True),
        pa.field("words", pa.list_(TIMED_WORD), nullable=False),
        pa.field("phones", pa.list_(PHONE), nullable=False),
        _text("recording_id", nullable=True),
        _text("source"),
        _text("licence", nullable=True),
        _text("speaker", nullable=True),
        _number("turn_start_s", nullable=True),
        _text("context_text", nullable=True),
        _number("context_start_s", nullable=True),
        _number("context_end_s", nullable=True),
        _number("overlap_s", nullable=True),
        _text("transcript_source", nullable=True),
        pa.field("tag_votes", pa.list_(VOTE), nullable=False),
        _number("tag_agreement", nullable=True),
        _text("aligner", nullable=True),
        pa.field("alignment_is_fallback", pa.bool_()),
        _number("alignment_score", nullable=True),
        _text("second_aligner", nullable=True),
        _number("aligner_disagreement_s", nullable=True),
        pa.field("synthetic", pa.bool_(), nullable=False),
        _text("true_category", nullable=True),
        pa.field("true_break_word_index", pa.int32()),
        _number("true_break_time_s", nullable=True),
        _text("engines"),  # JSON: role to identity
        pa.field("seed", pa.int64(), nullable=False),
    ]
)
"""A row of a published SID shard."""

SID_CLIP = pa.schema(
    [
        _text("id"),
        pa.field("audio", AUDIO, nullable=False),
        pa.field("sampling_rate", pa.int32(), nullable=False),
        _number("duration_s"),
    ]
)
"""A clip as a detector is given it: nothing of what is known about it."""

SID_DETECTED = _extend(SID_CLIP, _number("stop_time_s", nullable=True))
"""After `detect_breaks`: when the detector stopped, from the start of the clip; null where it never did."""
