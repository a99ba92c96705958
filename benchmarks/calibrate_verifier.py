"""Calibrate the speaker verifier on the embedded voices: which similarity proves one speaker, which two?

Usage: python benchmarks/calibrate_verifier.py [--utterances 3] [--seed 0] [--out calibration.json]

Each voice speaks a few short requests and remarks; another voice begins at another line, so that voices and texts are
not confounded. Clips are trimmed as the pipeline trims them. Every two clips are compared whole, which is what
`verify_speakers` does, and as short pieces, the start of one against the end of the other, which is what
`verify_mixture` has left of a mixture beside the overlap. Printed: both distributions, the equal error rate and its
threshold, and the pairs of voices that the verifier cannot tell apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import EmbeddingRequest, SpeechReply, SpeechRequest
from bystander.schemas.recogniser_configs import OnnxVerifierConfig
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.onnx_verifier import MIN_DURATION_S, OnnxSpeakerVerifier

LINES = (
    "Can you find me a quiet place for dinner near the station?",
    "Wait, we still have a whole box of those in the kitchen.",
    "Set an alarm for half past six and play the news after it.",
    "My sister tried that last year and it never worked.",
    "What is the fastest way to get to the airport from here?",
    "Ask it whether the museum is open on Mondays too.",
)
TRIM_DB = 40.0
RATE = 24000


def compare_clips(
    vectors: dict[str, list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]],
) -> tuple[npt.NDArray[np.float64], dict[tuple[str, str], npt.NDArray[np.float64]]]:
    """Return similarities of clips of one voice, and of each pair of voices.

    A clip is its vectors as the first and as the second speaker.
    """
    same = [float(a[0] @ b[1]) for clips in vectors.values() for a, b in itertools.permutations(clips, 2) if a is not b]
    different = {
        (one, two): np.array(
            [float(a[0] @ b[1]) for a in vectors[one] for b in vectors[two]]
            + [float(b[0] @ a[1]) for a in vectors[one] for b in vectors[two]]
        )
        for one, two in itertools.combinations(sorted(vectors), 2)
    }
    return np.array(same), different


def describe_distributions(
    same: npt.NDArray[np.float64], different: dict[tuple[str, str], npt.NDArray[np.float64]]
) -> dict[str, Any]:
    """Return percentiles, the equal error rate and its threshold."""
    apart = np.concatenate(list(different.values()))
    marks = (0, 1, 2, 5, 50, 95, 98, 99, 100)
    thresholds = np.linspace(0, 1, 2001)
    missed = np.array([(same < t).mean() for t in thresholds])
    taken = np.array([(apart >= t).mean() for t in thresholds])
    best = int(np.argmin(np.abs(missed - taken)))
    return {
        "same": {f"p{m}": round(float(np.percentile(same, m)), 3) for m in marks},
        "different": {f"p{m}": round(float(np.percentile(apart, m)), 3) for m in marks},
        "counts": [len(same), len(apart)],
        "eer_percent": round(50 * float(missed[best] + taken[best]), 2),
        "eer_threshold": round(float(thresholds[best]), 3),
    }


def speak_lines(utterances: int, seed: int) -> list[tuple[str, npt.NDArray[np.float32]]]:
    """Return trimmed clips at 24 kHz with their voices."""
    speech = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
    requests = [
        SpeechRequest(LINES[(v + n) % len(LINES)], voice.id, seed * 1000 + v * 10 + n)
        for v, voice in enumerate(speech.voices)
        for n in range(utterances)
    ]
    clips = []
    for request, reply in zip(requests, speech.synthesise(requests), strict=True):
        assert isinstance(reply, SpeechReply)
        clips.append((request.voice, librosa.effects.trim(reply.samples, top_db=TRIM_DB)[0]))
    speech.close()
    return clips


def main() -> None:
    """Synthesise, embed, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--utterances", type=int, default=3, choices=range(2, len(LINES) + 1))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--pieces", type=float, nargs="*", default=[MIN_DURATION_S, 1.6, 2.0], help="lengths in seconds"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if any(length_s < MIN_DURATION_S for length_s in options.pieces):
        parser.error(f"--pieces: the verifier measures nothing below {MIN_DURATION_S:g} s")

    verifier = OnnxSpeakerVerifier(OnnxVerifierConfig(), ModelStore().resolve)
    clips = speak_lines(options.utterances, options.seed)
    results: dict[str, Any] = {"verifier": verifier.identity.describe()}
    avoid: list[tuple[str, str]] = []
    for length_s in (None, *options.pieces):
        vectors: dict[str, list[Any]] = {}
        for voice, samples in clips:
            size = len(samples) if length_s is None else int(length_s * RATE) + 1
            pieces = (samples[:size], samples[-size:])
            vectors.setdefault(voice, []).append(verifier.embed([EmbeddingRequest(piece, RATE) for piece in pieces]))
        same, different = compare_clips(vectors)
        if length_s is None:
            limit = describe_distributions(same, different)["eer_threshold"]
            avoid = [pair for pair, values in different.items() if values.max() >= limit - 0.04]
        kept = {pair: values for pair, values in different.items() if pair not in avoid}
        found = {"all": describe_distributions(same, different), "without_avoided": describe_distributions(same, kept)}
        results["whole" if length_s is None else f"{length_s:g} s"] = found
        for which, numbers in found.items():
            print("whole" if length_s is None else f"{length_s:g} s", which, json.dumps(numbers))
    results["avoid_pairs"] = avoid
    print("avoid_pairs", json.dumps(avoid), f"{len(avoid)} of {len(different)}")
    if options.out:
        options.out.write_text(json.dumps(results, indent=1), "utf-8")


if __name__ == "__main__":
    main()
