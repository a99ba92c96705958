"""Controls: do a bench's rows need ears? What has none, or has nothing but ears, tries to tell one speaker from two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import EngineIdentity, RowFault, SpeakerVerifier, TextEngine
from bystander.schemas.evaluate_config import ControlsConfig
from bystander.schemas.evaluation_scores import Control
from bystander.schemas.identity import derive_seed
from bystander.schemas.packs import PromptPack
from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES
from bystander.tasks.metrics.segment_similarity import measure_dissimilarities
from bystander.tasks.metrics.separability import measure_separability
from bystander.tasks.metrics.transcript_classifier import (
    METHOD,
    Transcript,
    normalise_key,
    score_transcripts,
)
from bystander.tasks.metrics.twin_pairs import find_twins
from bystander.tasks.stages.score_ambiguity import grade_transcripts

CLASSIFIER = "transcript classifier"
VERIFIER = "speaker verifier"
JUDGE = "transcript judge"
TWINS = "twins"
ALL_ROWS = "all rows"
"""A control's name is who tries, and over which rows: twins alone, or all."""

_STAGE = "evaluation_controls"
_PLAIN_COLUMNS = ("id", "n_speakers", "twin_id", "primary_complete", "primary_text", "third_party_text")
_QUERY = "query_id"


def measure_controls(
    rows: pa.Table,
    config: ControlsConfig,
    seed: int,
    verifier: SpeakerVerifier | None = None,
    judges: Mapping[str, TextEngine] | None = None,
    pack: PromptPack | None = None,
    *,
    confidence: float = LEVEL,
    resamples: int = RESAMPLES,
) -> tuple[Control, ...]:
    """Return how well each control tells two-speaker rows from one-speaker rows: over twins, and over all rows.

    A score is higher where the control believes in two speakers. Over twins, what sees the transcript alone has an AUC
    of exactly 0.5, because both twins have the same words and so the same score; over all rows it may be higher, where
    the words themselves give the number of speakers away. Intervals draw whole pairs. Rows that a control could not
    score are left out, with their twins where twins are compared, and counted in `note`.

    Args:
        rows: of BENCH_ROW; a column `query_id`, if there is one, keeps rows of one query in the same fold. Their
            audio is held at once.
        config: which text controls are wanted; whether the acoustic one is, `verifier` tells.
        seed: of the evaluation.
        verifier: hears the clips; None leaves the acoustic control out.
        judges: asked if `config.transcript_judges`, once for each transcript.
        pack: has the task `score_ambiguity`; needed with judges.
        confidence: probability that the intervals cover, in (0, 1).
        resamples: number of bootstrap samples.

    Raises:
        EngineError: an engine as a whole failed.
        PackError: the pack has no task `score_ambiguity`.
        InputError: a clip cannot be decoded.
    """
    bench = _Bench(rows, seed, confidence, resamples)
    controls: list[Control] = []
    if config.transcript_classifier:
        controls += bench.try_classifier()
    if config.transcript_judges and judges:
        if pack is None:
            raise ValueError("measure_controls: transcript judges need a pack")
        for name, judge in judges.items():
            controls += bench.try_judge(name, judge, pack)
    if verifier is not None:
        controls += bench.try_verifier(verifier)
    return tuple(controls)


@dataclass(frozen=True, slots=True)
class _Contestant:
    """Who tries to tell the rows apart, in words."""

    name: str
    hears: bool
    method: str


class _Bench:
    """The rows that are to be told apart, and which of them are twins."""

    def __init__(self, rows: pa.Table, seed: int, confidence: float, resamples: int) -> None:
        self._rows = rows
        self._seed = seed
        self._confidence = confidence
        self._resamples = resamples
        columns = [*_PLAIN_COLUMNS, *([_QUERY] if _QUERY in rows.schema.names else [])]
        self._plain: list[dict[str, Any]] = rows.select(columns).to_pylist()
        self._two_speakers = [row["n_speakers"] == 2 for row in self._plain]
        names = ([row[name] for row in self._plain] for name in ("id", "n_speakers", "twin_id"))
        self._pairs = find_twins(*names)
        self._pair_of = {place: number for number, pair in enumerate(self._pairs) for place in pair}

    def try_classifier(self) -> Iterator[Control]:
        """Yield the controls of the text classifier."""
        contestant = _Contestant(CLASSIFIER, hears=False, method=METHOD)
        transcripts = [
            Transcript(row["id"], row["primary_text"], row["third_party_text"], two, tuple(self._tie(place)))
            for place, (row, two) in enumerate(zip(self._plain, self._two_speakers, strict=True))
        ]
        found = score_transcripts(transcripts, seed=derive_seed(self._seed, CLASSIFIER, _STAGE))
        if found.scores is None:
            yield from self._give_up(contestant, found.reason or "")
        else:
            yield from self._compare(contestant, found.scores)

    def try_judge(self, name: str, judge: TextEngine, pack: PromptPack) -> Iterator[Control]:
        """Yield the controls of a judge who reads: 6 - its grade, asked once for each transcript."""
        texts = sorted({_read_texts(row) for row in self._plain})
        questions = [(*text, derive_seed(self._seed, "\n".join(text), _STAGE)) for text in texts]
        grades = dict(zip(texts, grade_transcripts(questions, pack, judge), strict=True))
        scores = [
            grade if isinstance(grade := grades[_read_texts(row)], RowFault) else 6 - grade for row in self._plain
        ]
        method = (
            f"{_describe(judge.identity)} grades the transcript by `score_ambiguity` of pack {pack.name}; 6 - grade"
        )
        yield from self._compare(_Contestant(f"{JUDGE} {name}", hears=False, method=method), scores)

    def try_verifier(self, verifier: SpeakerVerifier) -> Iterator[Control]:
        """Yield the controls of the speaker verifier."""
        method = (
            f"1 - cosine of the speakers before and after the overlap, by {_describe(verifier.identity)}; "
            "both twins cut at the same relative times"
        )
        scores = measure_dissimilarities(self._rows, verifier)
        yield from self._compare(_Contestant(VERIFIER, hears=True, method=method), scores)

    def _tie(self, place: int) -> Iterator[tuple[str, Any]]:
        row = self._plain[place]
        yield "request", normalise_key(row["primary_complete"])
        if row.get(_QUERY) is not None:
            yield _QUERY, row[_QUERY]
        if place in self._pair_of:
            yield "pair", self._pair_of[place]

    def _compare(self, contestant: _Contestant, scores: Sequence[float | RowFault]) -> Iterator[Control]:
        whole = [pair for pair in self._pairs if not any(isinstance(scores[place], RowFault) for place in pair)]
        left_out = _count_faults(scores, [place for pair in self._pairs for place in pair])
        note = "" if contestant.hears else self._explain_chance(whole)
        yield self._measure(contestant, TWINS, scores, [p for pair in whole for p in pair], len(whole), note, left_out)
        measured = [place for place, score in enumerate(scores) if not isinstance(score, RowFault)]
        two = sum(self._two_speakers[place] for place in measured)
        note = f"{two} two-speaker and {len(measured) - two} one-speaker rows"
        left_out = _count_faults(scores, range(len(scores)))
        yield self._measure(contestant, ALL_ROWS, scores, measured, len(whole), note, left_out)

    def _measure(
        self,
        contestant: _Contestant,
        over: str,
        scores: Sequence[Any],
        places: Sequence[int],
        pairs: int,
        *notes: str,
    ) -> Control:
        found = measure_separability(
            [scores[place] for place in places],
            [self._two_speakers[place] for place in places],
            seed=derive_seed(self._seed, f"{contestant.name}, {over}", _STAGE),
            clusters=[self._pair_of.get(place, f"row {place}") for place in places],
            level=self._confidence,
            n_resamples=self._resamples,
        )
        if over == TWINS and not pairs:
            reason = "no pair of twins was scored whole" if self._pairs else "no row has its twin in this bench"
        else:
            reason = found.reason or ""
        return Control(
            name=f"{contestant.name}, {over}",
            hears=contestant.hears,
            auc=found.auc,
            low=found.low,
            high=found.high,
            pairs=pairs,
            method=contestant.method,
            note="; ".join(note for note in (reason, *notes) if note),
        )

    def _explain_chance(self, pairs: Sequence[tuple[int, int]]) -> str:
        different = sum(_read_texts(self._plain[a]) != _read_texts(self._plain[b]) for a, b in pairs)
        if different:
            return f"{different} of {len(pairs)} pairs have different transcripts"
        return "both twins have the same transcript and so the same score" if pairs else ""

    def _give_up(self, contestant: _Contestant, reason: str) -> Iterator[Control]:
        for over in (TWINS, ALL_ROWS):
            yield Control(
                name=f"{contestant.name}, {over}",
                hears=contestant.hears,
                auc=None,
                low=None,
                high=None,
                pairs=len(self._pairs),
                method=contestant.method,
                note=reason,
            )


def _read_texts(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["primary_text"], row["third_party_text"]


def _count_faults(scores: Sequence[float | RowFault], places: Sequence[int] | range) -> str:
    reasons = Counter(fault.reason for place in places if isinstance(fault := scores[place], RowFault))
    if not reasons:
        return ""
    counts = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    return f"{reasons.total()} of {len(places)} rows could not be scored ({counts})"


def _describe(identity: EngineIdentity) -> str:
    return f"{identity.name} {identity.model}".strip()
