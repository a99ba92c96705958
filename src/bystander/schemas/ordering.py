"""Orders that spread what belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def interleave(queues: Sequence[Sequence[_Item]]) -> list[_Item]:
    """Return the first item of each queue, then the second of each, and so on."""
    longest = max(map(len, queues), default=0)
    return [queue[at] for at in range(longest) for queue in queues if at < len(queue)]
