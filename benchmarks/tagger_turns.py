"""The authored turns that taggers are measured on: `data/tagger_turns.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from bystander.tasks.texts.turn_words import split_turn_words

TURNS_FILE = Path(__file__).parent / "data" / "tagger_turns.yaml"


@dataclass(frozen=True)
class MarkedTurn:
    id: str
    half: str
    language: str
    kind: str
    context: str
    text: str
    break_word_index: int | None


def read_turns(path: Path = TURNS_FILE) -> list[MarkedTurn]:
    """Return all turns, in the file's order. A "|" in the text stands before the first word with new intent."""
    turns = []
    for half, languages in yaml.safe_load(path.read_text("utf-8")).items():
        for language, kinds in languages.items():
            for kind, entries in kinds.items():
                for number, entry in enumerate(entries):
                    context, said = entry.split(" / ")
                    head, mark, tail = said.partition("|")
                    text = head + tail.removeprefix(" ")
                    index = len(split_turn_words(head)) if mark else None
                    turns.append(
                        MarkedTurn(f"{half}-{language}-{kind}-{number}", half, language, kind, context, text, index)
                    )
    return turns
