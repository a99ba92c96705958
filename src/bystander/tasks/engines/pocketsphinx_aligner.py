"""Forced alignment by CMU pocketsphinx with the English model that its wheel brings: no download, no torch.

The text is searched as a grammar of its words with optional silence between them, choosing among the dictionary's
pronunciations; a second pass over the same audio gives phones. Beams are wide, so that a clip is not lost to noise: in
return a wrong text aligns too, and only its scores tell. Each clip is normalised by its own means, so that no reply
depends on what was aligned before.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.alignment import AlignedPhone, AlignedWord, AlignmentReply, AlignmentRequest
from bystander.schemas.alignment_contract import find_broken_promise
from bystander.schemas.engines import EngineIdentity, RowFault, Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.sid_engine_configs import PocketsphinxAlignerConfig
from bystander.tasks.engines.alignment_input import find_unalignable, shift_words
from bystander.tasks.engines.engine_audio import convert_rate
from bystander.tasks.engines.english_pronunciation import SPOKEN_SOUNDS, EnglishPronouncer, list_spellings
from bystander.tasks.engines.model_revision import ResolveModel, find_package_version

SAMPLING_RATE = 16000
BIAS_S = -0.020
"""How late its starts lie (negative: early), subtracted from all its times. Measured by
`benchmarks/aligner_accuracy.py` as the median over the calibration voices."""

_RULES = "1"  # raise when the way from a word to its pronunciation, or from frames to times, changes
_FRAME_S = 0.01
_WINDOW_S = 0.0256
_FRAMES_PER_PHONE = 3  # states of its models, each at least one frame
_PEAK = 0.5
_LANGUAGES = frozenset({"en"})


@dataclass(frozen=True, slots=True)
class _Unit:
    """An entry of the dictionary, spoken as (part of) the word of a request."""

    name: str
    word_index: int
    known: bool
    phones: int


class PocketsphinxAligner:
    """Aligns English. Calls from several threads take turns at one decoder."""

    def __init__(
        self,
        config: PocketsphinxAlignerConfig,
        resolve_model: ResolveModel | None = None,  # noqa: ARG002 - all aligners are built alike
    ) -> None:
        """Find the package; the decoder is opened by the first call.

        Raises:
            EngineSetupError: pocketsphinx is not installed.
        """
        self._config = config
        self._lock = threading.Lock()
        self._decoder: Any = None
        self._pronouncer = EnglishPronouncer()
        version = find_package_version("pocketsphinx")
        self._identity = EngineIdentity(
            kind="aligner",
            name="pocketsphinx",
            model="en-us",
            revision=version,
            settings=(
                ("bias_s", f"{BIAS_S:g}"),
                ("g2p", f"hibari-tts {find_package_version('hibari-tts')}"),
                ("min_score", f"{config.min_score:g}"),
                ("min_word_score", f"{config.min_word_score:g}"),
                ("rules", _RULES),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def languages(self) -> frozenset[str]:
        return _LANGUAGES

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        """Align the requests. Scores are mean log-likelihoods a frame, of the clip over the frames of its words.

        Row faults: `ALIGNER_REASONS`.

        Raises:
            EngineSetupError: the model in the wheel cannot be opened.
            EngineError: the decoder failed.
        """
        with self._lock:
            if self._decoder is None:
                self._decoder = _open_decoder()
            return [self._align(request) for request in requests]

    def close(self) -> None:
        with self._lock:
            self._decoder = None

    def _align(self, request: AlignmentRequest) -> AlignmentReply | RowFault:
        fault = find_unalignable(request, _LANGUAGES)
        if fault is not None:
            return fault
        units: list[_Unit] = []
        for index, word in enumerate(request.words):
            found = self._find_units(word, index)
            if not found:
                return RowFault("no_pronunciation", f"word {index}, {word!r}, has nothing that can be pronounced")
            units += found
        audio = convert_rate(request.samples, request.sampling_rate, SAMPLING_RATE)
        duration_s = len(request.samples) / request.sampling_rate
        frames = int((len(audio) / SAMPLING_RATE - _WINDOW_S) / _FRAME_S) + 1
        needed = _FRAMES_PER_PHONE * sum(unit.phones for unit in units)
        if frames < needed:
            return RowFault("audio_too_short", f"{duration_s:.2f} s for words that take {needed * _FRAME_S:.2f} s")
        spoken = self._search(audio, units)
        if spoken is None:
            return RowFault("no_alignment", "the words do not fit the sound")
        words = _join_units(request.words, units, spoken)
        if isinstance(words, RowFault):
            return words
        reply = AlignmentReply(shift_words(words, -BIAS_S, duration_s), _score_frames(spoken))
        return find_broken_promise(request, reply) or self._find_unlikely(reply) or reply

    def _find_units(self, word: str, index: int) -> list[_Unit]:
        spellings = list_spellings(word)
        for spelling in spellings:
            sound = SPOKEN_SOUNDS.get(spelling)
            if sound is not None:
                return [self._add_unit(tuple(sound.split()), index, known=True)]
            phones = self._decoder.lookup_word(spelling)
            if phones is not None and "(" not in spelling:
                return [_Unit(spelling, index, True, len(phones.split()))]
        if not spellings:
            return []
        parts = [part for part in spellings[0].split("-") if part]
        if len(parts) > 1:
            return [unit for part in parts for unit in self._find_units(part, index)]
        return [self._add_unit(phones, index, known=False) for phones in self._pronouncer.pronounce(spellings[0])]

    def _add_unit(self, phones: tuple[str, ...], index: int, known: bool) -> _Unit:
        name = f"~{'_'.join(phones).lower()}"  # no word of the dictionary begins so; the same phones, the same entry
        if self._decoder.lookup_word(name) is None:
            self._decoder.add_word(name, " ".join(phones), False)
        return _Unit(name, index, known, len(phones))

    def _search(self, audio: Samples, units: Sequence[_Unit]) -> list[_Spoken] | None:
        """Return what was found of the units, in order, or None where it finds no way through the audio."""
        peak = float(np.abs(audio).max())
        sound = np.rint(audio * np.float32(_PEAK / peak * 32767)).astype(np.int16).tobytes()
        decoder = self._decoder
        try:
            decoder.set_align_text(" ".join(unit.name for unit in units))
            _decode(decoder, sound)
            if decoder.hyp() is None:
                return None
            decoder.set_alignment()
            _decode(decoder, sound)
            alignment = decoder.get_alignment()
        except (RuntimeError, ValueError, IndexError, TypeError) as exc:
            raise EngineError(f"pocketsphinx failed on a clip of {len(audio) / SAMPLING_RATE:.1f} s ({exc})") from exc
        if alignment is None:
            return None
        return [_Spoken.read(entry) for entry in alignment if entry.name[0] not in "<["]

    def _find_unlikely(self, reply: AlignmentReply) -> RowFault | None:
        least, word_least = self._config.min_score, self._config.min_word_score
        if reply.score is not None and reply.score < least:
            return RowFault("low_alignment_score", f"score {reply.score:.1f}, at least {least:g} is asked for")
        for index, word in enumerate(reply.words):
            if word.score is not None and word.score < word_least:
                return RowFault(
                    "low_alignment_score",
                    f"word {index}, {word.word!r}: score {word.score:.1f}, at least {word_least:g} is asked for",
                )
        return None


@dataclass(frozen=True, slots=True)
class _Spoken:
    """An entry of pocketsphinx's alignment, copied: its own die with the next search."""

    name: str
    start: int
    frames: int
    score: int
    phones: tuple[tuple[str, int, int], ...]

    @classmethod
    def read(cls, entry: Any) -> _Spoken:
        phones = tuple((phone.name, phone.start, phone.duration) for phone in entry)
        return cls(entry.name.partition("(")[0], entry.start, entry.duration, entry.score, phones)


def _join_units(
    words: Sequence[str], units: Sequence[_Unit], spoken: Sequence[_Spoken]
) -> list[AlignedWord] | RowFault:
    if [entry.name for entry in spoken] != [unit.name for unit in units]:
        return RowFault("alignment_incomplete", f"{len(spoken)} words found of {len(units)}")
    joined: list[AlignedWord] = []
    for index, word in enumerate(words):
        own = [(unit, entry) for unit, entry in zip(units, spoken, strict=True) if unit.word_index == index]
        first, last = own[0][1], own[-1][1]
        phones = tuple(
            AlignedPhone(name, start * _FRAME_S, (start + frames) * _FRAME_S)
            for _, entry in own
            for name, start, frames in entry.phones
        )
        joined.append(
            AlignedWord(
                word,
                first.start * _FRAME_S,
                (last.start + last.frames) * _FRAME_S,
                _score_frames([entry for _, entry in own]),
                phones,
                all(unit.known for unit, _ in own),
            )
        )
    return joined


def _score_frames(spoken: Sequence[_Spoken]) -> float:
    return sum(entry.score for entry in spoken) / max(1, sum(entry.frames for entry in spoken))


def _decode(decoder: Any, sound: bytes) -> None:
    decoder.start_utt()
    try:
        decoder.process_raw(sound, no_search=False, full_utt=True)
    finally:
        decoder.end_utt()  # a decoder left in an utterance fails on every later one


def _open_decoder() -> Any:
    try:
        from pocketsphinx import Decoder

        return Decoder(lm=None, bestpath=False, beam=1e-200, pbeam=1e-200, wbeam=1e-150, cmn="batch", loglevel="FATAL")
    except ImportError as exc:
        raise EngineSetupError("the package pocketsphinx is missing; run: pip install pocketsphinx") from exc
    except (RuntimeError, ValueError) as exc:
        raise EngineSetupError(f"pocketsphinx cannot open its English model ({exc})") from exc
