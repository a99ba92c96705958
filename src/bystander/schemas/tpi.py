"""Arrow schemas of TPI rows, stage by stage: each stage adds columns to what it read.

Times are in seconds from the start of the clip that the column is about; levels in dBFS; audio is 16-bit, mono, and
FLAC in what is published.
"""

from __future__ import annotations

import pyarrow as pa


def _extend(schema: pa.Schema, *columns: pa.Field) -> pa.Schema:
    return pa.schema([*schema, *columns])


def _text(name: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.string(), nullable=nullable)


AUDIO = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
"""An encoded clip and a file name for it: the layout that Hugging Face's Audio feature reads."""

SEGMENT = pa.struct(
    [pa.field("speaker", pa.string()), pa.field("start_s", pa.float64()), pa.field("end_s", pa.float64())]
)
"""Who speaks from when to when; `speaker` is `primary` or `third_party`."""

TRACK = pa.struct(
    [
        pa.field("speaker", pa.string()),  # primary | third_party
        pa.field("voice", pa.string()),
        pa.field("text", pa.string()),
        pa.field("audio", pa.binary()),  # the trimmed speech, WAV or FLAC
        pa.field("sampling_rate", pa.int32()),
        pa.field("duration_s", pa.float64()),
        pa.field("level_dbfs", pa.float64()),  # RMS
        pa.field("recognised", pa.string()),
        pa.field("wer_raw", pa.float64()),
        pa.field("wer", pa.float64()),  # after the text normaliser
        pa.field("recognition_temperature", pa.float64()),  # null where the recogniser has none
        pa.field("attempts", pa.int32()),
        pa.field("tts_seed", pa.int64()),
    ]
)
"""One accepted clean track of one speaker."""

_QUERY_ORIGIN = pa.schema(
    [
        _text("query_source"),  # file (without its folder) that the query came from
        pa.field("query_line", pa.int64(), nullable=False),  # 1-based record number in that file
        _text("query_text", nullable=True),  # as it stands in the file
        _text("language"),
    ]
)

RAW_QUERY = _extend(
    _QUERY_ORIGIN,
    _text("query_fault", nullable=True),  # why there is no query_text; null where there is one
)
"""What `storage.query_files` reads."""

QUERY = _extend(
    _QUERY_ORIGIN,
    _text("query_id"),  # hash of the request and language
    _text("request"),  # the query made speakable
)
"""After `normalise_queries`."""

CANDIDATE = _extend(
    QUERY,
    pa.field("draw", pa.int32(), nullable=False),  # 0 for a query's first row, 1 for its second, ...
)
"""A query that is to become one more row, as planned for a wave."""

DRAWN = _extend(
    QUERY,
    _text("id"),  # hash of query_id and draw
    pa.field("draw", pa.int32(), nullable=False),  # 0 for a query's first row, 1 for its second, ...
    _text("scenario"),
    _text("category"),
    _text("timing"),
)
"""After `draw_scenarios`: one row is one sample to be."""

WRITTEN = _extend(
    DRAWN,
    _text("primary_complete"),  # the whole spoken request
    _text("primary_text"),  # what is spoken: the same, or cut at a word and ending in "..." for within_sentence
    _text("third_party_text"),
    pa.field("write_attempts", pa.int32(), nullable=False),
)
REALISTIC = _extend(WRITTEN, pa.field("realism_score", pa.float64(), nullable=False))  # probability in [0, 1]
LABELLED = _extend(
    REALISTIC,
    _text("label"),  # a class of the pack: actionable | ignorable in the reference pack
    _text("kind", nullable=True),  # a kind of that class, null where the class has none
    pa.field("label_score", pa.float64(), nullable=False),  # probability of the label
)
REPLIED = _extend(
    LABELLED,
    _text("reply"),
    pa.field("reply_attempts", pa.int32(), nullable=False),
)
SCORED = _extend(
    REPLIED,
    pa.field("ambiguity_score", pa.float64(), nullable=False),  # 1 (clearly two people) to 5 (clearly one)
)
VOICED = _extend(
    SCORED,
    pa.field("n_speakers", pa.int32(), nullable=False),
    _text("primary_voice"),
    _text("third_party_voice", nullable=True),  # null in a hard negative
    _text("twin_id", nullable=True),  # hard negatives: id of the two-speaker row of the same transcript
)
SYNTHESISED = _extend(VOICED, pa.field("tracks", pa.list_(TRACK), nullable=False))  # primary first
VERIFIED = _extend(
    SYNTHESISED,
    pa.field("track_similarity", pa.float64()),  # cosine of the two tracks' speakers; of the halves of a single track
)
MIXED = _extend(
    VERIFIED,
    pa.field("audio", AUDIO, nullable=False),
    pa.field("sampling_rate", pa.int32(), nullable=False),
    pa.field("duration_s", pa.float64(), nullable=False),
    pa.field("segments", pa.list_(SEGMENT), nullable=False),
    pa.field("offset_asked_s", pa.float64()),  # third party's start minus primary's end; null in a hard negative
    pa.field("overlap_s", pa.float64()),  # measured from the placed tracks
    pa.field("loudness_difference_db", pa.float64()),  # third party minus primary, as set
)
CHECKED = _extend(
    MIXED,
    pa.field("mixture_similarity", pa.float64()),  # cosine of the mixture before the overlap with that after it
)
"""A finished row before quotas and splits."""

FINAL = pa.schema(
    [
        _text("id"),
        _text("split"),
        pa.field("audio", AUDIO, nullable=False),
        pa.field("sampling_rate", pa.int32(), nullable=False),
        pa.field("duration_s", pa.float64(), nullable=False),
        pa.field("n_speakers", pa.int32(), nullable=False),
        _text("query_id"),
        _text("query_text"),
        _text("query_source"),
        _text("language"),
        _text("request"),
        _text("primary_complete"),
        _text("primary_text"),
        _text("third_party_text"),
        _text("primary_recognised"),  # of the whole transcript in a hard negative
        _text("third_party_recognised", nullable=True),
        _text("scenario"),
        _text("category"),
        _text("timing"),
        _text("label"),  # `hard_negative` in a hard negative
        _text("kind", nullable=True),
        pa.field("label_score", pa.float64(), nullable=False),
        _text("reply"),
        _text("pack"),
        _text("pack_digest"),
        _text("primary_voice"),
        _text("third_party_voice", nullable=True),
        pa.field("segments", pa.list_(SEGMENT), nullable=False),
        pa.field("offset_asked_s", pa.float64()),
        pa.field("overlap_s", pa.float64()),
        pa.field("loudness_difference_db", pa.float64()),
        pa.field("primary_wer_raw", pa.float64(), nullable=False),
        pa.field("primary_wer", pa.float64(), nullable=False),
        pa.field("third_party_wer_raw", pa.float64()),
        pa.field("third_party_wer", pa.float64()),
        pa.field("primary_recognition_temperature", pa.float64()),  # above 0: found unlikely at first, then sampled
        pa.field("third_party_recognition_temperature", pa.float64()),
        pa.field("track_similarity", pa.float64()),
        pa.field("mixture_similarity", pa.float64()),
        pa.field("realism_score", pa.float64(), nullable=False),
        pa.field("ambiguity_score", pa.float64(), nullable=False),
        _text("twin_id", nullable=True),  # the other row of the same transcript, in either direction
        pa.field("write_attempts", pa.int32(), nullable=False),
        pa.field("reply_attempts", pa.int32(), nullable=False),
        pa.field("primary_attempts", pa.int32(), nullable=False),
        pa.field("third_party_attempts", pa.int32()),
        _text("engines"),  # JSON: role to identity
        pa.field("seed", pa.int64(), nullable=False),  # the build's seed
    ]
)
"""A row of a published TPI shard."""

HARD_NEGATIVE_LABEL = "hard_negative"

TPI_TEST, JANUS_TEST = "tpi_test", "janus_test"
"""The splits of a bench: two-speaker rows, and one-speaker rows."""
