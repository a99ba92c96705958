"""What the headers of uncompressed audio files declare, held against the bytes that are there.

Audio libraries read what is left of a file that was cut off, and say nothing of the rest. Nothing is ever allocated
by what a header says: only its first bytes are looked at.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

HEAD_BYTES = 1 << 16
"""What must be read of a file at most to find where its audio begins; chunks before it are seldom longer."""

_UNKNOWN = frozenset({0x7FFFFFFF, 0x7FFFF000, 0x7FFFFFF0, 0x80000000, 0xFFFFFFFF, 0x7FFFFFDB, 0xFFFFFFDB})
"""Sizes that programs write which do not know it yet (to a pipe): the audio goes on to the file's end."""
_NIST_FIELD = re.compile(rb"^(\w+) -(?:i|r|s\d+) (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DeclaredAudio:
    """Bytes of audio that a header declares, and that there are; `declared` is None where it does not know."""

    declared: int | None
    there: int

    @property
    def is_unfinished(self) -> bool:
        """Whether the header was written before the audio and never completed."""
        return self.declared == 0 and self.there > 0

    @property
    def is_cut(self) -> bool:
        """Whether audio is missing; a file may lack the byte that pads a chunk."""
        return self.declared is not None and self.there + 1 < self.declared


def read_declared_audio(head: bytes, size: int) -> DeclaredAudio | None:
    """Return what the header of a WAV, AIFF, AU or SPHERE file declares; None for others, or where it cannot be told.

    Args:
        head: the file's first bytes, up to `HEAD_BYTES`.
        size: the file's length in bytes.
    """
    magic = head[:4]
    if magic in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE":
        return _read_chunks(head, size, "<" if magic != b"RIFX" else ">", b"data")
    if magic == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _read_chunks(head, size, ">", b"SSND")
    if magic == b".snd" and len(head) >= 12:
        offset, declared = struct.unpack(">II", head[4:12])
        return _declare(declared, size - offset)
    if head.startswith(b"NIST_1A"):
        return _read_sphere(head, size)
    return None


def is_cut_ogg(tail: bytes) -> bool:
    """Whether an Ogg file (Vorbis, Opus, Speex) ends within a page; `tail` is its last `HEAD_BYTES` bytes or more."""
    start = tail.rfind(b"OggS")
    if start < 0 or len(tail) < start + 27:
        return start >= 0
    count = tail[start + 26]
    lengths = tail[start + 27 : start + 27 + count]
    return len(lengths) < count or len(tail) < start + 27 + count + sum(lengths)


def is_shortened_sphere(head: bytes) -> bool:
    """Whether a SPHERE file is compressed by shorten, which neither libsndfile nor ffmpeg reads within SPHERE."""
    return head.startswith(b"NIST_1A") and b"shorten" in read_sphere_fields(head).get("sample_coding", b"")


def read_sphere_fields(head: bytes) -> dict[str, bytes]:
    """Return the fields of a SPHERE header, as they stand there."""
    length = int(head[8:16]) if head[8:16].strip().isdigit() else len(head)
    return {match[1].decode("ascii"): match[2] for match in _NIST_FIELD.finditer(head[16:length])}


def _read_chunks(head: bytes, size: int, order: str, wanted: bytes) -> DeclaredAudio | None:
    position, long_size = 12, None
    while position + 8 <= len(head):
        name, length = head[position : position + 4], struct.unpack(f"{order}I", head[position + 4 : position + 8])[0]
        if name == b"ds64" and position + 24 <= len(head):
            long_size = struct.unpack("<Q", head[position + 16 : position + 24])[0]
        if name == wanted:
            if long_size is not None and length == 0xFFFFFFFF:
                return DeclaredAudio(long_size, size - position - 8)
            return _declare(length, size - position - 8)
        position += 8 + length + length % 2
    return None


def _read_sphere(head: bytes, size: int) -> DeclaredAudio | None:
    fields = read_sphere_fields(head)
    try:
        count = int(fields["sample_count"]) * int(fields.get("channel_count", b"1"))
        declared = count * int(fields.get("sample_n_bytes", b"2"))
        return _declare(declared, size - int(head[8:16]))
    except (KeyError, ValueError):
        return None


def _declare(declared: int, there: int) -> DeclaredAudio:
    return DeclaredAudio(None if declared in _UNKNOWN else declared, max(0, there))
