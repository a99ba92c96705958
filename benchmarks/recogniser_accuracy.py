"""How well recognisers hear synthetic requests, what they make of noise, and how much of the processor they take.

Clips are requests of the starter set spoken by Kokoro, one text a voice, made once and kept in `--clips`; the same
clips with white noise at `--snr` dB; and noise of the product's own generators, in which nobody speaks. Each engine is
a recogniser's configuration as JSON. Times are of the processor, so that other work on the machine counts less.

    python benchmarks/recogniser_accuracy.py --clips /tmp/clips --requests 40 \
        '{"engine": "faster_whisper"}' '{"engine": "faster_whisper", "batch_size": 8, "guards": {}}'
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from pydantic import TypeAdapter

from bystander.schemas.engines import (
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    Samples,
    SpeechReply,
    SpeechRequest,
)
from bystander.schemas.recogniser_configs import RecogniserConfig
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.schemas.starter_queries import load_starter_queries
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.noise_generators import GENERATORS, generate_noise
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.registry import open_recogniser
from bystander.tasks.metrics.wer import measure_wer

RATE = 24000
VOICES = ("af_alloy", "am_michael", "bf_emma", "bm_lewis")
NOISE_S = 4.0
NOISE_DBFS = (-45.0, -35.0, -25.0)


@dataclass(frozen=True)
class Clip:
    """A clip and what is said in it; nothing in noise."""

    samples: Samples
    text: str


def speak_requests(folder: Path, count: int) -> list[Clip]:
    """Return the first requests of the starter set, spoken; from the folder where they are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [query.text for query in load_starter_queries()[:count]]
    paths = [folder / f"request-{number:04d}.flac" for number in range(count)]
    missing = [number for number, path in enumerate(paths) if not path.exists()]
    if missing:
        engine = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
        requests = [SpeechRequest(texts[number], VOICES[number % len(VOICES)], 7) for number in missing]
        for number, reply in zip(missing, engine.synthesise(requests), strict=True):
            assert isinstance(reply, SpeechReply)
            soundfile.write(paths[number], reply.samples, reply.sampling_rate)
        engine.close()
    return [Clip(soundfile.read(p, dtype="float32")[0], text) for p, text in zip(paths, texts, strict=True)]


def add_noise(clips: Sequence[Clip], snr_db: float) -> list[Clip]:
    """Return the clips with white noise, `snr_db` below the RMS of each."""
    rng = np.random.Generator(np.random.PCG64(5))
    noisy = []
    for clip in clips:
        level = float(np.sqrt(np.mean(clip.samples**2))) * 10 ** (-snr_db / 20)
        noise = (level * rng.normal(size=len(clip.samples))).astype(np.float32)
        noisy.append(Clip(clip.samples + noise, clip.text))
    return noisy


def make_noises(count: int) -> list[Clip]:
    """Return noise of every generator at several levels, `count` clips in all."""
    names = sorted(GENERATORS)
    clips = []
    for number in range(count):
        level = NOISE_DBFS[number // len(names) % len(NOISE_DBFS)]
        rng = np.random.Generator(np.random.PCG64(number))
        clips.append(Clip(generate_noise(names[number % len(names)], NOISE_S, RATE, level, rng), ""))
    return clips


def report(config: RecogniserConfig, sets: dict[str, list[Clip]]) -> None:
    """Print a line a set of clips."""
    engine = open_recogniser(config, ModelStore().resolve)
    # The first call opens the model.
    engine.recognise([RecognitionRequest(sets["clean"][0].samples, RATE)])
    for name, clips in sets.items():
        started = time.process_time()
        heard = engine.recognise([RecognitionRequest(clip.samples, RATE) for clip in clips])
        spent = time.process_time() - started
        replies = [reply if isinstance(reply, RecognitionReply) else RecognitionReply("") for reply in heard]
        faults = sum(isinstance(reply, RowFault) for reply in heard)
        rates = [measure_wer(c.text, r.text, "en") for c, r in zip(clips, replies, strict=True) if c.text]
        figures = {
            "clips": len(clips),
            "faults": faults,
            "with text": sum(bool(reply.text) for reply in replies),
            "WER": round(float(np.mean([rate.normalised for rate in rates])), 4) if rates else None,
            "WER 0": round(float(np.mean([rate.normalised == 0 for rate in rates])), 3) if rates else None,
            "temperatures": dict(sorted(Counter(str(reply.temperature) for reply in replies).items())),
            "withheld": dict(Counter(reply.withheld_as for reply in replies if reply.withheld_as)),
            "CPU s a s": round(spent / sum(len(clip.samples) / RATE for clip in clips), 3),
        }
        print(f"{name:>8}", json.dumps(figures))
    engine.close()


def main() -> None:
    """Measure the engines that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", help="configurations of recognisers, JSON")
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--noises", type=int, default=30)
    parser.add_argument("--snr", type=float, default=5.0)
    arguments = parser.parse_args()
    clean = speak_requests(arguments.clips, arguments.requests)
    noisy, noise = add_noise(clean, arguments.snr), make_noises(arguments.noises)
    sets = {"clean": clean, f"{arguments.snr:g} dB": noisy, "noise": noise}
    for text in arguments.engines:
        config = TypeAdapter[RecogniserConfig](RecogniserConfig).validate_json(text)
        print(text)
        report(config, sets)


if __name__ == "__main__":
    main()
