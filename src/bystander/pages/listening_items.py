"""Rows and rejects of any build as a listening page shows them: words, figures, sounds, and their filters."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import soundfile
from markupsafe import Markup

from bystander.pages.clips import TPI_NUMBERS, list_numbers, shorten_text
from bystander.pages.waveform import draw_waveform
from bystander.pages.word_waveform import describe_wave, draw_word_waveform, split_at_break
from bystander.schemas.row_sounds import Sound

BuildFamily = Literal["tpi", "sid", "dyadic"]

FACETS: Mapping[BuildFamily, Mapping[str, str]] = {
    "tpi": {
        "label": "Label",
        "scenario": "Scenario",
        "category": "Category",
        "timing": "Timing",
        "n_speakers": "Speakers",
        "split": "Split",
        "corpus": "Corpus",
    },
    "sid": {"category": "Category", "language": "Language", "speech": "Speech", "split": "Split"},
    "dyadic": {"split": "Split", "primary_voice": "Voice"},
}
"""What rows of a build are filtered by: column and title."""
REJECT_FACETS = {"reject_stage": "Refused by", "reject_reason": "Reason"}
"""What rejects are filtered by besides."""
STATES = {"kept": "Rows", "rejected": "Rejects"}
"""Whether an item is a row of the build or was refused."""

SPOKEN_TEXTS = (
    "primary_text",
    "primary_complete",
    "third_party_text",
    "reply",
    "request",
    "query_text",
    "text_with_break",
    "text",
    "context_text",
    "assistant_text",
    "backchannel",
    "substance",
    "source",
    "fault",
    "reject_detail",
    "raw_output",
    "primary_voice",
    "third_party_voice",
    "primary_speaker",
    "third_party_speaker",
    "recording",
)
"""Columns that free text is looked for in, besides the ids."""


@dataclass(frozen=True, slots=True)
class Player:
    """One sound of an item: title, address (a data URL, or one of the server's) and picture.

    The address is empty where the clip was left out to keep the page small.
    """

    title: str
    source: str
    wave: Markup


@dataclass(frozen=True, slots=True)
class Line:
    """What somebody says: style class, who, and the text in parts, between which the break lies."""

    style: str
    who: str
    parts: Sequence[str]


@dataclass(frozen=True, slots=True)
class ListeningItem:
    """A row or a reject; `key` is unique on its page, `silence` says why nothing can be heard."""

    key: str
    name: str
    chips: Sequence[str]
    players: Sequence[Player]
    silence: str
    lines: Sequence[Line]
    numbers: Sequence[tuple[str, str]]
    twin: str | None
    facets: Mapping[str, str]
    find: str
    stage: str = ""
    reason: str = ""
    detail: str = ""
    raw_output: str = ""


@dataclass(frozen=True, slots=True)
class FacetMenu:
    """A filter: its field, title, and the values with their numbers of items."""

    field: str
    title: str
    values: Sequence[tuple[str, int]]


def describe_item(
    family: BuildFamily, row: Mapping[str, Any], key: str, sounds: Sequence[tuple[Sound, str]], silence: str = ""
) -> ListeningItem:
    """Return a row or reject in words and pictures.

    Args:
        family: whose columns it has: all of its final schema, or, of a reject, those of the stage that refused it.
        row: the cells; `audio` and the like are not looked at.
        key: what the page calls it.
        sounds: what can be heard of it, each with its address.
        silence: why nothing can be, where there are none.
    """
    facets = list_facets(family, row)
    chips = [str(text) for name in _CHIPS[family] if (text := facets.get(name) or row.get(name))]
    if row.get("alignment_is_fallback"):
        chips.append("recogniser's word times")
    return ListeningItem(
        key=key,
        name=str(row.get("id") or row.get("recording_id") or row.get("query_id") or key),
        chips=chips,
        players=[Player(sound.title, source, _draw(family, row, sound)) for sound, source in sounds],
        silence="" if sounds else silence,
        lines=[*_LINES[family](row)],
        numbers=list_numbers({**row, "break_time_s": _find_break(row)}, _NUMBERS[family]),
        twin=row.get("twin_id"),
        facets=facets,
        find=join_texts(row),
        stage=row.get("reject_stage") or "",
        reason=row.get("reject_reason") or "",
        detail=shorten_text(row.get("reject_detail") or ""),
        raw_output=shorten_text(row.get("raw_output") or ""),
    )


def list_facets(family: BuildFamily, row: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a row or reject that it is filtered by; those that it does not have are left out."""
    state = "rejected" if row.get("reject_stage") else "kept"
    synthetic = row.get("synthetic")
    cells = {**row, "speech": None if synthetic is None else "synthetic" if synthetic else "recorded"}
    names = (*FACETS[family], *REJECT_FACETS)
    return {"state": state, **{name: str(cells[name]) for name in names if cells.get(name) is not None}}


def join_texts(row: Mapping[str, Any]) -> str:
    """Return all that free text is looked for in, in lower case."""
    names = ("id", "recording_id", "query_id", "twin_id", *SPOKEN_TEXTS)
    return " ".join(str(row[name]) for name in names if row.get(name)).casefold()


def list_menus(family: BuildFamily, facets: Iterable[Mapping[str, str]]) -> list[FacetMenu]:
    """Return the filters of a page's items: of each field with more than one value, or that not all items have."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("state", *FACETS[family], *REJECT_FACETS)}
    items = 0
    for one in facets:
        items += 1
        for name, value in one.items():
            counts[name][value] += 1
    titles = {"state": "Show", **FACETS[family], **REJECT_FACETS}
    return [
        FacetMenu(name, titles[name], sorted(values.items()))
        for name, values in counts.items()
        if len(values) > 1 or 0 < values.total() < items
    ]


def _draw(family: BuildFamily, row: Mapping[str, Any], sound: Sound) -> Markup:
    """Return the waveform; nothing where a clip cannot be decoded, whose player then says so."""
    try:
        return _draw_clip(family, row, sound)
    except soundfile.LibsndfileError:
        return Markup("")


def _draw_clip(family: BuildFamily, row: Mapping[str, Any], sound: Sound) -> Markup:
    info = soundfile.info(io.BytesIO(sound.audio))
    whole = sound.speaker is None
    if family == "sid":
        break_s, words = _find_break(row), row.get("timed_words") or row.get("words") or ()
        timed = [word for word in words if isinstance(word, Mapping)] if whole else []
        context = (row.get("context_start_s"), row.get("context_end_s"))
        return draw_word_waveform(
            sound.audio,
            timed,
            break_s,
            f"{sound.title}. {describe_wave(info.duration, break_s)}",
            row.get("true_break_time_s"),
            context if None not in context else None,  # type: ignore[arg-type]
        )
    segments = row.get("segments") or () if whole else _fill(sound.speaker, info.duration)
    label = f"{sound.title}, waveform, {info.duration:.1f} s"
    if whole and row.get("n_speakers") == 2 and row.get("segments"):
        label += f", two speakers, overlap {row.get('overlap_s') or 0:.2f} s"
    return draw_waveform(sound.audio, segments, label)


def _fill(speaker: str | None, duration_s: float) -> list[dict[str, Any]]:
    return [{"speaker": speaker, "start_s": 0.0, "end_s": duration_s}]


def _find_break(row: Mapping[str, Any]) -> float | None:
    return None if row.get("total_nonbreak") else row.get("break_time_s")


def _list_tpi_lines(row: Mapping[str, Any]) -> Iterable[Line]:
    two = row.get("n_speakers") != 1
    primary, third = (_name_voice(row, name) for name in ("primary_voice", "third_party_voice"))
    if row.get("primary_text"):
        yield Line("primary", f"Primary{primary if two else ''}", (row["primary_text"],))
    elif row.get("request") or row.get("query_text"):
        yield Line("", "Request", (row.get("request") or row["query_text"],))
    if row.get("third_party_text"):
        who = f"Third party{third}" if two else f"The same voice{primary}"
        yield Line("third" if two else "primary", who, (row["third_party_text"],))
    if row.get("reply"):
        yield Line("reply", "Assistant", (row["reply"],))


def _list_sid_lines(row: Mapping[str, Any]) -> Iterable[Line]:
    turn = split_at_break(row.get("text_with_break")) or ([row["text"]] if row.get("text") else [])
    if turn:
        speaker = f" ({row['speaker']})" if row.get("speaker") else ""
        yield Line("third", f"The turn{speaker}", turn)
        yield Line("", "The other speaker, meanwhile", (row.get("context_text") or "–",))
    for name, who in (("assistant_text", "Assistant"), ("backchannel", "User, first"), ("substance", "User")):
        if row.get(name):
            yield Line("", who, (row[name],))
    if row.get("fault"):
        yield Line("", "Fault", (row["fault"],))


def _list_dyadic_lines(row: Mapping[str, Any]) -> Iterable[Line]:
    if row.get("primary_text") or row.get("request"):
        yield Line("primary", f"User{_name_voice(row, 'primary_voice')}", (row.get("primary_text") or row["request"],))
    if row.get("reply"):
        yield Line("reply", "Assistant", (row["reply"],))


def _name_voice(row: Mapping[str, Any], column: str) -> str:
    """Return the voice that spoke, or the speaker who was recorded, in brackets."""
    name = row.get(column) or row.get(column.replace("_voice", "_speaker"))
    return f" ({name})" if name else ""


_LINES = {"tpi": _list_tpi_lines, "sid": _list_sid_lines, "dyadic": _list_dyadic_lines}
_CHIPS: Mapping[BuildFamily, tuple[str, ...]] = {
    "tpi": ("label", "kind", "scenario", "timing", "corpus"),
    "sid": ("category", "language", "speech"),
    "dyadic": ("label", "split"),
}
_SID_NUMBERS = (
    ("Duration", "duration_s", "{:.2f} s"),
    ("Break", "break_time_s", "{:.3f} s"),
    ("True break", "true_break_time_s", "{:.3f} s"),
    ("Overlap", "overlap_s", "{:.2f} s"),
    ("Agreement of taggers", "tag_agreement", "{:.2f}"),
    ("Aligner", "aligner", "{}"),
    ("Alignment score", "alignment_score", "{:.2f}"),
    ("Disagreement of aligners", "aligner_disagreement_s", "{:.3f} s"),
    ("Source", "source", "{}"),
)
_NUMBERS: Mapping[BuildFamily, Sequence[tuple[str, str, str]]] = {
    "tpi": TPI_NUMBERS,
    "sid": _SID_NUMBERS,
    "dyadic": TPI_NUMBERS,
}
