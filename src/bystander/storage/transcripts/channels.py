"""Which channel each segment of a transcript is on, and the name of each channel's speaker.

1. Labels that count channels do: A and B, L and R, left and right, 0 and 1 or 1 and 2, each with or without `channel`,
   `ch`, `speaker` or `spk` before it (`SPEAKER_00`). The format's own channel field goes before the speaker's name
   where it tells two channels apart.
2. Names that a manifest gives are those of the first and the second channel.
3. Two other names are the first and the second channel in the order in which the transcript has them: tiers of a
   TextGrid from the top, else segments from the first line. `transcribe_recordings` finds out if that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bystander.storage.transcripts.segments import Segment, TranscriptError

_TOKEN = re.compile(r"^(?:(?:channel|chan|ch|speaker|spkr|spk|side)[ _.-]*)?0*(\d|a|b|l|r|left|right)$", re.IGNORECASE)
_PAIRS = (("a", "b"), ("l", "r"), ("left", "right"), ("0", "1"), ("1", "2"))


def assign_channels(
    segments: Sequence[Segment], stem: str, speakers: tuple[str, str] | None = None
) -> tuple[list[int], tuple[str, str]]:
    """Return the channel (0 or 1) of each segment, and the two speakers' names.

    Args:
        segments: of one recording.
        stem: of its file's name; nameless speakers are called after it, `sw2001-A` and `sw2001-B`.
        speakers: names in the order of the channels, where the user gives them.

    Raises:
        TranscriptError: the channels cannot be told, or there are more than two speakers.
    """
    default = speakers or (f"{stem}-A", f"{stem}-B")
    by_channel = [segment.channel for segment in segments]
    by_speaker = [segment.speaker for segment in segments]
    tells_apart = len(set(by_channel)) == 2 or len(set(by_speaker)) == 1
    if tells_apart and (places := place_labels(by_channel)) is not None:
        return places, speakers or _name_channels(places, by_speaker, default)
    labels = by_speaker if any(by_speaker) else by_channel
    distinct = list(dict.fromkeys(label for label in labels if label is not None))
    if len(distinct) > 2:
        raise TranscriptError(
            f"has {len(distinct)} speakers ({', '.join(map(repr, distinct[:5]))}), where a recording has two channels; "
            "take the others, or tiers of notes, out of it",
            "too_many_speakers",
        )
    if not distinct or None in labels:
        line = next(segment.line for segment, label in zip(segments, labels, strict=True) if label is None)
        raise TranscriptError(
            f"line or segment {line}: names neither speaker nor channel; name them, or give each channel a transcript "
            "of its own",
            "speakers_unclear",
        )
    if speakers is not None:
        known = {name.casefold(): place for place, name in enumerate(speakers)}
        if all(label.casefold() in known for label in distinct):
            return [known[str(label).casefold()] for label in labels], speakers
    if (places := place_labels(labels)) is not None:
        return places, default
    if speakers is not None or len(distinct) == 1:
        raise TranscriptError(
            f"the channel of speaker {' and '.join(map(repr, distinct))} cannot be told; name the speakers of both "
            "channels, in their order, in the manifest's field 'speakers'",
            "speakers_unclear",
        )
    return [distinct.index(str(label)) for label in labels], (distinct[0], distinct[1])


def place_labels(labels: Sequence[str | None]) -> list[int] | None:
    """Return 0 or 1 for each label where all of them count channels, else None."""
    tokens = []
    for label in labels:
        match = _TOKEN.match(label.strip()) if label else None
        if match is None:
            return None
        tokens.append(match[1].casefold())
    found = set(tokens)
    if found == {"1"}:
        return [0] * len(tokens)  # one channel alone, counted from 1 as NIST does
    pair = next((pair for pair in _PAIRS if found <= set(pair)), None)
    return None if pair is None else [pair.index(token) for token in tokens]


def _name_channels(places: Sequence[int], names: Sequence[str | None], default: tuple[str, str]) -> tuple[str, str]:
    first: list[str] = []
    for channel in (0, 1):
        on_it = [name for place, name in zip(places, names, strict=True) if place == channel and name]
        first.append(on_it[0] if on_it and not _TOKEN.match(on_it[0]) else default[channel])
    return (first[0], first[1]) if first[0] != first[1] else default
