"""How alike two replies are: sentence BLEU and ROUGE-L between the replies to the two twins of a pair.

Twins share a transcript and differ in who speaks. Very similar replies to both show that a system does not hear the
difference, so lower is better (TPI paper, arXiv:2604.17358, auxiliary metrics).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bystander.schemas.identity import derive_seed
from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES, MeanEstimate, estimate_mean

# In ASCII text these are the words of rouge-score's own tokenizer; that one drops all other letters.
_WORD = re.compile(r"[^\W_]+")
_UNSPACED_LETTER = re.compile(r"([぀-ヿ㐀-䶿一-鿿豈-﫿\u0e00-\u0e7f\U00020000-\U0003ffff])")
_BLEU_TOKENISERS = {"zh": "zh", "yue": "zh", "ja": "char", "th": "char"}
# rouge-score fills a Python table of words x words: 10,000 words twice would take 0.8 GB and most of a minute.
_MAX_TABLE_CELLS = 250_000


@dataclass(frozen=True, slots=True)
class ReplySimilarity:
    """Both scores in [0, 1], symmetric in the two replies; 1 for identical replies."""

    bleu: float
    rouge_l: float


@dataclass(frozen=True, slots=True)
class SimilarityMeans:
    """Means over pairs; without pairs they are None, with n 0."""

    bleu: MeanEstimate
    rouge_l: MeanEstimate


def measure_similarity(first: str, second: str, language: str = "en") -> ReplySimilarity:
    """Return BLEU and ROUGE-L F1 between two replies.

    BLEU (Papineni et al. 2002) is sacrebleu's sentence BLEU / 100 with its `13a` tokenizer (`zh` for Chinese, single
    characters for Japanese and Thai), case kept, exponential smoothing, and effective order: n-gram orders longer than
    the reply are left out, so that identical replies of one to three words reach 1. BLEU is not symmetric (its brevity
    penalty and precisions depend on which side is the reference), and neither twin is a reference: the result is the
    mean of both directions.

    ROUGE-L (Lin 2004) is rouge-score's F1 = 2PR / (P + R), P and R being the longest common subsequence of words over
    the words of either side, in lower case and without a stemmer. It is symmetric.

    Runs of white space count as one space. Replies that are then identical score 1, two empty ones included: a system
    that is silent both times made no difference. One empty reply against a reply of words scores 0. For ROUGE-L a reply
    of punctuation alone is empty.
    """
    first, second = " ".join(first.split()), " ".join(second.split())
    if first == second:
        return ReplySimilarity(1.0, 1.0)
    if not first or not second:
        return ReplySimilarity(0.0, _measure_rouge_l(first, second))
    bleu = (_measure_bleu(first, second, language) + _measure_bleu(second, first, language)) / 2
    return ReplySimilarity(bleu, _measure_rouge_l(first, second))


def estimate_similarity(
    pairs: Sequence[tuple[str, str]],
    *,
    seed: int,
    language: str = "en",
    level: float = LEVEL,
    n_resamples: int = RESAMPLES,
) -> SimilarityMeans:
    """Return the means of both scores over pairs of replies, each with its bootstrap interval.

    These are means of sentence scores, each pair counting alike, not sacrebleu's corpus BLEU.
    """
    scores = [measure_similarity(first, second, language) for first, second in pairs]
    return SimilarityMeans(
        estimate_mean(
            [score.bleu for score in scores],
            seed=derive_seed(seed, "bleu", "bootstrap"),
            level=level,
            n_resamples=n_resamples,
        ),
        estimate_mean(
            [score.rouge_l for score in scores],
            seed=derive_seed(seed, "rouge_l", "bootstrap"),
            level=level,
            n_resamples=n_resamples,
        ),
    )


def _measure_bleu(hypothesis: str, reference: str, language: str) -> float:
    tokeniser = _BLEU_TOKENISERS.get(language.split("-")[0].lower(), "13a")
    score: float = _open_bleu(tokeniser).sentence_score(hypothesis, [reference]).score
    return min(1.0, max(0.0, score / 100))


@cache
def _open_bleu(tokeniser: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokeniser, smooth_method="exp", effective_order=True)


def _measure_rouge_l(first: str, second: str) -> float:
    first_words, second_words = split_words(first), split_words(second)
    if not first_words or not second_words:
        return float(first_words == second_words)
    if len(first_words) * len(second_words) <= _MAX_TABLE_CELLS:
        score: float = _open_rouge().score(first, second)["rougeL"].fmeasure
        return score
    from rapidfuzz.distance import LCSseq

    common = LCSseq.similarity(first_words, second_words)
    return 2 * common / (len(first_words) + len(second_words))  # 2PR / (P + R), shortened


@cache
def _open_rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_WordTokeniser())


class _WordTokeniser:
    """The form in which rouge-score takes `split_words`."""

    def tokenize(self, text: str) -> list[str]:
        return split_words(text)


def split_words(text: str) -> list[str]:
    """Return the runs of letters and digits in lower case; characters of scripts without spaces stand alone."""
    return [word for run in _WORD.findall(text.lower()) for word in _UNSPACED_LETTER.sub(r" \1 ", run).split()]
