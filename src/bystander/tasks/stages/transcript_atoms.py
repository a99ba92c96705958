"""The smallest parts of a transcript that have times of their own: words, or whole utterances without word times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bystander.tasks.texts.transcript_marks import drop_marks

_CJK = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_CLOSING = {"[": "]", "<": ">", "{": "}"}


@dataclass(frozen=True, slots=True)
class Atom:
    """Something that was said, in seconds from the start of the recording; never cut in two.

    `words` are the transcript's, without marks; empty where it has none of its own. `utterance` is the position of the
    utterance in the transcript, of which this is part `part` of `parts`.
    """

    start_s: float
    end_s: float
    text: str
    words: tuple[Mapping[str, Any], ...]
    utterance: int
    part: int = 0
    parts: int = 1


def list_atoms(utterances: Sequence[Mapping[str, Any]], channel: int, duration_s: float) -> list[Atom]:
    """Return the atoms of one channel, ordered by time.

    A word with times is an atom, together with the words without times that follow it (or lead up to the first one).
    An utterance whose words have no times is one atom. Times are cut to the recording; what lies outside it, has no
    times, or says nothing (marks only) is left out.
    """
    atoms: list[Atom] = []
    for at, utterance in enumerate(utterances):
        if utterance["channel"] != channel:
            continue
        words = _list_spoken(utterance["words"] or ())
        groups = _group_words(words)
        for part, (start_s, end_s, group) in enumerate(groups):
            text = join_words([word["word"] for word in group])
            atoms.append(Atom(start_s, end_s, text, tuple(group), at, part, len(groups)))
        if not groups and utterance["start_s"] is not None and utterance["end_s"] is not None:
            text = drop_marks(utterance["text"] or "") or join_words([word["word"] for word in words])
            atoms.append(Atom(utterance["start_s"], utterance["end_s"], text, tuple(words), at))
    inside = [
        replace(atom, start_s=max(0.0, atom.start_s), end_s=min(duration_s, max(atom.start_s, atom.end_s)))
        for atom in atoms
        if atom.text and atom.start_s < duration_s and atom.end_s > 0
    ]
    return sorted(inside, key=lambda atom: (atom.start_s, atom.utterance, atom.part))


def group_by_utterance(atoms: Iterable[Atom]) -> list[list[Atom]]:
    """Return the atoms of each utterance in their order in it; utterances in the order in which they come up."""
    groups: dict[int, list[Atom]] = {}
    for atom in atoms:
        groups.setdefault(atom.utterance, []).append(atom)
    return [sorted(group, key=lambda atom: atom.part) for group in groups.values()]


def write_text(atoms: Sequence[Atom], utterances: Sequence[Mapping[str, Any]]) -> str:
    """Return what the atoms of a turn say: whole utterances as the transcript writes them, of others the words."""
    parts: list[str] = []
    for group in group_by_utterance(atoms):
        written = drop_marks(utterances[group[0].utterance]["text"] or "") if len(group) == group[0].parts else ""
        parts.append(written or join_words([atom.text for atom in group]))
    return join_words(parts)


def list_words(atoms: Sequence[Atom]) -> list[Mapping[str, Any]]:
    """Return the transcript's words of a turn, in order; empty where it has none of its own."""
    return [word for group in group_by_utterance(atoms) for atom in group for word in atom.words]


def join_words(words: Sequence[str]) -> str:
    """Return the words with a space between them, but none between two Chinese characters."""
    return re.sub(rf"(?<=[{_CJK}]) (?=[{_CJK}])", "", " ".join(word for word in words if word))


def _list_spoken(words: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the words that were said, without marks; a mark may be spread over several ([background noise])."""
    spoken: list[dict[str, Any]] = []
    closing = ""
    for word in words:
        text = word["word"] or ""
        if closing:
            closing = "" if closing in text else closing
            continue
        first = text[:1]
        if first in _CLOSING and _CLOSING[first] not in text:
            closing = _CLOSING[first]
            continue
        said = drop_marks(text)
        if said:
            spoken.append({**word, "word": said})
    return spoken


def _group_words(words: Sequence[dict[str, Any]]) -> list[tuple[float, float, list[dict[str, Any]]]]:
    """Return each word with times, and those without that follow it or lead up to the first one: start, end, words."""
    groups: list[tuple[float, float, list[dict[str, Any]]]] = []
    lead: list[dict[str, Any]] = []
    for word in words:
        if word["start_s"] is not None and word["end_s"] is not None:
            groups.append((word["start_s"], word["end_s"], [*lead, word]))
            lead = []
        elif groups:
            groups[-1][2].append(word)
        else:
            lead.append(word)
    return groups
