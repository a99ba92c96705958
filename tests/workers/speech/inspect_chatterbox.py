"""Runs in Chatterbox's environment: prints as JSON what upstream's real classes do under the worker's hands.

`inspect_chatterbox.py WORKER_FOLDER WEIGHTS SCRATCH`, with weights that `tiny_chatterbox.py` saved.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(sys.argv[1]).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from bystander.workers.speech import chatterbox_model, program
from bystander.workers.speech.model import RequestFault
from bystander.workers.speech.protocol import SpeakRequest
from voice_banks import RATE, make_hum
from workers.speech import tiny_chatterbox

TEXT = "Turn the lights on."
SEEDS = (1, 2)


def main(weights: str, scratch: Path) -> dict[str, Any]:
    tiny_chatterbox.shrink()
    return {
        **describe_upstream(),
        "english": inspect_english(weights, scratch),
        "bfloat16": speak_once(open_model(weights, "english", "bfloat16")),
        "float16": speak_once(open_model(weights, "english", "float16")),
        "multilingual": inspect_multilingual(weights),
    }


def describe_upstream() -> dict[str, Any]:
    from chatterbox.mtl_tts import SUPPORTED_LANGUAGES, ChatterboxMultilingualTTS
    from chatterbox.tts import ChatterboxTTS

    def read_defaults(kind: Any) -> dict[str, Any]:
        parameters = inspect.signature(kind.generate).parameters.values()
        return {p.name: p.default for p in parameters if isinstance(p.default, float)}

    return {
        "languages": sorted(SUPPORTED_LANGUAGES),
        "english_defaults": read_defaults(ChatterboxTTS),
        "multilingual_defaults": read_defaults(ChatterboxMultilingualTTS),
    }


def inspect_english(weights: str, scratch: Path) -> dict[str, Any]:
    model = open_model(weights, "english", "float32")
    voice = model.prepare_voice(make_hum(120, 2.0), RATE)
    path = scratch / "kept.voice"
    model.save_voice(voice, path)
    fresh = hash_voice(voice)
    settings = model.read_settings({})

    def speak(seed: int, spoken_by: Any = voice, **changed: float) -> str:
        request = SpeakRequest(0, TEXT, "key", "en", seed)
        with contextlib.suppress(RequestFault):
            return hash_samples(model.speak(request, spoken_by, model.read_settings(changed) if changed else settings))
        return "fault"

    def speak_all(spoken_by: Any = voice, **changed: float) -> list[str]:
        return [speak(seed, spoken_by, **changed) for seed in SEEDS]

    found = {
        "spoken": speak_all(),
        "repeated": speak_all(),
        "reloaded": speak_all(model.load_voice(path)),
        "changed": [speak_all(exaggeration=3.0), speak_all(cfg_weight=5.0), speak_all(temperature=3.0)],
        "voice_is_as_fresh": hash_voice(voice) == fresh == hash_voice(model.load_voice(path)),
    }
    found["out_of_memory"] = run_out_of_memory(model, voice, spoken=found["spoken"][0])
    limits = model.read_settings({"spare_s": 0.1, "max_s_per_character": 0.001, "temperature": 0.5})
    with contextlib.suppress(RequestFault):
        model.speak(SpeakRequest(0, TEXT, "key", "en", 1), voice, limits)
    found["limited_tokens"] = model._max_tokens
    path.write_bytes(path.read_bytes()[:999])
    try:
        model.load_voice(path)
    except ValueError:
        found["damaged"] = "refused"
    return found


def run_out_of_memory(model: Any, voice: Any, spoken: str) -> list[str]:
    """Return what comes of a request whose first try, and then of one whose every try, finds no memory."""
    import torch

    request, settings = SpeakRequest(0, TEXT, "key", "en", SEEDS[0]), model.read_settings({})
    generate, tries = model._model.generate, []

    def fail_until(limit: int) -> Any:
        def fail(*arguments: Any, **named: Any) -> Any:
            tries.append(limit)
            if tries.count(limit) < limit:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return generate(*arguments, **named)

        return fail

    outcomes = []
    for limit in (2, 9):
        model._model.generate = fail_until(limit)
        try:
            samples = hash_samples(model.speak(request, voice, settings))
            outcomes.append("as ever" if samples == spoken else "other samples")
        except RequestFault as fault:
            outcomes.append("as ever" if spoken == "fault" and limit == 2 else fault.reason)
    model._model.generate = generate
    return [*outcomes, f"{len(tries)} tries"]


def inspect_multilingual(weights: str) -> dict[str, Any]:
    model = open_model(weights, "multilingual", "float32")
    voice = model.prepare_voice(make_hum(120, 2.0), RATE)
    settings = model.read_settings({})
    layers = model._model.t3.tfmr.layers

    def speak(text: str, language: str) -> str:
        return hash_samples(model.speak(SpeakRequest(0, text, "key", language, 1), voice, settings))

    spoken = [speak("你好", "zh-CN")]
    hooks = [sum(len(layer.self_attn._forward_hooks) for layer in layers)]
    spoken += [speak("你好", "zh"), speak("nihao", "en")]
    hooks += [sum(len(layer.self_attn._forward_hooks) for layer in layers)]
    read = model._model.tokenizer.encode
    tokens = {language: read("你好", language_id=language) for language in ("en", "zh")}
    return {"spoken": spoken, "hooks": hooks, "tokens": tokens, "sampling": dict(settings.sampling)}


def speak_once(model: Any) -> dict[str, Any]:
    voice = model.prepare_voice(make_hum(120, 2.0), RATE)
    for seed in range(5):
        with contextlib.suppress(RequestFault):
            samples = model.speak(
                SpeakRequest(0, TEXT, "key", "en", seed), voice, model.read_settings({"exaggeration": 0.6})
            )
            return {
                "dtype": str(next(model._model.t3.parameters()).dtype),
                "vocoder": str(model._model.s3gen.dtype),
                "finite": bool(np.isfinite(samples).all()),
                "seconds": len(samples) / 24000,
            }
    return {}


def open_model(weights: str, kind: str, dtype: str) -> Any:
    arguments = ["--model", kind, "--weights", weights, "--device", "cpu", "--dtype", dtype, "--threads", "1"]
    return chatterbox_model.load(program.read_arguments(arguments))


def hash_voice(voice: Any) -> str:
    digest = hashlib.sha256()
    for name, value in sorted({**vars(voice.t3), **voice.gen}.items()):
        data = value.numpy().tobytes() + str(value.dtype).encode() if hasattr(value, "numpy") else repr(value).encode()
        digest.update(name.encode() + data)
    return digest.hexdigest()


def hash_samples(samples: Any) -> str:
    return hashlib.sha256(samples.tobytes()).hexdigest()


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = main(sys.argv[2], Path(sys.argv[3]))
    sys.stdout.write(json.dumps(found))
