"""Joins pieces of background noise into one clip."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bystander.schemas.engines import Samples


def join_pieces(pieces: Sequence[Samples], fade: int) -> Samples:
    """Return the pieces one after another, each faded over `fade` samples into the next: shape (n,), float32.

    The fades keep power (sine and cosine), as is right for noises that have nothing to do with each other: the level
    does not dip. A fade is shorter where half of a piece is.
    """
    if not pieces:
        return np.zeros(0, np.float32)
    joined = [np.array(pieces[0], np.float32)]
    for piece in pieces[1:]:
        last, following = joined[-1], np.array(piece, np.float32)
        length = min(fade, len(last) // 2, len(following) // 2)
        if length:
            angle = np.pi / 2 * (np.arange(length) + 0.5) / length
            last[-length:] = last[-length:] * np.cos(angle) + following[:length] * np.sin(angle)
        joined.append(following[length:])
    return np.concatenate(joined).astype(np.float32)
