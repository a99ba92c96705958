"""How alike the speakers of two clips sound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bystander.schemas.engines import EmbeddingRequest, RowFault, SpeakerVerifier


def measure_similarities(
    pairs: Sequence[tuple[EmbeddingRequest, EmbeddingRequest]], verifier: SpeakerVerifier
) -> list[float | RowFault]:
    """Return the cosine similarity of each pair of clips, in [-1, 1], or the fault of the first clip that has one.

    Raises:
        EngineError: the verifier as a whole failed.
    """
    embeddings = verifier.embed([clip for pair in pairs for clip in pair])
    similarities: list[float | RowFault] = []
    for first, second in zip(embeddings[::2], embeddings[1::2], strict=True):
        if isinstance(first, RowFault):
            similarities.append(first)
        elif isinstance(second, RowFault):
            similarities.append(second)
        else:
            cosine = float(np.sum(first.astype(np.float64) * second.astype(np.float64)))
            similarities.append(min(1.0, max(-1.0, cosine)))
    return similarities
