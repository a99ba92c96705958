"""Controls of an experiment with mixtures: what duration and level alone achieve, and how embeddings lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import derive_seed
from bystander.schemas.mixture_results import ConfoundScore, EmbeddingSeparation
from bystander.schemas.train_tpi_config import MixtureName, RowPart
from bystander.tasks.metrics.embedding_projection import SpeakerGroup
from bystander.tasks.metrics.separability import measure_separability
from bystander.tasks.training.two_input_rows import TwoInputRow
from bystander.tasks.training.two_input_scores import list_twins

GROUPS: dict[RowPart, SpeakerGroup] = {
    "dyadic": "one_speaker",
    "hard_negative": "hard_negative",
    "two_speaker": "two_speakers",
}
_FOLDS = 5
_DETAILS = {
    "duration": "seconds of the clip and their logarithm",
    "level": "level of pieces of 0.2 s: their spread, and that of the last third less that of the first",
}


def score_confounds(
    trained: Sequence[TwoInputRow], bench: Sequence[TwoInputRow], mixture: MixtureName
) -> list[ConfoundScore]:
    """Return what logistic regressions on duration, on levels and on words make of the bench, trained on a mixture.

    None where the mixture has rows of two speakers only: there is nothing to learn.
    """
    if all(row.two_speakers for row in trained):
        return []
    scores = []
    for name, measure in (("duration", _measure_duration), ("level", _measure_level)):
        model = _make_classifier().fit([measure(row) for row in trained], [row.two_speakers for row in trained])
        probabilities = model.predict_proba([measure(row) for row in bench])[:, 1]
        taken = probabilities >= 0.5
        parts = np.array([row.part for row in bench])
        scores.append(
            ConfoundScore(
                name=name,
                mixture=mixture,
                false_interruption=float(taken[parts == "hard_negative"].mean()),
                recognised=float(taken[parts == "two_speaker"].mean()),
                twin_auc=measure_twin_auc(probabilities, bench),
                detail=_DETAILS[name],
            )
        )
    return [*scores, _score_words(trained, bench, mixture)]


def _score_words(trained: Sequence[TwoInputRow], bench: Sequence[TwoInputRow], mixture: MixtureName) -> ConfoundScore:
    """Return what a linear reader makes of the bench: both classes weigh alike, so rare ones are not given up."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        CountVectorizer(analyzer=lambda words: words, binary=True),
        LogisticRegression(class_weight="balanced", max_iter=1000),
    )
    model.fit([row.words for row in trained], [row.two_speakers for row in trained])
    probabilities = model.predict_proba([row.words for row in bench])[:, 1]
    parts = np.array([row.part for row in bench])
    requests = [row.request_words for row in bench if row.request_words and row.part != "dyadic"]
    return ConfoundScore(
        name="words",
        mixture=mixture,
        false_interruption=float((probabilities >= 0.5)[parts == "hard_negative"].mean()),
        recognised=float((probabilities >= 0.5)[parts == "two_speaker"].mean()),
        twin_auc=measure_twin_auc(probabilities, bench),
        request_interruption=float((model.predict(requests)).mean()) if requests else None,
        detail="which words there are; the requests alone are those of the bench, without the remark",
    )


def measure_twin_auc(interruption: npt.NDArray[np.float64], rows: Sequence[TwoInputRow]) -> float | None:
    """Return the probability that a two-speaker twin scores higher than a one-speaker twin; None without linked twins.

    Twins that are equal but for rounding count as ties, so what only reads is at exactly 0.5.
    """
    pairs = list_twins(rows)
    scores = [round(float(interruption[place]), 9) for pair in pairs for place in pair]
    found = measure_separability(scores, [True, False] * len(pairs), seed=0, n_resamples=1)
    return found.auc


def separate_embeddings(
    embeddings: npt.NDArray[np.float64],
    rows: Sequence[TwoInputRow],
    mixture: MixtureName,
    confidence: float,
    seed: int,
) -> list[EmbeddingSeparation]:
    """Return how well a linear probe tells each two groups of rows apart by their embeddings, shape (rows, d).

    The probe is a logistic regression, tried on folds that it has not seen; rows of a request share one. Groups of
    fewer than `_FOLDS` requests are left out.
    """
    groups = [GROUPS[row.part] for row in rows]
    present = [
        name
        for name in GROUPS.values()
        if len({r.group for r, g in zip(rows, groups, strict=True) if g == name}) >= _FOLDS
    ]
    found = []
    for first, second in combinations(present, 2):
        places = [place for place, name in enumerate(groups) if name in (first, second)]
        positive = np.array([groups[place] == second for place in places], bool)
        clusters = [rows[place].group for place in places]
        own = derive_seed(seed, f"{mixture}/{first}/{second}", "embedding_probe")
        scores = _score_out_of_fold(embeddings[places], positive, clusters, own)
        auc = measure_separability(
            scores.tolist(), positive.tolist(), seed=own, clusters=clusters, level=confidence, n_resamples=1000
        )
        found.append(
            EmbeddingSeparation(
                mixture=mixture, first=first, second=second, auc=auc.auc, low=auc.low, high=auc.high, n=len(places)
            )
        )
    return found


def _score_out_of_fold(
    values: npt.NDArray[np.float64], positive: npt.NDArray[np.bool_], clusters: Sequence[str], seed: int
) -> npt.NDArray[np.float64]:
    from sklearn.model_selection import StratifiedGroupKFold

    scores = np.zeros(len(values))
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=seed % 2**32)
    for train, test in folds.split(values, positive, clusters):
        scores[test] = _make_classifier().fit(values[train], positive[train]).decision_function(values[test])
    return scores


def _make_classifier() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))


def _measure_duration(row: TwoInputRow) -> list[float]:
    return [row.duration_s, float(np.log(row.duration_s))]


def _measure_level(row: TwoInputRow) -> list[float]:
    levels = row.levels_db
    third = max(1, len(levels) // 3)
    step = float(levels[-third:].mean() - levels[:third].mean())
    return [float(levels.std()), step, abs(step)]
