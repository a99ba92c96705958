"""The best path of a clip through the phones of its words, found by Kaldi, and the words and phones along it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import EngineError
from bystander.tasks.engines.kaldi_gmm.acoustic_model import SILENCE, AcousticModel
from bystander.tasks.engines.kaldi_gmm.features import Features
from bystander.tasks.engines.kaldi_gmm.kaldi_library import KALDI_LOCK, load_kaldi

ACOUSTIC_SCALE = 0.1
_SELF_LOOP_SCALE = 0.1
_SILENCE_PROBABILITY = 0.5
_MIN_FRAMES_PER_PHONE = 3

Variants = tuple[tuple[str, ...], ...]
"""The pronunciations of one word, each a sequence of phones."""


@dataclass(frozen=True, slots=True)
class PhoneSpan:
    """A phone on frames [start, end)."""

    phone: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AlignedPath:
    """`words[i]` are the phones of word i; `states[t]` is the number of the state that frame t belongs to."""

    words: tuple[tuple[PhoneSpan, ...], ...]
    states: npt.NDArray[np.int32]
    silences: tuple[PhoneSpan, ...]


def count_least_frames(words: Sequence[Variants]) -> int:
    """Return the number of frames that the shortest pronunciations need."""
    return _MIN_FRAMES_PER_PHONE * sum(min(len(variant) for variant in variants) for variants in words)


def compile_graph(model: AcousticModel, words: Sequence[Variants]) -> Any:
    """Return the graph of the words with optional silence around each, without transition probabilities.

    Raises:
        EngineError: Kaldi could not make it.
    """
    khg, kaldifst = load_kaldi()
    with KALDI_LOCK:
        lexicon = kaldifst.compile(_write_lexicon(model, words), acceptor=False)
        kaldifst.arcsort(lexicon, "olabel")
        options = khg.TrainingGraphCompilerOptions(transition_scale=0, self_loop_scale=0)
        compiler = khg.TrainingGraphCompiler(model.transitions, model.contexts, lexicon, [], options)
        graph = compiler.compile_graph_from_text(list(range(1, len(words) + 1)))
    if graph is None or graph.num_states == 0:
        raise EngineError(f"Kaldi made no graph of {len(words)} words")
    return graph


def find_transitions(
    model: AcousticModel, graph: Any, features: Features, beam: float, retry_beam: float
) -> list[int] | None:
    """Return the transition taken at each frame on the best path, or None where none survives the beams."""
    khg, _ = load_kaldi()
    with KALDI_LOCK:
        weighted = graph.copy()
        khg.add_transition_probs(
            trans_model=model.transitions,
            disambig_syms=[],
            transition_scale=1.0,
            self_loop_scale=_SELF_LOOP_SCALE,
            fst=weighted,
        )
        scorer = khg.DecodableAmDiagGmmScaled(model.gaussians, model.transitions, features, ACOUSTIC_SCALE)
        config = khg.AlignConfig(beam, retry_beam, False)
        done, _, _, _, _, transitions, _ = khg.align_utterance_wrapper(
            config, "", ACOUSTIC_SCALE, weighted, scorer, 0, 0, 0, 0.0, 0
        )
    return list(transitions) if done else None


def read_path(model: AcousticModel, words: Sequence[Variants], transitions: Sequence[int]) -> AlignedPath | None:
    """Return the words and phones along a path, or None where it does not say each word once."""
    spans = split_phones(model, transitions)
    spoken = [span for span in spans if span.phone != SILENCE]
    matched = _match_words(words, spoken)
    if matched is None:
        return None
    pdfs = np.asarray(model.transitions.transition_id_to_pdf_array(), np.int32)
    return AlignedPath(
        words=matched,
        states=pdfs[np.asarray(transitions, np.int64)],
        silences=tuple(span for span in spans if span.phone == SILENCE),
    )


def split_phones(model: AcousticModel, transitions: Sequence[int]) -> list[PhoneSpan]:
    """Return the phones of a path in order.

    A phone leaves its first state exactly once, and Kaldi's graphs have that transition before the state's self-loops:
    each such frame begins a phone.
    """
    table = model.transitions
    starts = [
        frame
        for frame, transition in enumerate(transitions)
        if table.transition_ids_is_start_of_phone(transition) and not table.is_self_loop(transition)
    ]
    ends = [*starts[1:], len(transitions)]
    return [
        PhoneSpan(model.phones[table.transition_id_to_phone(transitions[start]) - 1], start, end)
        for start, end in zip(starts, ends, strict=True)
    ]


def _match_words(words: Sequence[Variants], spoken: Sequence[PhoneSpan]) -> tuple[tuple[PhoneSpan, ...], ...] | None:
    """Cut the phones into words. Positions reachable after each word, then one walk back from the end."""
    phones = [span.phone for span in spoken]
    reached: list[dict[int, int]] = [{0: -1}]
    for variants in words:
        following: dict[int, int] = {}
        for position in reached[-1]:
            for variant in variants:
                end = position + len(variant)
                if end not in following and tuple(phones[position:end]) == variant:
                    following[end] = position
        reached.append(following)
    end = len(phones)
    if end not in reached[-1]:
        return None
    cuts = [end]
    for step in reversed(reached[1:]):
        cuts.append(step[cuts[-1]])
    cuts.reverse()
    return tuple(tuple(spoken[a:b]) for a, b in pairwise(cuts))


def _write_lexicon(model: AcousticModel, words: Sequence[Variants]) -> str:
    """Return the lexicon in which word i + 1 is the i-th of the text: each place has its own pronunciations.

    State 0 begins, state 1 is between words, state 2 is before a silence.
    """
    silent = -math.log(_SILENCE_PROBABILITY)
    direct = -math.log(1 - _SILENCE_PROBABILITY)
    silence = model.numbers[SILENCE]
    lines = [f"0 1 0 0 {direct}", f"0 1 {silence} 0 {silent}", f"2 1 {silence} 0 0"]
    state = 3
    for word, variants in enumerate(words, 1):
        for variant in variants:
            here, label = 1, word
            for phone in variant[:-1]:
                lines.append(f"{here} {state} {model.numbers[phone]} {label} 0")
                here, label, state = state, 0, state + 1
            last = model.numbers[variant[-1]]
            lines += [f"{here} 1 {last} {label} {direct}", f"{here} 2 {last} {label} {silent}"]
    return "\n".join([*lines, "1 0"]) + "\n"
