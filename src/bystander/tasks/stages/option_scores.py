"""Asking a judge to choose among options, and reading its probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bystander.schemas.engines import RowFault, TextEngine, TextRequest

_EPSILON = 1e-6


def score_options(engine: TextEngine, requests: Sequence[TextRequest]) -> list[Mapping[str, float] | RowFault]:
    """Return the probability of each option, for each request, in order; a fault where the engine gave none."""
    replies = engine.generate(requests)
    scores: list[Mapping[str, float] | RowFault] = []
    for request, reply in zip(requests, replies, strict=True):
        if isinstance(reply, RowFault):
            scores.append(reply)
        elif reply.option_probs is None or set(reply.option_probs) != set(request.options):
            scores.append(RowFault("unparsable_reply", f"no probability for each of {request.options}", reply.text))
        else:
            scores.append(reply.option_probs)
    return scores


def score_first_option(engine: TextEngine, requests: Sequence[TextRequest]) -> list[float | RowFault]:
    """Return the probability of each request's first option, the one that says so, in order."""
    scores = score_options(engine, requests)
    return [
        s if isinstance(s, RowFault) else float(s[request.options[0]])
        for request, s in zip(requests, scores, strict=True)
    ]


def shift_probability(probability: float, threshold: float) -> float:
    """Return `probability` shifted in log-odds, so that `threshold` becomes 0.5.

    A judge that says so too rarely still ranks items well: this moves its point of decision, and keeps its order.
    """
    odds = _to_log_odds(probability) - _to_log_odds(threshold)
    return 1.0 / (1.0 + math.exp(-odds))


def _to_log_odds(probability: float) -> float:
    clipped = min(max(probability, _EPSILON), 1.0 - _EPSILON)
    return math.log(clipped / (1.0 - clipped))
