"""How far a transcript alone tells two speakers from one: a small text classifier, tried on rows it has not seen."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
MIN_ROWS_A_CLASS = 10
"""Of fewer rows, not even two of a class are in a fold: the figure would be noise."""
METHOD = (
    "TF-IDF of words (1 to 2) and of characters (2 to 5), logistic regression with balanced classes, "
    f"{FOLDS} folds; twins and rows of the same request share a fold"
)

_WORD = r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]"  # punctuation counts: it carries the prosody that was written down
_NOT_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a row. `keys` name what ties it to other rows: rows that share a key share a fold."""

    id: str
    primary: str
    third_party: str
    two_speakers: bool
    keys: tuple[Hashable, ...] = ()

    @property
    def text(self) -> str:
        """Both texts, one after the other, as a listener would write them down."""
        return f"{self.primary} {self.third_party}"


@dataclass(frozen=True, slots=True)
class OutOfFoldScores:
    """A row's probability, in [0, 1], of having two speakers, by a classifier that has not seen its fold.

    `scores` has an item a row, in the order given; it is None, with a reason, where there are too few rows.
    """

    scores: tuple[float, ...] | None
    reason: str | None = None


def normalise_key(text: str) -> str:
    """Return a text without case and punctuation, to tell whether two rows have the same words."""
    return _NOT_WORD.sub(" ", text.casefold()).strip()


def score_transcripts(rows: Sequence[Transcript], *, seed: int) -> OutOfFoldScores:
    """Return how surely a text classifier takes each row for a two-speaker one.

    Folds are stratified by class and never part rows that share a key or the words of their transcript. Rows with the
    same transcript get the same score, bit by bit: twins are at chance by construction. The order of rows does not
    matter. Needs `MIN_ROWS_A_CLASS` rows of either class, from at least `FOLDS` groups of tied rows.

    Args:
        rows: of different ids.
        seed: from `identity.derive_seed`; decides the folds.
    """
    order = sorted(range(len(rows)), key=lambda place: rows[place].id)
    ordered = [rows[place] for place in order]
    flags = np.array([row.two_speakers for row in ordered], np.bool_)
    groups = group_rows([(*row.keys, ("words", normalise_key(row.text))) for row in ordered])
    reason = _find_obstacle(flags, groups)
    if reason is not None:
        return OutOfFoldScores(None, reason)
    scores = np.empty(len(rows))
    for train, test in _split_folds(flags, groups, seed):
        if len(np.unique(flags[train])) < 2:
            return OutOfFoldScores(None, "nearly all rows of a class are tied to each other: a fold has none to learn")
        model = _make_model(seed)
        model.fit([ordered[place].text for place in train], flags[train])
        # Once a text: equal transcripts have equal scores whatever the batch does to the arithmetic.
        texts = sorted({ordered[place].text for place in test})
        probabilities = dict(zip(texts, model.predict_proba(texts)[:, 1].tolist(), strict=True))
        for place in test:
            scores[order[place]] = probabilities[ordered[place].text]
    return OutOfFoldScores(tuple(scores.tolist()))


def group_rows(keys: Sequence[Iterable[Hashable]]) -> NDArray[np.int64]:
    """Return the group of each row, shape (n,): rows that share a key, directly or through others, are of one group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    nodes: dict[Hashable, int] = {}
    edges = [(row, nodes.setdefault(key, len(keys) + len(nodes))) for row, own in enumerate(keys) for key in own]
    size = len(keys) + len(nodes)
    if not edges:
        return np.arange(len(keys), dtype=np.int64)
    starts, ends = zip(*edges, strict=True)
    graph = coo_array((np.ones(len(edges)), (starts, ends)), shape=(size, size))
    labels: NDArray[np.int64] = connected_components(graph, directed=False)[1][: len(keys)].astype(np.int64)
    return labels


def _find_obstacle(flags: NDArray[np.bool_], groups: NDArray[np.int64]) -> str | None:
    for name, chosen in (("two-speaker", flags), ("one-speaker", ~flags)):
        rows, tied = int(chosen.sum()), len(np.unique(groups[chosen]))
        if rows < MIN_ROWS_A_CLASS:
            return f"{rows} {name} rows; the classifier needs {MIN_ROWS_A_CLASS}"
        if tied < FOLDS:
            return f"the {name} rows come from {tied} requests; the classifier needs {FOLDS}"
    return None


def _split_folds(
    flags: NDArray[np.bool_], groups: NDArray[np.int64], seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    from sklearn.model_selection import StratifiedGroupKFold

    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed % 2**32)
    return list(folds.split(flags, flags, groups))


def _make_model(seed: int) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union

    features = make_union(
        TfidfVectorizer(token_pattern=_WORD, ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
    )
    # liblinear runs on one thread: the coefficients do not depend on how many there are.
    model = LogisticRegression(solver="liblinear", class_weight="balanced", random_state=seed % 2**32)
    return make_pipeline(features, model)
