"""What a bank of reference voices costs: making it, opening it, and drawing pairs of its voices.

    python benchmarks/voice_bank.py [--speakers 5000] [--clips 1] [--seconds 10] [--workers 2] [--verifier NAME]

Makes a corpus of stand-in speech (tones in noise, one FLAC file a clip), indexes it, and prints CPU and wall time and
the largest memory of each process; then the same for an unchanged second run, opening the bank, reading clips at
random, searching for voices that sound alike, and the table of pairs of `choose_voices` in processes of their own.
The fake verifier is the default: the embedded one takes 0.04 CPU seconds for a second of audio, on top of all this.
`--snr` instead holds the estimated signal-to-noise ratio against noise that was put in, over clips that are named.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import soundfile

from bystander.schemas.engines import Voice
from bystander.schemas.tpi_params import ChooseVoices
from bystander.schemas.voice_bank_config import load_index_config
from bystander.storage.voice_bank import open_voice_bank, stack_embeddings
from bystander.tasks.audio.speech_activity import measure_levels
from bystander.tasks.audio.speech_quality import find_speech_frames, measure_quality
from bystander.tasks.engines.fake_speech import encode_speech
from bystander.tasks.index_voices import index_voices
from bystander.tasks.metrics.voice_similarity import find_similar_pairs
from bystander.tasks.stages.choose_voices import check_voices

RATE = 24000


def make_corpus(folder: Path, speakers: int, clips: int, seconds: float) -> None:
    """Write a folder a speaker: tones of one of 32 stand-in voices, a pause after every few words, faint noise."""
    phrases = ("please", "turn the", "kitchen light", "off before", "you leave", "tonight")
    spoken = [[encode_speech(phrase, voice) for phrase in phrases] for voice in range(32)]
    for number in range(speakers):
        rng = np.random.default_rng(number)
        place = folder / f"{number:05d}"
        place.mkdir()
        for clip in range(clips):
            pieces: list[Any] = [np.zeros(RATE // 4, np.float32)]
            while sum(map(len, pieces)) < seconds * RATE:
                pieces += [spoken[number % 32][rng.integers(len(phrases))], np.zeros(int(RATE * 0.2), np.float32)]
            samples = np.concatenate(pieces)[: int(seconds * RATE)]
            samples = 0.5 * samples + 1e-3 * rng.standard_normal(len(samples)).astype(np.float32)
            soundfile.write(place / f"{number:05d}_{clip}.flac", samples, RATE, subtype="PCM_16")


def measure(name: str, work: Callable[[], Any]) -> Any:
    """Run `work` and print its time and memory, the workers' too."""
    peaks: dict[int, int] = {}
    over = threading.Event()

    def watch() -> None:
        own = psutil.Process()
        while not over.wait(0.2):
            for process in (own, *own.children(recursive=True)):
                try:
                    peaks[process.pid] = max(peaks.get(process.pid, 0), process.memory_info().rss)
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, before = time.perf_counter(), _measure_cpu()
    result = work()
    wall, cpu = time.perf_counter() - wall, _measure_cpu() - before
    over.set()
    watcher.join()
    here = peaks.pop(os.getpid(), 0) / 1e6
    workers = f", largest worker {max(peaks.values()) / 1e6:.0f} MB" if peaks else ""
    print(f"{name}: {wall:.1f} s, {cpu:.1f} CPU s, this process at most {here:.0f} MB{workers}", flush=True)
    return result


def _measure_cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure_pairs(count: int, params: dict[str, Any]) -> None:
    """Print what the table of pairs costs, in this process."""
    rng = np.random.default_rng(0)
    embeddings = rng.standard_normal((count, 256)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    voices = [Voice(f"{i:05d}", "en", embedding=row.tobytes()) for i, row in enumerate(embeddings)]
    before = _read_peak_mb()
    started = time.process_time()
    check_voices(voices, ChooseVoices(**params), ["en"])
    cpu = time.process_time() - started
    started = time.process_time()
    check_voices(voices, ChooseVoices(**params), ["en"])
    again = time.process_time() - started
    added = _read_peak_mb() - before
    print(f"pairs {json.dumps(params)}: {cpu:.2f} CPU s, again {again * 1e3:.1f} ms, {added:.0f} MB more", flush=True)


def _read_peak_mb() -> float:
    """Return the most memory that this process has had; `getrusage` tells that of the one it was forked from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3


def hold_snr(paths: Sequence[str]) -> None:
    """Print the estimated ratio of clips with white noise put in, relative to the power of their speech."""
    rng = np.random.default_rng(0)
    for path in paths:
        samples, rate = soundfile.read(path, dtype="float32")
        levels = measure_levels(samples, rate)
        speech = find_speech_frames(levels)
        power = float(np.mean(10 ** (levels[speech] / 10)))
        found = [f"clean {measure_quality(samples, rate).snr_db:.1f}"]
        for asked in (5, 10, 15, 20, 30, 40):
            noise = rng.standard_normal(len(samples)).astype(np.float32) * np.sqrt(power / 10 ** (asked / 10))
            found.append(f"{asked}: {measure_quality(samples + noise.astype(np.float32), rate).snr_db:.1f}")
        print(Path(path).name, "  ".join(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speakers", type=int, default=5000)
    parser.add_argument("--clips", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--verifier", default="fake_verifier", choices=("fake_verifier", "onnx_verifier"))
    parser.add_argument("--folder", help="Where the corpus and the bank are made; kept. Default: a temporary one.")
    parser.add_argument("--snr", nargs="+", metavar="CLIP")
    options = parser.parse_args()
    if options.snr:
        hold_snr(options.snr)
        return
    folder = Path(options.folder or tempfile.mkdtemp(prefix="voice-bank-"))
    try:
        run(folder, options)
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, options: argparse.Namespace) -> None:
    corpus, bank = folder / "corpus", folder / "bank"
    if not corpus.exists():
        corpus.mkdir(parents=True)
        measure("make corpus", lambda: make_corpus(corpus, options.speakers, options.clips, options.seconds))
    fields = {"source.path": str(corpus), "workers": options.workers, "verifier.engine": options.verifier}
    config = load_index_config((), {**fields, "index.min_consistency": 0.0})
    outcome = measure("index", lambda: index_voices(config, str(bank)))
    print("\n".join(outcome.summary))
    measure("index again, unchanged", lambda: index_voices(config, str(bank)))
    opened = open_voice_bank(str(bank))
    measure("open the bank", lambda: opened.voices)
    names = np.random.default_rng(1).choice([voice.id for voice in opened.voices], 200)
    measure("read 200 clips at random", lambda: [opened.read_reference(str(name)) for name in names])
    embeddings = stack_embeddings(opened.list_rows())
    measure("search pairs that sound alike", lambda: find_similar_pairs(embeddings, 0.999, 20))
    for params in (
        {"use": "rest"},
        {"use": "held_out"},
        {"use": "rest", "hold_out_by": "voice"},
        {"use": "rest", "avoid_similar": 0.2},
    ):
        context = multiprocessing.get_context("spawn")
        child = context.Process(target=measure_pairs, args=(options.speakers, params))
        child.start()
        child.join()


if __name__ == "__main__":
    main()
