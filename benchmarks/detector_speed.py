"""What each detector of interruptions does on clips whose break is known, and what it costs to compute.

Usage: python benchmarks/detector_speed.py [--detectors LIST] [--voices af_heart,am_onyx] [--seed 0] [--out rows.json]

Clips at 16 kHz, half a second of silence around each: a clause at once (`beginning`), a backchannel, a pause of .3 to
1 s and a clause (`middle`), a backchannel alone (`uninterrupted`), digital silence and faint hiss (`silence`), and
rain, keyboard and fan noise at -45 to -25 dBFS (`noise`). The break is where the clause begins: its first sample within
40 dB of its loudest frame. Speech is synthesised once, in about half its duration of CPU time. Printed: of each
detector and class how often it stopped, how often before the break, and the median and 90th percentile of the latency
after it; then CPU seconds a second of audio heard, on one thread, the model already open.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bystander.schemas.detector_configs import parse_detectors
from bystander.schemas.engines import Samples, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineSetupError, ModelStoreError
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.noise_generators import GENERATORS, generate_noise
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import trim_speech
from bystander.tasks.engines.detector_registry import computes_elsewhere, open_detector
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.metered_detector import MeteredDetector
from bystander.tasks.stages.detect_breaks import find_stop

RATE = 16000
TRIM_DB = 40.0
MARGIN_S = 0.5
DETECTORS = (
    "energy_vad,webrtc_vad,silero_vad,ten_vad,fsmn_vad,smart_turn,k3:energy_vad,k3:webrtc_vad,k3:silero_vad,k3:ten_vad"
)
BACKCHANNELS = ("Mm hmm.", "Yeah.", "Right.", "Okay.", "Uh huh.", "I see.")
CLAUSES = (
    "Wait, can you book the earlier train instead?",
    "Actually, make that a table for six people.",
    "Stop, that is not the address I gave you.",
    "What about the museum across the river?",
    "No, send it to my sister first.",
    "Hold on, how much does that cost?",
)


@dataclass(frozen=True)
class Clip:
    """A clip, and when its break is: None where there is none."""

    kind: str
    samples: Samples
    break_s: float | None


def speak(voices: list[str]) -> list[tuple[Samples, Samples]]:
    """Return a backchannel and a clause, trimmed to their speech, for each voice and line."""
    lines = [(voice, text) for voice in voices for pair in zip(BACKCHANNELS, CLAUSES, strict=True) for text in pair]
    engine = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
    replies = engine.synthesise([SpeechRequest(text, voice, seed) for seed, (voice, text) in enumerate(lines)])
    engine.close()
    clips = [
        trim_speech(resample(reply.samples, reply.sampling_rate, RATE), RATE, TRIM_DB, 0.0).samples
        for reply in replies
        if isinstance(reply, SpeechReply)
    ]
    return list(zip(clips[::2], clips[1::2], strict=True))


def compose(spoken: list[tuple[Samples, Samples]], rng: np.random.Generator) -> list[Clip]:
    """Return the clips of all classes."""

    def silence(seconds: float) -> Samples:
        return np.zeros(round(seconds * RATE), np.float32)

    clips = []
    for backchannel, clause in spoken:
        gap_s = float(rng.uniform(0.3, 1.0))
        lead = [silence(MARGIN_S), backchannel, silence(gap_s)]
        for kind, before, after in (
            ("beginning", [silence(MARGIN_S)], [clause, silence(MARGIN_S)]),
            ("middle", lead, [clause, silence(MARGIN_S)]),
        ):
            break_s = sum(map(len, before)) / RATE
            clips.append(Clip(kind, np.concatenate([*before, *after]), break_s))
        clips.append(Clip("uninterrupted", np.concatenate([*lead[:2], silence(MARGIN_S)]), None))
    clips.append(Clip("silence", silence(10), None))
    for level in (-80, -70, -60):
        hiss = rng.normal(0, 10 ** (level / 20), 10 * RATE).astype(np.float32)
        clips.append(Clip("silence", hiss, None))
    clips += [
        Clip(f"noise: {kind}", generate_noise(kind, 10, RATE, level, rng), None)
        for kind in GENERATORS
        for level in (-45.0, -35.0, -25.0)
    ]
    return clips


def describe(clips: list[Clip], stops: list[float | None]) -> dict[str, dict[str, float | int | None]]:
    """Return the counts and latencies of each class of clips."""
    found: dict[str, dict[str, float | int | None]] = {}
    for kind in dict.fromkeys(clip.kind for clip in clips):
        pairs = [(clip.break_s, stop) for clip, stop in zip(clips, stops, strict=True) if clip.kind == kind]
        late = [stop - start for start, stop in pairs if start is not None and stop is not None and stop >= start]
        found[kind] = {
            "clips": len(pairs),
            "stopped": sum(stop is not None for _, stop in pairs),
            "early": sum(stop is not None and start is not None and stop < start for start, stop in pairs),
            "latency_p50_s": float(np.median(late)) if late else None,
            "latency_p90_s": float(np.percentile(late, 90)) if late else None,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--detectors", default=DETECTORS)
    parser.add_argument("--voices", default="af_heart,am_onyx")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    clips = compose(speak(args.voices.split(",")), np.random.Generator(np.random.PCG64(args.seed)))
    rows = []
    for name, config in parse_detectors(args.detectors).items():
        try:
            detector = open_detector(config, ModelStore().resolve)
        except (EngineSetupError, ModelStoreError) as exc:
            print(f"{name}: left out: {exc}")
            continue
        find_stop(clips[0].samples, RATE, detector)  # opens the model
        metered = MeteredDetector(detector, time.perf_counter if computes_elsewhere(config) else time.thread_time)
        stops = [find_stop(clip.samples, RATE, metered) for clip in clips]
        totals = metered.totals
        rows.append({"detector": name, "classes": describe(clips, stops), "totals": asdict(totals)})
        print(f"\n{name}: real-time factor {totals.real_time_factor:.4f}, {totals.heard_s:.0f} s heard")
        for kind, values in rows[-1]["classes"].items():
            latency = "".join(
                f"  {key} {value:.3f}"
                for key, value in values.items()
                if key.startswith("latency") and value is not None
            )
            print(f"  {kind:16} {values['stopped']:3}/{values['clips']:<3} stopped, {values['early']} early{latency}")
        detector.close()
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=1), "utf-8")


if __name__ == "__main__":
    main()
