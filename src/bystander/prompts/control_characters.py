"""Characters that a reader does not see and that may hide what a pack says: controls, zero-width and bidirectional."""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
_ALLOWED = frozenset("\t\n\r")


def find_control_character(text: str) -> tuple[int, str] | None:
    """Return the position of the first such character of a text, and what is to be said of it; None if it has none."""
    if text.isascii() and text.isprintable():
        return None
    for position, sign in enumerate(text):
        if sign not in _ALLOWED and unicodedata.category(sign) in _UNSEEN:
            name = unicodedata.name(sign, "a control character")
            return position, f"holds U+{ord(sign):04X} ({name}), which nobody can see: take it out"
    return None


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing: it has blanks and characters without width at most."""
    return not any(sign.isprintable() and not sign.isspace() for sign in text)
