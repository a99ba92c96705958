"""The order in which requests go to a model server that reuses the computed beginning of a prompt."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from bystander.schemas.engines import TextRequest


def split_into_lanes(requests: Sequence[TextRequest], lanes: int) -> list[deque[int]]:
    """Return the requests' positions, ordered by their prompts and cut into at most `lanes` runs of like length.

    A lane has one request in flight at a time. So neighbours, whose prompts begin alike, follow each other in the same
    slot of the server, where the beginning is computed already; sent all at once they would make every slot compute it.
    """
    ordered = sorted(range(len(requests)), key=lambda i: [(m.role, m.content) for m in requests[i].messages])
    count = min(lanes, len(ordered))
    bounds = [len(ordered) * lane // count for lane in range(count + 1)]
    return [deque(ordered[start:end]) for start, end in pairwise(bounds)]
