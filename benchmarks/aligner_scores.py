"""How aligners score right and wrong texts, in full band and over the telephone: what their limits should be.

Clips are the turns of `aligner_accuracy.py` (Kokoro, put together) and recorded speech of the development data:
utterances cut by MFA's TextGrids, and whole clips with transcripts. Each is aligned without any limit with its own
text, with as many words of other clips, and with one word of its own replaced; as it is (`wide`), at 8 kHz
(`8 kHz`), and at 8 kHz through a filter of 300 to 3400 Hz and mu-law (`telephone`).

    python benchmarks/aligner_scores.py measure --clips /tmp/clips --output scores.json
    python benchmarks/aligner_scores.py report scores.json --limits=-30,-50 --limits=-45,-90
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from aligner_accuracy import WRONG_WORDS, make_turns, read_mfa
from scipy import signal

from bystander.schemas.alignment import AlignmentReply, AlignmentRequest
from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.sid_engine_configs import PocketsphinxAlignerConfig
from bystander.tasks.engines.kaldi_gmm.acoustic_model import find_shipped_model, load_model
from bystander.tasks.engines.kaldi_gmm.clip_alignment import ClipAligner
from bystander.tasks.engines.kaldi_gmm.pronunciations import open_pronouncer
from bystander.tasks.engines.pocketsphinx_aligner import PocketsphinxAligner

PHONE_RATE = 8000
BANDS = ("wide", "8 kHz", "telephone")
TEXTS = ("right", "wrong", "one wrong word")
MU = 255
NO_LIMIT = -1e9
SHORT_WORD_FRAMES = 10


@dataclass(frozen=True)
class Clip:
    """A clip and its words; `source` is where it comes from."""

    source: str
    samples: Samples
    rate: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Scored:
    """What one aligner said of a clip in a band with a text; all scores are None where it found no path."""

    aligner: str
    source: str
    band: str
    text: str
    words: tuple[str, ...]
    score: float | None = None
    word_scores: tuple[float, ...] = ()
    word_seconds: tuple[float, ...] = ()
    speech_score: float | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    measure = commands.add_parser("measure")
    measure.add_argument("--aligner", action="append", choices=("pocketsphinx", "kaldi_gmm"))
    measure.add_argument("--source", action="append", choices=("calibration", "held_out", "recorded"))
    measure.add_argument("--every", type=int, default=1, help="use every nth of Kokoro's turns")
    measure.add_argument("--clips", type=Path, help="folder that keeps the synthesised clips")
    measure.add_argument("--data", type=Path, default=Path("../shared/data"))
    measure.add_argument("--output", type=Path, required=True)
    report = commands.add_parser("report")
    report.add_argument("scores", type=Path, nargs="+")
    report.add_argument("--limits", action="append", default=[], help="of the clip, the word[, the speech score]")
    report.add_argument("--aligner", default="pocketsphinx")
    arguments = parser.parse_args()
    if arguments.what == "report":
        rows = [Scored(**row) for path in arguments.scores for row in json.loads(path.read_text("utf-8"))]
        print_report(
            [row for row in rows if row.aligner == arguments.aligner],
            [tuple(float(limit) for limit in text.split(",")) for text in arguments.limits],
        )
        return
    clips: list[Clip] = []
    for source in arguments.source or ("calibration", "held_out", "recorded"):
        if source == "recorded":
            clips += read_recorded(arguments.data)
        else:
            turns = list(make_turns(source, arguments.clips))[:: arguments.every]
            clips += [Clip(source, turn.samples, 24000, turn.words) for turn in turns]
    scored = list(score_clips(arguments.aligner or ("pocketsphinx", "kaldi_gmm"), clips))
    arguments.output.write_text(json.dumps([asdict(row) for row in scored]), "utf-8")


def read_recorded(data: Path) -> Iterator[Clip]:
    """Yield the recorded clips in English with their words."""
    mfa = data / "speech_aligned/mfa"
    for _, part, rate, words in read_mfa(mfa):
        yield Clip("studio, casual", part, rate, tuple(word.label for word in words))
    for path in sorted([*(mfa / "lab").glob("multilingual_ipa*.txt"), *(mfa / "lab").glob("common_voice_en*.lab")]):
        (audio,) = (mfa / "wav").glob(f"{path.stem}.*")
        samples, rate = soundfile.read(audio, dtype="float32", always_2d=True)
        yield Clip("podcast, crowd", samples[:, 0], rate, tuple(path.read_text("utf-8").split()))
    folder = data / "speech_transcribed/pocketsphinx"
    for name in ("transcription", "cards.transcription"):
        for line in (folder / name).read_text("utf-8").splitlines():
            text, _, stem = line.rstrip(")").rpartition("(")
            samples, rate = soundfile.read(folder / f"{stem}.wav", dtype="float32", always_2d=True)
            words = tuple(word for word in text.split() if word not in ("<s>", "</s>"))
            yield Clip("read", samples[:, 0], rate, words)
    folder = data / "speech_transcribed/lhotse"
    for cut in json.loads((folder / "test__fixtures__ljspeech__cuts.json").read_text("utf-8")):
        name = Path(cut["recording"]["sources"][0]["source"]).name
        samples, rate = soundfile.read(folder / name, dtype="float32", always_2d=True)
        yield Clip("read", samples[:, 0], rate, tuple(cut["supervisions"][0]["text"].lower().split()))


def narrow(clip: Clip, band: str) -> tuple[Samples, int]:
    """Return the clip's audio in a band, and its rate."""
    if band == "wide":
        return clip.samples, clip.rate
    samples = soxr.resample(clip.samples, clip.rate, PHONE_RATE)
    if band == "telephone":
        sections = signal.butter(4, (300, 3400), "bandpass", fs=PHONE_RATE, output="sos")
        samples = signal.sosfilt(sections, samples)
        samples = samples * 0.5 / max(1e-9, float(np.abs(samples).max()))
        companded = np.sign(samples) * np.log1p(MU * np.abs(samples)) / np.log1p(MU)
        companded = np.round(companded * 127) / 127
        samples = np.sign(companded) * np.expm1(np.abs(companded) * np.log1p(MU)) / MU
    return samples.astype(np.float32), PHONE_RATE


def choose_texts(clips: Sequence[Clip], index: int) -> dict[str, tuple[str, ...]]:
    """Return the clip's words, as many of other clips of its source in a row, and its own but for one."""
    rng = np.random.Generator(np.random.PCG64([0, index]))
    words = clips[index].words
    own = {word.casefold().strip(".,?") for word in words}
    others = [
        word
        for clip in clips
        if clip.source == clips[index].source and clip.words != words
        for word in clip.words
        if word.casefold().strip(".,?") not in own
    ]
    start = int(rng.integers(max(1, len(others) - len(words))))
    swapped = list(words)
    swapped[int(rng.integers(len(words)))] = WRONG_WORDS[int(rng.integers(len(WRONG_WORDS)))]
    return dict(zip(TEXTS, (words, tuple(others[start : start + len(words)]), tuple(swapped)), strict=True))


def score_clips(aligners: Sequence[str], clips: Sequence[Clip]) -> Iterator[Scored]:
    pocketsphinx = PocketsphinxAligner(PocketsphinxAlignerConfig(min_score=NO_LIMIT, min_word_score=NO_LIMIT))
    kaldi = ClipAligner(load_model(find_shipped_model("en")), open_pronouncer("en"))
    for index, clip in enumerate(clips):
        if index % 20 == 0:
            print(f"{index} of {len(clips)}", file=sys.stderr, flush=True)
        texts = choose_texts(clips, index)
        for band in BANDS:
            samples, rate = narrow(clip, band)
            for kind, words in texts.items():
                if "pocketsphinx" in aligners:
                    (answer,) = pocketsphinx.align([AlignmentRequest("clip", samples, rate, words)])
                    row = Scored("pocketsphinx", clip.source, band, kind, words)
                    if isinstance(answer, AlignmentReply):
                        row = Scored(
                            *("pocketsphinx", clip.source, band, kind, words),
                            answer.score,
                            tuple(word.score or 0.0 for word in answer.words),
                            tuple(round(word.end_s - word.start_s, 3) for word in answer.words),
                        )
                    yield row
                if "kaldi_gmm" in aligners:
                    found = kaldi.align(samples, rate, words)
                    row = Scored("kaldi_gmm", clip.source, band, kind, words)
                    if not isinstance(found, RowFault):
                        row = Scored(
                            *("kaldi_gmm", clip.source, band, kind, words),
                            found.score,
                            found.word_scores,
                            tuple((word[-1].end - word[0].start) / 100 for word in found.path.words),
                            found.speech_score,
                        )
                    yield row


def print_report(rows: Sequence[Scored], limits: Sequence[tuple[float, ...]]) -> None:
    """Print percentiles of the scores, and shares that limits would reject, as Markdown."""
    sources = list(dict.fromkeys(row.source for row in rows))
    print("| clips | band | n | right: clip p0 / p5 / p50 | right: worst word p0 / p5 / p50 |", end="")
    print(" wrong: clip p50 / p95 / p100 | wrong: worst word p50 / p95 |")
    print("|---|---|---|---|---|---|---|")
    groups = [(source, band) for source in sources for band in BANDS]
    for source, band in groups:
        chosen = {text: [r for r in rows if (r.source, r.band, r.text) == (source, band, text)] for text in TEXTS}
        right, wrong = ([r for r in chosen[text] if r.score is not None] for text in ("right", "wrong"))
        cells = [
            show_percentiles([r.score or 0 for r in right], (0, 5, 50)),
            show_percentiles([find_worst(r) for r in right], (0, 5, 50)),
            show_percentiles([r.score or 0 for r in wrong], (50, 95, 100)),
            show_percentiles([find_worst(r) for r in wrong], (50, 95)),
        ]
        print(f"| {source} | {band} | {len(chosen['right'])} | {' | '.join(cells)} |")
    for limit in limits:
        print(f"\nRejected at {', '.join(f'{value:g}' for value in limit)}:\n")
        print("| clips | " + " | ".join(f"{band}: {text}" for band in BANDS for text in TEXTS) + " |")
        print("|---|" + "---|" * (len(BANDS) * len(TEXTS)))
        for source in sources:
            shares = [
                np.mean([is_rejected(r, limit) for r in rows if (r.source, r.band, r.text) == (source, band, text)])
                for band in BANDS
                for text in TEXTS
            ]
            print(f"| {source} | " + " | ".join(f"{100 * share:.0f} %" for share in shares) + " |")


def find_worst(row: Scored) -> float:
    """Return the worst word's score; kaldi_gmm does not judge words of less than 0.1 s."""
    least_s = SHORT_WORD_FRAMES / 100 if row.aligner == "kaldi_gmm" else 0.0
    long = [s for s, seconds in zip(row.word_scores, row.word_seconds, strict=True) if seconds >= least_s - 1e-6]
    return min(long, default=0.0)


def is_rejected(row: Scored, limit: tuple[float, ...]) -> bool:
    if row.score is None:
        return True
    no_speech = len(limit) > 2 and (row.speech_score or 0.0) < limit[2]
    return row.score < limit[0] or find_worst(row) < limit[1] or no_speech


def show_percentiles(values: Sequence[float], wanted: Sequence[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in np.percentile(values, wanted)) if values else ""


if __name__ == "__main__":
    main()
