"""What the two-input model reads: words without any mark of who says them, as numbers."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def split_words(*texts: str | None) -> tuple[str, ...]:
    """Return the words of texts in order: small letters, digits and apostrophes within words.

    Case and punctuation go, since a capital, a full stop or the dots of a broken sentence would mark the seam between
    two speakers. So a two-speaker row and its one-speaker twin have the same words.
    """
    return tuple(word.replace("’", "'") for text in texts if text for word in _WORD.findall(text.casefold()))


def hash_words(words: Sequence[str], buckets: int) -> npt.NDArray[np.int64]:
    """Return a number in [1, buckets) for each word, then for each pair of neighbours: shape (2n - 1,); 0 is padding.

    The same on every machine (CRC-32), and no vocabulary is kept: words that share a number share an embedding.
    """
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    hashed = [1 + zlib.crc32(item.encode()) % (buckets - 1) for item in (*words, *pairs)]
    return np.array(hashed, np.int64)
