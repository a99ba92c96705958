"""Arrow schemas of rows from recordings of several people: utterances, pairs of them, and published rows.

Times of utterances and pairs are seconds from the start of the recording; those of a clip, from the clip's start.
"""

from __future__ import annotations

import pyarrow as pa

from bystander.schemas.tpi import AUDIO, FINAL, SEGMENT

REAL_WORLD = "real_world"
"""The split of a build of real recordings."""


def _extend(schema: pa.Schema, *columns: pa.Field) -> pa.Schema:
    return pa.schema([*schema, *columns])


def _text(name: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.string(), nullable=nullable)


UTTERANCE = pa.schema(
    [
        _text("corpus"),  # name that the user gives it, or that of its folder or file
        _text("recording"),  # meeting, dialogue or episode: speakers of one share a clock
        _text("place"),  # file and row that it came from
        _text("speaker", nullable=True),
        pa.field("channel", pa.int32()),  # of the speaker's own microphone, from 0
        pa.field("start_s", pa.float64()),
        pa.field("end_s", pa.float64()),
        _text("text"),  # what was said, marks of sounds left out; empty for a laugh, a cough
        _text("source_text"),  # as it stands in the corpus
        _text("language"),
        _text("licence"),
        _text("fault", nullable=True),  # why the row cannot be used
    ]
)
"""What `storage.corpora` reads. Without a fault, speaker and times are there."""

PAIR = pa.schema(
    [
        _text("id"),  # hash of corpus, recording, speakers and starts
        _text("corpus"),
        _text("recording"),
        _text("place"),  # of the first utterance
        _text("language"),
        _text("licence"),
        _text("primary_speaker"),
        _text("third_party_speaker"),
        pa.field("primary_channel", pa.int32()),
        pa.field("third_party_channel", pa.int32()),
        pa.field("primary_start_s", pa.float64(), nullable=False),
        pa.field("primary_end_s", pa.float64(), nullable=False),
        pa.field("third_party_start_s", pa.float64(), nullable=False),
        pa.field("third_party_end_s", pa.float64(), nullable=False),
        pa.field("others_s", pa.float64(), nullable=False),  # speech of anybody else between start and end
        _text("speakers"),  # all speakers of the recording, as JSON: their names may be called out
        _text("primary_source_text"),
        _text("third_party_source_text"),
        _text("primary_text"),  # speakable
        _text("third_party_text"),
    ]
)
"""Two turns of different speakers, one right after or into the other."""

SCORED_PAIR = _extend(
    PAIR,
    pa.field("query_score", pa.float64(), nullable=False),  # 1 to 5: a request to an assistant
    pa.field("interruption_score", pa.float64(), nullable=False),  # 1 to 5: the second turn cuts in
    pa.field("answerable_score", pa.float64(), nullable=False),  # 1 to 5: without sight, hands or the room
)

LOCATED_PAIR = _extend(
    SCORED_PAIR,
    pa.field("audio_files", pa.list_(pa.string()), nullable=False),  # of the recording, channels in order
    pa.field("audio_digests", pa.list_(pa.string()), nullable=False),  # SHA-256 of each
    _text("decision", nullable=True),  # what reviewers decided, as JSON
    _text("undecided"),  # kept | left_out: what becomes of a row without a decision
)
"""A pair with the files that its clip is cut from (none where the corpus has no audio)."""

CUT_PAIR = _extend(
    LOCATED_PAIR,
    pa.field("audio", AUDIO),
    pa.field("sampling_rate", pa.int32()),
    pa.field("duration_s", pa.float64()),
    pa.field("clip_start_s", pa.float64()),  # of the clip, in the recording
    pa.field("segments", pa.list_(SEGMENT)),
    pa.field("overlap_s", pa.float64()),
)
"""With its clip; all of these are null where there is no audio."""

REVIEW = pa.struct(
    [
        pa.field("verdict", pa.string()),  # accept
        pa.field("rule", pa.string()),  # how several annotators' verdicts became one
        pa.field("annotators", pa.list_(pa.string())),
        pa.field("edited", pa.list_(pa.string())),  # columns that they put right
    ]
)

REVIEWED_PAIR = _extend(CUT_PAIR, pa.field("review", REVIEW))

_MAY_BE_NULL = frozenset(
    {"query_text", "scenario", "category", "primary_recognised", "primary_voice", "primary_wer_raw", "primary_wer"}
    | {"write_attempts", "primary_attempts", "realism_score"}
)
"""Of `schemas.tpi.FINAL`, columns that a real recording cannot fill."""

REAL_FINAL = pa.schema(
    [
        *(column.with_nullable(True) if column.name in _MAY_BE_NULL else column for column in FINAL),
        _text("corpus"),
        _text("recording"),
        pa.field("start_s", pa.float64(), nullable=False),  # of the clip in the recording
        pa.field("end_s", pa.float64(), nullable=False),
        _text("licence"),
        _text("primary_speaker"),
        _text("third_party_speaker"),
        _text("primary_source_text"),
        _text("third_party_source_text"),
        pa.field("others_s", pa.float64(), nullable=False),
        pa.field("query_score", pa.float64()),  # null where the lines were read from a script
        pa.field("interruption_score", pa.float64()),
        pa.field("answerable_score", pa.float64()),
        pa.field("review", REVIEW),
    ]
)
"""A row of a published build of real recordings: the columns of a TPI row, and where it comes from."""
