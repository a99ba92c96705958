"""How long to wait before a request is sent again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openai

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
_LONGEST_ASKED_S = 60.0
"""Longest pause that a server may ask for; one that wants more is as good as out of reach."""


def pause_before_retry(tries: int, seed: int = 0) -> float:
    """Return the pause before another try in seconds: half a second, doubled with each try, at most 8.

    Up to a quarter is taken off, by the request's seed, so that not all of a batch come back in one moment.
    """
    pause = min(_FIRST_PAUSE_S * 2.0**tries, _LONGEST_PAUSE_S)
    return pause * (1.0 - (seed % 256) / 1024.0)


def measure_pause(exc: openai.APIConnectionError | openai.APIStatusError, tries: int, seed: int) -> float:
    """Return the pause that the server asks for (`Retry-After` in seconds), or else that before another try."""
    headers = getattr(getattr(exc, "response", None), "headers", {})
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        with contextlib.suppress(KeyError, ValueError):
            asked = float(headers[name]) * unit_s
            if 0 < asked <= _LONGEST_ASKED_S:
                return asked
    return pause_before_retry(tries, seed)
