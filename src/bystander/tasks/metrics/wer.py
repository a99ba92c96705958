"""Word error rate of a recognised text against the text that was to be spoken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bystander.tasks.metrics.text_normaliser import normalise_text


@dataclass(frozen=True, slots=True)
class WordErrorRates:
    """`raw` compares the words as written (case and punctuation count); `normalised` as spoken."""

    raw: float
    normalised: float


def measure_wer(reference: str, hypothesis: str, language: str = "en") -> WordErrorRates:
    """Return both error rates: substitutions, deletions and insertions per word of the reference.

    An empty reference counts as one word: the rate is 0 if the hypothesis is empty too, else its number of words.

    The normalised rate counts a run of differing words as right if both sides spell the same when joined ("wi fi" and
    "wifi", "7 30" and "730"), takes "7:00" as seven with or without "o'clock", and is the lower of two readings:
    contractions written out ("it's", "it is"), or apostrophes dropped ("it's", "its").
    """
    raw = _rate(_count_errors(reference.split(), hypothesis.split()), reference)
    if raw == 0:
        return WordErrorRates(0.0, 0.0)
    best = float("inf")
    for reference_form in _list_readings(reference):
        for hypothesis_form in _list_readings(hypothesis):
            for drop in (False, True):
                expected = normalise_text(_drop_apostrophes(reference_form) if drop else reference_form, language)
                found = normalise_text(_drop_apostrophes(hypothesis_form) if drop else hypothesis_form, language)
                best = min(best, _rate(_count_errors(expected.split(), found.split(), respaced=True), expected))
                if best == 0:
                    return WordErrorRates(raw, 0.0)
    return WordErrorRates(raw, best)


def _rate(errors: int, reference: str) -> float:
    return errors / max(1, len(reference.split()))


def _list_readings(text: str) -> list[str]:
    """Return the text, and the text with its full hours spoken as "seven o'clock"."""
    spoken = text.replace(":00", " o'clock")
    return [text.replace(":00", ""), spoken] if spoken != text else [text]


def _drop_apostrophes(text: str) -> str:
    return text.replace("'", "").replace("’", "")


def _count_errors(reference: Sequence[str], hypothesis: Sequence[str], respaced: bool = False) -> int:
    """Return the number of word errors of the best alignment; with `respaced`, spaces alone are no error."""
    if not reference or not hypothesis:
        return max(len(reference), len(hypothesis))
    if reference == hypothesis:
        return 0
    import jiwer

    chunks = jiwer.process_words(" ".join(reference), " ".join(hypothesis)).alignments[0]
    errors = 0
    run: list[tuple[int, int, int, int]] = []
    for chunk in [*chunks, None]:
        if chunk is not None and chunk.type != "equal":
            run.append((chunk.ref_start_idx, chunk.ref_end_idx, chunk.hyp_start_idx, chunk.hyp_end_idx))
            continue
        if run:
            expected = "".join(reference[run[0][0] : run[-1][1]])
            found = "".join(hypothesis[run[0][2] : run[-1][3]])
            if not respaced or expected != found:
                errors += sum(max(span[1] - span[0], span[3] - span[2]) for span in run)
            run = []
    return errors
