"""Word times of a recogniser, matched to the text: a fall-back where no forced aligner has the language.

Whisper hears the clip freely and gives the times of what it heard. Text and transcript are matched by edit distance
between their letters; a word of the text has a time only where it begins with a word that was heard. Such times are
far coarser than an aligner's (a word after a pause is pulled into the pause), so replies are marked `is_fallback`.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from bystander.schemas.alignment import AlignedWord, AlignmentReply, AlignmentRequest
from bystander.schemas.alignment_contract import find_broken_promise
from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.errors import EngineError
from bystander.schemas.sid_engine_configs import RecogniserAlignerConfig
from bystander.tasks.engines.alignment_input import find_unalignable, shift_words
from bystander.tasks.engines.engine_audio import convert_rate
from bystander.tasks.engines.faster_whisper import open_whisper
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.recognition_input import SAMPLING_RATE

BIAS_S = 0.0
"""How late its starts lie (negative: early), subtracted from all its times; see `benchmarks/aligner_accuracy.py`."""
MIN_MATCHED = 0.5
"""Least share of a word's letters that must have been heard in its place."""

_STEP_S = 0.02  # of Whisper's times; words that it gives no length have this
_BEAM_SIZE = 5
_RULES = "1"  # raise when the way from what was heard to the words' times changes


@dataclass(frozen=True, slots=True)
class HeardWord:
    """A word of the recogniser's transcript; times in seconds from the start of the clip."""

    word: str
    start_s: float
    end_s: float
    probability: float


class RecogniserAligner:
    """Times words by what Whisper heard; `workers` clips at once, one thread each."""

    def __init__(self, config: RecogniserAlignerConfig, resolve_model: ResolveModel) -> None:
        """Find the model; it is opened by the first call.

        Raises:
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        self._config = config
        self._path = resolve_model(config.model)
        self._pool = ThreadPoolExecutor(config.workers, thread_name_prefix="whisper-words")
        self._lock = threading.Lock()
        self._model: Any = None
        self._identity = EngineIdentity(
            kind="aligner",
            name="recogniser_words",
            model=config.model,
            revision=read_revision(config.model, self._path),
            settings=(
                ("beam_size", str(_BEAM_SIZE)),
                ("bias_s", f"{BIAS_S:g}"),
                ("compute_type", config.compute_type),
                ("min_matched", f"{MIN_MATCHED:g}"),
                ("rules", _RULES),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def languages(self) -> frozenset[str]:
        """Languages that the model hears; opens it."""
        return frozenset(self._open().supported_languages)

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        """Time the requests' words. Scores are Whisper's probability times the share of letters heard, in [0, 1].

        Row faults: `language_not_aligned`, `no_pronunciation`, `audio_too_short`, `no_alignment` (nothing was heard),
        `alignment_incomplete` (a word was not heard, or not as a word of its own).

        Raises:
            EngineSetupError: faster-whisper is missing or the model cannot be opened.
            EngineError: the model failed.
        """
        model = self._open()
        return list(self._pool.map(lambda request: self._align(request, model), requests))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._model = None

    def _open(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = open_whisper(self._path, self._config.compute_type, self._config.workers)
            return self._model

    def _align(self, request: AlignmentRequest, model: Any) -> AlignmentReply | RowFault:
        fault = find_unalignable(request, frozenset(model.supported_languages))
        if fault is not None:
            return fault
        for index, word in enumerate(request.words):
            if not _fold(word):
                return RowFault("no_pronunciation", f"word {index}, {word!r}, has nothing that can be pronounced")
        duration_s = len(request.samples) / request.sampling_rate
        heard = self._listen(request, model, duration_s)
        if not heard:
            return RowFault("no_alignment", "the recogniser heard no words")
        words = match_words(request.words, heard)
        if isinstance(words, RowFault):
            return words
        scores = [word.score for word in words if word.score is not None]
        reply = AlignmentReply(
            shift_words(words, -BIAS_S, duration_s), sum(scores) / len(scores) if scores else None, is_fallback=True
        )
        return find_broken_promise(request, reply) or reply

    def _listen(self, request: AlignmentRequest, model: Any, duration_s: float) -> list[HeardWord]:
        audio = convert_rate(request.samples, request.sampling_rate, SAMPLING_RATE)
        try:
            segments, _ = model.transcribe(
                audio,
                language=request.language.split("-")[0],
                beam_size=_BEAM_SIZE,
                temperature=0.0,
                condition_on_previous_text=False,
                word_timestamps=True,
                vad_filter=False,
            )
            words = [word for segment in segments for word in segment.words or ()]
        except IndexError:
            return []  # it stumbles over words that it should time in a clip of some milliseconds
        except Exception as exc:  # CTranslate2 raises RuntimeError or ValueError
            raise EngineError(f"Whisper failed on a clip of {duration_s:.1f} s ({exc})") from exc
        # Whisper hears 30 s always: it may put words behind the end of a shorter clip.
        return [
            HeardWord(word.word, float(word.start), min(float(word.end), duration_s), float(word.probability))
            for word in words
            if word.start < duration_s
        ]


def match_words(words: Sequence[str], heard: Sequence[HeardWord]) -> list[AlignedWord] | RowFault:
    """Return each word with the times of what was heard in its place.

    Faults: `alignment_incomplete`, where too little of a word was heard, or it begins inside a word that was heard.
    """
    asked = [_fold(word) for word in words]
    said = [_fold(word.word) for word in heard]
    owners = [index for index, word in enumerate(said) for _ in word]
    partner = _match_letters(asked, said)
    timed: list[AlignedWord] = []
    place = 0
    for index, (word, spelling) in enumerate(zip(words, asked, strict=True)):
        matched = [partner[k] for k in range(place, place + len(spelling)) if k in partner]
        place += len(spelling)
        share = len(matched) / len(spelling)
        if share < MIN_MATCHED:
            return RowFault("alignment_incomplete", f"word {index}, {word!r}, was not heard")
        first, last = owners[matched[0]], owners[matched[-1]]
        if _begins_earlier(partner, owners, place - len(spelling), first):
            return RowFault("alignment_incomplete", f"word {index}, {word!r}, begins inside {heard[first].word!r}")
        start_s = heard[first].start_s
        score = share * min(heard[k].probability for k in range(first, last + 1))
        timed.append(AlignedWord(word, start_s, max(heard[last].end_s, start_s + _STEP_S), score))
    return timed


def _match_letters(asked: Sequence[str], said: Sequence[str]) -> dict[int, int]:
    """Return the place of each letter of `asked`, counted over all words, among the letters of `said`.

    Words that are the same are matched first, and letters in what lies between them: letters alone would as soon take
    the first of two similar words.
    """
    from rapidfuzz.distance import Levenshtein

    asked_edges = [0, *accumulate(map(len, asked))]
    said_edges = [0, *accumulate(map(len, said))]
    anchors = [(block.a, block.b, block.size) for block in Levenshtein.opcodes(asked, said).as_matching_blocks()]
    partner: dict[int, int] = {}
    source, target = 0, 0
    for asked_place, said_place, size in anchors:  # the last is empty and lies at both ends
        between = "".join(asked[source:asked_place]), "".join(said[target:said_place])
        for block in Levenshtein.opcodes(*between).as_matching_blocks():
            first, second = asked_edges[source] + block.a, said_edges[target] + block.b
            partner.update({first + k: second + k for k in range(block.size)})
        source, target = asked_place + size, said_place + size
        offset = said_edges[said_place] - asked_edges[asked_place]
        partner.update({k: k + offset for k in range(asked_edges[asked_place], asked_edges[source])})
    return partner


def _begins_earlier(partner: Mapping[int, int], owners: Sequence[int], place: int, heard_index: int) -> bool:
    """Whether a letter of the text before `place` was heard in that word already."""
    earlier = next((partner[k] for k in reversed(range(place)) if k in partner), None)
    return earlier is not None and owners[earlier] == heard_index


def _fold(word: str) -> str:
    folded = unicodedata.normalize("NFKD", word).casefold()
    return "".join(character for character in folded if character.isalnum())
