"""Train an alignment model for the engine `kaldi_gmm`, on a corpus of your own or on synthesised speech.

Usage:
    python scripts/train_kaldi_gmm.py train CORPUS --language en --out MODEL
        CORPUS: a folder of audio files with a .txt, .TextGrid, .ctm or .json beside each, or a manifest (JSONL lines
        with `audio` and `text`, or `words` with times). A model is a folder; name it in a configuration's
        `engines.aligner.models`.
    python scripts/train_kaldi_gmm.py measure MODEL CORPUS
        Word start errors of a model (a folder, a file, or `shipped-en`, `shipped-zh`) on a corpus with word times.
    python scripts/train_kaldi_gmm.py synthesise --language en --out CORPUS [--held-out] [--clips 480]
        The corpora behind the shipped models: needs Kokoro in the model store.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bystander.schemas.errors import BystanderError
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.kaldi_gmm.acoustic_model import find_shipped_model
from bystander.tasks.training.aligner_corpus import read_corpus
from bystander.tasks.training.aligner_model import make_model, measure_model
from bystander.tasks.training.aligner_speech import synthesise_held_out, synthesise_training
from bystander.tasks.training.aligner_training import AlignerTraining


def train(args: argparse.Namespace) -> None:
    """Train a model and write it with its report."""
    params = AlignerTraining(iterations=args.iterations, gaussians=args.gaussians)
    notes = {"source": args.source} if args.source else {}
    make_model(read_corpus(args.corpus), args.language, args.out, params, notes, report_progress=print)


def measure(args: argparse.Namespace) -> None:
    """Print the errors of a model on a corpus, by kind of clip where the manifest tells."""
    model = (
        find_shipped_model(args.model.removeprefix("shipped-"))
        if args.model.startswith("shipped-")
        else Path(args.model)
    )
    for name, figures in measure_model(model, read_corpus(args.corpus)).items():
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))


def synthesise(args: argparse.Namespace) -> None:
    """Write a synthesised corpus."""
    from bystander.tasks.engines.kokoro import KokoroSpeechEngine

    engine = KokoroSpeechEngine(KokoroSpeechConfig(languages=(args.language,)), ModelStore().resolve)
    try:
        write = synthesise_held_out if args.held_out else synthesise_training
        write(engine, args.language, args.out, args.clips, print)
    finally:
        engine.close()


def main() -> int:
    """Parse the command line and run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("train")
    command.add_argument("corpus", type=Path)
    command.add_argument("--language", required=True, choices=["en", "zh"])
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--iterations", type=int, default=AlignerTraining().iterations)
    command.add_argument("--gaussians", type=int, default=AlignerTraining().gaussians)
    command.add_argument("--source", help="where the corpus comes from, kept in the model")
    command.set_defaults(run=train)
    command = commands.add_parser("measure")
    command.add_argument("model")
    command.add_argument("corpus", type=Path)
    command.set_defaults(run=measure)
    command = commands.add_parser("synthesise")
    command.add_argument("--language", required=True, choices=["en", "zh"])
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--held-out", action="store_true")
    command.add_argument("--clips", type=int, default=480)
    command.set_defaults(run=synthesise)
    args = parser.parse_args()
    try:
        args.run(args)
    except BystanderError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
