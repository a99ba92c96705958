"""Measure `find_turns` on conversations whose turns are known: how many it finds, and how far off their edges are.

Usage: python benchmarks/turn_boundaries.py [--turns 40] [--seed 0] [--out turns.json]

Kokoro speaks long turns and short ones. In each conversation one speaker talks on channel 0 while the other puts in a
short turn on channel 1. Both lie in noise and may leak into each other's channel. The transcript has utterances without
word times, off by up to 0.2 s at either end. What is true is where the clean speech was placed, trimmed at 40 dB.
Measured with Silero VAD and with the channel's energy alone.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bystander.schemas.engines import Samples, SpeechReply, SpeechRequest
from bystander.schemas.sid import RECORDING
from bystander.schemas.sid_engine_configs import SileroVadConfig
from bystander.schemas.sid_params import FindTurns
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.schemas.stages import StageContext
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.channels import encode_channels
from bystander.tasks.audio.coding import quantise
from bystander.tasks.audio.levels import convert_from_db
from bystander.tasks.audio.loudness import measure_loudness
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import trim_speech
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.silero_activity import SileroActivityDetector
from bystander.tasks.stages.find_turns import STAGE

TALKS = (
    "The museum opens at nine and closes at five, and on Thursdays it stays open until eight in the evening.",
    "First you take the blue line to the harbour, then you change to the tram that goes along the river.",
    "There are three hotels near the station, and the cheapest of them still has two rooms for the weekend.",
    "Your next meeting is with the finance team, after that you have an hour free before the call with Berlin.",
)
SHORT = (
    "Mhm.",
    "Yeah, right.",
    "Okay.",
    "Wait, not that one.",
    "Uh huh. But what is it?",
    "No, stop.",
    "I see.",
)
VOICES = ("af_river", "am_eric", "bf_emma", "bm_lewis")
RATE = 16000
SPEECH_DBFS = -26.0
CASES = ((None, 60.0), (None, 30.0), (None, 15.0), (25.0, 30.0), (15.0, 30.0))
"""Leak below the voice in dB (None: no leak), and the voice above the noise in dB."""


def speak(engine: KokoroSpeechEngine, texts: tuple[str, ...]) -> list[Samples]:
    """Return the texts, each in each voice, trimmed and at one loudness, at `RATE` Hz."""
    requests = [SpeechRequest(text, voice, 1) for text in texts for voice in VOICES]
    clips = []
    for reply in engine.synthesise(requests):
        assert isinstance(reply, SpeechReply)
        speech = resample(reply.samples, reply.sampling_rate, RATE)
        speech = trim_speech(speech, RATE, 40.0, 0.0).samples
        clips.append(speech * np.float32(convert_from_db(SPEECH_DBFS - measure_loudness(speech, RATE, "rms"))))
    return clips


def build_recording(
    number: int, talk: Samples, short: Samples, leak_db: float | None, snr_db: float, seed: int
) -> tuple[dict[str, Any], tuple[float, float]]:
    """Return a `RECORDING` row, and when its short turn begins and ends."""
    rng = np.random.default_rng([seed, number])
    talk_s = float(rng.uniform(0.8, 1.2))
    turn_s = talk_s + float(rng.uniform(0.8, max(0.9, len(talk) / RATE - 1.0)))
    length = round((max(talk_s + len(talk) / RATE, turn_s + len(short) / RATE) + 1) * RATE)
    tracks = np.zeros((length, 2), np.float32)
    spans = []
    for channel, (speech, start_s) in enumerate(((talk, talk_s), (short, turn_s))):
        first = round(start_s * RATE)
        tracks[first : first + len(speech), channel] = speech
        spans.append((first / RATE, (first + len(speech)) / RATE))
    if leak_db is not None:
        tracks = tracks + tracks[:, ::-1] * np.float32(convert_from_db(-leak_db))
    noise = convert_from_db(SPEECH_DBFS - snr_db) * rng.standard_normal(tracks.shape)
    off = rng.uniform(-0.2, 0.2, (2, 2))
    row = {
        "recording_id": f"rec-{number}",
        "source": "benchmark",
        "licence": None,
        "language": "en",
        "speakers": ["a", "b"],
        "audio": {"bytes": encode_channels(quantise(tracks + noise.astype(np.float32)), RATE), "path": "r.flac"},
        "sampling_rate": RATE,
        "duration_s": length / RATE,
        "utterances": [
            {"channel": c, "start_s": a + off[c, 0], "end_s": b + off[c, 1], "text": "x", "words": []}
            for c, (a, b) in enumerate(spans)
        ],
        "transcript_source": "script",
        "synthetic": True,
        "truths": [],
    }
    return row, spans[1]


def measure(rows: list[dict[str, Any]], truth: list[tuple[float, float]], engines: dict[str, Any]) -> dict[str, Any]:
    """Return turns found, turns that are none, and how late edges are, in ms."""
    context = StageContext(0, FindTurns(), taxonomy=None, pack=None, engines=engines)  # type: ignore[arg-type]
    began = time.process_time()
    output = STAGE(pa.Table.from_pylist(rows, RECORDING), context)
    cpu_s = time.process_time() - began
    found = {row["recording_id"]: row["turns"] for row in output.kept.to_pylist()}
    starts, ends, others = [], [], 0
    for row, (start_s, end_s) in zip(rows, truth, strict=True):
        turns = found.get(row["recording_id"], [])
        own = [t for t in turns if t["channel"] == 1 and t["speech"][0]["start_s"] < end_s]
        others += len(turns) - len(own[:1])
        if own:
            starts.append(1000 * (own[0]["speech"][0]["start_s"] - start_s))
            ends.append(1000 * (own[0]["speech"][-1]["end_s"] - end_s))
    return {
        "found": len(starts),
        "of": len(rows),
        "others": others,
        "start_ms_p10_p50_p90": np.percentile(starts, [10, 50, 90]).round().tolist() if starts else None,
        "end_ms_p10_p50_p90": np.percentile(ends, [10, 50, 90]).round().tolist() if ends else None,
        "cpu_s_per_channel_hour": round(cpu_s / sum(2 * row["duration_s"] for row in rows) * 3600, 1),
    }


def main() -> None:
    """Print one line a case and detector."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    kokoro = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
    talks, shorts = speak(kokoro, TALKS), speak(kokoro, SHORT)
    kokoro.close()
    vad = SileroActivityDetector(SileroVadConfig())
    results = []
    for leak_db, snr_db in CASES:
        made = [
            build_recording(k, talks[k % len(talks)], shorts[k % len(shorts)], leak_db, snr_db, arguments.seed)
            for k in range(arguments.turns)
        ]
        for name, engines in (("silero", {"vad": vad}), ("energy", {})):
            figures = measure([row for row, _ in made], [span for _, span in made], engines)
            results.append({"leak_db": leak_db, "snr_db": snr_db, "vad": name, **figures})
            print(json.dumps(results[-1]))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
