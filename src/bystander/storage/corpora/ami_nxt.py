"""AMI's manual annotations in NXT's XML.

There are `words/*.words.xml`, `segments/*.segments.xml` and `corpusResources/meetings.xml`.
`<w nite:id starttime endtime>` is a word (`punc="true"`: a mark, `trunc="true"`: broken off), `<vocalsound type>` a
laugh or a cough; a `<segment>` points at the first and last of its words (`href="...#id(a)..id(b)"`). A speaker is a
letter within a meeting; `meetings.xml` gives the name in the whole corpus, and the channel of the headset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from bystander.schemas.errors import InputError
from bystander.storage.corpora.utterances import Utterance, WrongFieldError, check_seconds
from bystander.storage.transcripts.segments import MAX_PAUSE_S

ReadFile = Callable[[str], bytes]

_ID = "{http://nite.sourceforge.net/}id"
_WORDS = re.compile(r"(?:^|.*/)words/([^/]+)\.([A-Za-z])\.words\.xml")
_POINTER = re.compile(r"id\(([^()]+)\)")


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, mark or sound, as it is written; times are None where the file has none."""

    id: str
    text: str
    joins: bool
    """Whether it stands right after what is before it."""
    start_s: float | None
    end_s: float | None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class _Agent:
    name: str
    channel: int | None


def is_ami_nxt(names: Sequence[str]) -> bool:
    """Whether files are those of AMI's annotations."""
    return any(_WORDS.fullmatch(name) for name in names)


def read_ami_nxt(names: Sequence[str], read: ReadFile) -> Iterator[Utterance]:
    """Yield the segments of all meetings, in the order of their files' names.

    Args:
        names: all files, with `/` between folders.
        read: returns a file's content.

    Raises:
        InputError: a file is no XML.
    """
    known = set(names)
    meetings = next((name for name in names if name.endswith("corpusResources/meetings.xml")), None)
    agents = _read_agents(meetings, read(meetings)) if meetings is not None else {}
    for name in sorted(names):
        match = _WORDS.fullmatch(name)
        if match is None:
            continue
        meeting, letter = match[1], match[2]
        words = _read_words(name, read(name))
        agent = agents.get((meeting, letter), _Agent(f"{meeting}.{letter}", ord(letter.upper()) - ord("A")))
        segments = name.replace("words/", "segments/").replace(".words.xml", ".segments.xml")
        if segments in known:
            spans = list(_read_segments(segments, read(segments), words))
        else:
            spans = [(f"{name}: word {chunk[0].id}", chunk, None) for chunk in _group(words)]
        for place, chunk, fault in spans:
            yield _make_utterance(meeting, place, agent, chunk, fault)


def _parse(name: str, data: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(data)
    except ElementTree.ParseError as exc:
        raise InputError(f"{name}: is no XML ({exc}); unpack AMI's annotations anew") from exc


def _read_agents(name: str, data: bytes) -> Mapping[tuple[str, str], _Agent]:
    agents = {}
    for meeting in _parse(name, data):
        observation = meeting.get("observation")
        for speaker in meeting:
            letter, label = speaker.get("nxt_agent"), speaker.get("global_name")
            channel = speaker.get("channel", "")
            if observation and letter:
                agents[observation, letter] = _Agent(
                    label or f"{observation}.{letter}", int(channel) if channel.isdecimal() else None
                )
    return agents


def _read_words(name: str, data: bytes) -> list[_Word]:
    words = []
    for number, item in enumerate(_parse(name, data)):
        text = (item.text or "").strip()
        if item.tag == "vocalsound":
            text = f"[{item.get('type', 'sound')}]"
        elif item.tag != "w":
            text = ""
        elif item.get("trunc") == "true":
            text = f"{text}-"
        fault, times = None, []
        for key in ("starttime", "endtime"):
            value = item.get(key)
            try:
                times.append(None if value is None else check_seconds(value, key))
            except WrongFieldError as exc:
                fault = f"word {item.get(_ID, number)}: {exc}"
                times.append(None)
        words.append(_Word(item.get(_ID, str(number)), text, item.get("punc") == "true", times[0], times[1], fault))
    return words


def _read_segments(name: str, data: bytes, words: Sequence[_Word]) -> Iterator[tuple[str, Sequence[_Word], str | None]]:
    place_of = {word.id: place for place, word in enumerate(words)}
    for number, segment in enumerate(_parse(name, data)):
        place = f"{name}: segment {segment.get(_ID, number)}"
        chunk: list[_Word] = []
        fault = None
        for child in segment:
            ids = _POINTER.findall(child.get("href", ""))
            at = [place_of.get(one) for one in ids[:1] + ids[-1:]]
            if len(at) != 2 or at[0] is None or at[1] is None:
                fault = f"points at words that are not there ({', '.join(ids) or 'none'})"
            else:
                chunk += words[at[0] : at[1] + 1]
        yield place, chunk, fault if fault or chunk else "points at no word"


def _group(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    held: list[_Word] = []
    for word in words:
        last = next((one.end_s for one in reversed(held) if one.end_s is not None), None)
        if held and last is not None and word.start_s is not None and word.start_s - last > MAX_PAUSE_S:
            yield held
            held = []
        held.append(word)
    if held:
        yield held


def _make_utterance(meeting: str, place: str, agent: _Agent, chunk: Sequence[_Word], fault: str | None) -> Utterance:
    fault = fault or next((word.fault for word in chunk if word.fault), None)
    said = [word for word in chunk if word.text]
    starts = [word.start_s for word in said if word.start_s is not None]
    ends = [word.end_s for word in said if word.end_s is not None]
    if fault is None and not (starts and ends):
        fault = "no word of it has a time" if said else "points at no word"
    if fault is not None:
        return Utterance(meeting, place, fault=fault)
    text = "".join(word.text if word.joins else f" {word.text}" for word in said).strip()
    return Utterance(meeting, place, agent.name, starts[0], ends[-1], text, agent.channel)
