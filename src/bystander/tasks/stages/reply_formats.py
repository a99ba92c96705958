"""JSON schemas of replies, narrowed so that a small model stays on track.

Patterns keep to what the grammar engines behind `response_format` all read: one anchored sequence of a choice of
literals, a character class with bounds, and a final character class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

SPOKEN_CHARACTERS = "A-Za-z0-9', "
"""What a line is made of between its opening and its final mark (a character class's inside)."""


def make_line_pattern(openings: Sequence[str], ends_with: Sequence[str], shortest: int, longest: int) -> str:
    """Return an anchored pattern: one of `openings` (if any), `shortest` to `longest` characters, one final mark."""
    head = f"({'|'.join(re.escape(opening).replace(chr(92) + ' ', ' ') for opening in openings)})" if openings else ""
    marks = "".join(mark for mark in ends_with if mark in ".!?") or ".!?"
    return f"^{head}[{SPOKEN_CHARACTERS}]{{{shortest},{longest}}}[{marks}]$"


def set_patterns(schema: Mapping[str, Any], patterns: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of `schema` in which string properties are bound by a pattern instead of by lengths."""
    bound = {name: {"type": "string", "pattern": pattern} for name, pattern in patterns.items()}
    return {**schema, "properties": {**schema["properties"], **bound}}
