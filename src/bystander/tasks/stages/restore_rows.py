"""Turns rows of a published shard into checked rows again, as far as a shard holds them: the way back of
`finalise_rows`.

What is not published stays away: the audio of single tracks and what was measured of it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.identity import make_id
from bystander.schemas.tpi import CHECKED, FINAL, TRACK, VOICED
from bystander.tasks.stages.build_hard_negatives import name_hard_negative
from bystander.tasks.stages.synthesise_speech import join_transcript

PUBLISHED_TEXTS: tuple[str, ...] = tuple(name for name in VOICED.names if name in FINAL.names)
"""The columns of a published row that say what it is; the others say how it sounds."""
_TRACK_COLUMNS = ("recognised", "wer_raw", "wer", "recognition_temperature", "attempts")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a published row comes from. Of a hard negative, `pair` is its two-speaker row."""

    pair: str
    draw: int
    query_line: int
    """Record number of its query, in the file that is read now."""


def find_origin(row_id: str, query_id: str, n_speakers: int, query_line: int, draws: int) -> Origin | None:
    """Return where a row comes from, or None if it is no row of that query in its first `draws` draws."""
    for draw in range(draws):
        pair = make_id("row", query_id, draw)
        if row_id == (pair if n_speakers == 2 else name_hard_negative(pair)):
            return Origin(pair, draw, query_line)
    return None


def restore_voiced(rows: pa.Table, origins: Mapping[str, Origin]) -> pa.Table:
    """Return VOICED rows of published ones, which have the columns PUBLISHED_TEXTS.

    As before publication, a hard negative names its two-speaker row, whether or not that is published, and a
    two-speaker row names none.
    """
    found = [origins[row_id] for row_id in rows["id"].to_pylist()]
    single = [speakers == 1 for speakers in rows["n_speakers"].to_pylist()]
    columns: dict[str, Sequence[Any]] = {
        "draw": [origin.draw for origin in found],
        "query_line": [origin.query_line for origin in found],
        "twin_id": [origin.pair if one else None for origin, one in zip(found, single, strict=True)],
    }
    return _assemble(rows, VOICED, columns)


def restore_checked(rows: pa.Table, origins: Mapping[str, Origin]) -> pa.Table:
    """Return CHECKED rows of FINAL ones; tracks have neither audio nor what was measured of that alone."""
    voiced = restore_voiced(rows, origins)
    columns = {name: voiced[name] for name in ("draw", "query_line", "twin_id")}
    names = [f"{speaker}_{name}" for speaker in ("primary", "third_party") for name in _TRACK_COLUMNS]
    texts = ["n_speakers", "primary_voice", "third_party_voice", "primary_text", "third_party_text"]
    tracks = [_list_tracks(row) for row in rows.select([*names, *texts]).to_pylist()]
    return _assemble(rows, CHECKED, {**columns, "tracks": pa.array(tracks, pa.list_(TRACK))})


def replace_columns(rows: pa.Table, values: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return the rows with other values in some of their columns."""
    for name, column in values.items():
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, pa.array(column, field.type))
    return rows


def _list_tracks(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    speakers = ("primary", "third_party")[: row["n_speakers"]]
    whole = join_transcript(row["primary_text"], row["third_party_text"])
    return [
        {
            "speaker": speaker,
            "voice": row[f"{speaker}_voice"],
            "text": row[f"{speaker}_text"] if row["n_speakers"] == 2 else whole,
            **{name: row[f"{speaker}_{name}"] for name in _TRACK_COLUMNS},
        }
        for speaker in speakers
    ]


def _assemble(rows: pa.Table, schema: pa.Schema, given: Mapping[str, Sequence[Any]]) -> pa.Table:
    columns = [
        given[field.name]
        if isinstance(given.get(field.name), (pa.Array, pa.ChunkedArray))
        else pa.array(given[field.name], field.type)
        if field.name in given
        else rows[field.name]
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
