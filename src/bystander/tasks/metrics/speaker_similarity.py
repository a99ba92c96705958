"""How alike the speakers of two clips sound, and what that says about a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bystander.schemas.engines import EmbeddingRequest, RowFault, SpeakerVerifier
from bystander.schemas.tpi_params import VerifySpeakers

_TOO_SHORT = "too_short_to_embed"  # the reason that the Protocol lays down


@dataclass(frozen=True, slots=True)
class SimilarityRule:
    """What is compared in a pair and in a single-speaker row, the column it goes to, and the reasons to reject."""

    column: str
    pair: str
    pair_reason: str
    single: str
    single_reason: str

    @property
    def reasons(self) -> frozenset[str]:
        """All reasons that `judge_similarity` gives under this rule."""
        return frozenset({self.pair_reason, self.single_reason, "too_short_to_verify", "verifier_fault"})


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


def judge_similarity(
    similarity: float | RowFault, n_speakers: int, params: VerifySpeakers, rule: SimilarityRule
) -> dict[str, float | None] | RowFault:
    """Return the rule's column for a row whose similarity fits its number of speakers, else why it is rejected."""
    if isinstance(similarity, RowFault):
        if similarity.reason != _TOO_SHORT:
            return RowFault("verifier_fault", f"{similarity.reason}: {similarity.detail}")
        if params.reject_unmeasured:
            return RowFault("too_short_to_verify", similarity.detail)
        return {rule.column: None}
    if n_speakers == 1 and similarity < params.min_single_similarity:
        limit = f"at least {params.min_single_similarity:g} is asked for"
        return RowFault(rule.single_reason, f"{rule.single}: similarity {similarity:.3f}, {limit}")
    if n_speakers != 1 and similarity > params.max_pair_similarity:
        limit = f"at most {params.max_pair_similarity:g} is allowed"
        return RowFault(rule.pair_reason, f"{rule.pair}: similarity {similarity:.3f}, {limit}")
    return {rule.column: similarity}
