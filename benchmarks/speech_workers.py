"""Speech workers: seconds until the first can speak, what the protocol costs a clip, seconds a clip, memory.

    python benchmarks/speech_workers.py                                  # tones: the protocol alone
    python benchmarks/speech_workers.py --model english --python PYTHON [PYTHON_ARGUMENT ...] --weights FOLDER \
        --device cuda:0 --clips 20 --reference voice.wav

The cost of the protocol is what a clip of tones takes beyond the time that the worker says it took.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import soundfile

from bystander.schemas.engines import Samples, SpeechReply, SpeechRequest, Voice
from bystander.schemas.identity import digest_json
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.tasks.engines.chatterbox_speech import ChatterboxSpeechEngine
from bystander.tasks.engines.speech_worker_client import SpeechWorkerClient
from bystander.tasks.engines.speech_worker_process import StartedWorker
from bystander.workers.speech.protocol import Frame, SpeakRequest, make_voice_key

TEXT = "Could you remind me to call the dentist before nine tomorrow?"


class OneVoice:
    """A bank of one voice."""

    def __init__(self, path: str | None) -> None:
        t = np.arange(3 * 24000) / 24000
        hum = 0.2 * np.sin(2 * np.pi * 150 * t) * (1 + 0.3 * np.sin(2 * np.pi * 3 * t))
        self._samples, self._rate = soundfile.read(path, dtype="float32") if path else (hum.astype(np.float32), 24000)
        self.voices = (Voice("one", "en"),)
        self.digest = digest_json(make_voice_key(self._samples, self._rate))

    def read_reference(self, _voice: str) -> tuple[Samples, int]:
        return self._samples, self._rate


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tone")
    parser.add_argument("--python", nargs="+", default=())
    parser.add_argument("--weights")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--reference")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = ChatterboxSpeechConfig(
            bank="one",
            model=args.model,
            python=tuple(args.python),
            weights=args.weights,
            devices=(args.device,),
            dtype=args.dtype,
            threads=args.threads,
            cache_folder=folder,
            log_folder=folder,
            batch_size=8,
        )
        measure_worker(config, OneVoice(args.reference), args.clips)
        measure_engine(config, OneVoice(args.reference), args.clips)


def measure_worker(config: ChatterboxSpeechConfig, bank: OneVoice, clips: int) -> None:
    worker = StartedWorker(config, config.devices[0], "benchmark")
    began = time.perf_counter()
    client = worker.open()
    print(f"until it can speak       {time.perf_counter() - began:8.2f} s")
    print(f"memory with its model    {client.measure_memory_mib():8.0f} MiB")
    samples, rate = bank.read_reference("one")
    key = make_voice_key(samples, rate)
    began = time.perf_counter()
    client.prepare_voice(key, samples, rate)
    print(f"preparing a voice        {time.perf_counter() - began:8.3f} s")
    for size in (1, 8):
        measure_batches(client, config, key, size, clips)
    print(f"memory after that        {client.measure_memory_mib():8.0f} MiB")
    worker.close()


def measure_batches(
    client: SpeechWorkerClient, config: ChatterboxSpeechConfig, key: str, size: int, clips: int
) -> None:
    spoken: list[Frame] = []

    def keep(frame: Frame) -> None:
        if frame.samples is not None:
            spoken.append(frame)

    total_s, cpu_s = -time.perf_counter(), -time.process_time()
    for first in range(0, clips, size):
        requests = [SpeakRequest(i, TEXT, key, "en", first + i) for i in range(size)]
        client.speak(requests, config.sampling, keep)
    total_s, cpu_s = total_s + time.perf_counter(), cpu_s + time.process_time()
    worked_s = sum(float(frame.head["seconds"]) for frame in spoken)
    speech_s = sum(len(frame.samples) / 24000 for frame in spoken if frame.samples is not None)
    count = max(1, len(spoken))
    print(
        f"batches of {size}: {len(spoken)} clips of {speech_s / count:.2f} s, {worked_s / count:.4f} s of work each, "
        f"{1000 * (total_s - worked_s) / count:.2f} ms beyond; the client's CPU {1000 * cpu_s / count:.2f} ms"
    )


def measure_engine(config: ChatterboxSpeechConfig, bank: OneVoice, clips: int) -> None:
    began = time.perf_counter()
    engine = ChatterboxSpeechEngine(config, bank)
    print(f"opening the engine       {time.perf_counter() - began:8.2f} s (no model is loaded)")
    engine.synthesise([SpeechRequest(TEXT, "one", 0)])
    began = time.perf_counter()
    replies = engine.synthesise([SpeechRequest(TEXT, "one", seed) for seed in range(clips)])
    spoken = sum(isinstance(reply, SpeechReply) for reply in replies)
    print(f"through the engine       {(time.perf_counter() - began) / clips:8.4f} s a request, {spoken} spoken")
    engine.close()


if __name__ == "__main__":
    main()
