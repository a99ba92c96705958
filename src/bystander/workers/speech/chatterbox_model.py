"""Chatterbox as a worker serves it: one instance, one device, one request at a time.

What upstream (chatterbox-tts 0.1.7) leaves open is closed here:

- Its state is the last reference. Prepared voices are kept apart from it, and each call gets a copy, since upstream
  writes into them.
- `generate` takes no seed: the generators are seeded before each call.
- It goes on for 40 s when it does not find its end. The limit here grows with the text, and a clip that reaches it is a
  fault: nothing of it would be of use, and the vocoder is spared.
- Half precision is for the language model (T3) alone: S3Gen converts token ids to its own type, where ids above 256
  (bfloat16) or 2048 (float16) are no longer whole.
- The multilingual model leaves three hooks, with all attention that they saw, behind at every call.
- `cfg_weight=0` crashes.
"""

from __future__ import annotations

import argparse
import gc
import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .chatterbox_weights import CANGJIE, LANGUAGES, describe, find_weights
from .model import ModelFault, RequestFault, check_text, find_language, read_numbers
from .protocol import Hello, Samples, SpeakRequest

TOKENS_PER_S = 25
MAX_TOKENS = 1000
"""Upstream's own limit: 40 s."""
_MIN_REFERENCE_S = 0.5
_BROKEN_DEVICE = 70  # exit status
_DEFAULTS = {
    "exaggeration": 0.5,
    "cfg_weight": 0.5,
    "temperature": 0.8,
    "repetition_penalty": 1.2,
    "min_p": 0.05,
    "top_p": 1.0,
    "max_characters": 600.0,
    "max_s": 40.0,
    "spare_s": 4.0,
    "max_s_per_character": 0.5,
}
"""Upstream's for the English model. The multilingual model's repetition penalty is 2."""
_RANGES = {
    "exaggeration": (0.0, 4.0),
    "cfg_weight": (1e-6, 10.0),
    "temperature": (1e-3, 10.0),
    "repetition_penalty": (1e-3, 100.0),
    "min_p": (0.0, 1.0),
    "top_p": (1e-6, 1.0),
    "max_characters": (1.0, 2000.0),  # the text's positions in T3 end at 2048
    "max_s": (1.0, MAX_TOKENS / TOKENS_PER_S),
    "spare_s": (0.1, 40.0),
    "max_s_per_character": (0.0, 40.0),
}
_SAMPLING = ("exaggeration", "cfg_weight", "temperature", "repetition_penalty", "min_p", "top_p")


@dataclass(frozen=True, slots=True)
class ChatterboxSettings:
    """Settings of a batch: what upstream's `generate` takes, and the limits of texts and clips."""

    sampling: Mapping[str, float]
    max_characters: int
    max_s: float
    spare_s: float
    max_s_per_character: float

    def count_tokens(self, text: str) -> int:
        """Return how many speech tokens a text may take."""
        seconds = min(self.max_s, self.spare_s + self.max_s_per_character * len(text))
        return min(MAX_TOKENS, max(1, math.ceil(seconds * TOKENS_PER_S)))


def load(args: argparse.Namespace) -> ChatterboxModel:
    """Load the model that the arguments ask for.

    Raises:
        ModelFault: a package, file or device is missing.
    """
    # Before CUDA starts: sums in the same order each time.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    hello, folder = describe(args), find_weights(args)
    try:
        import perth
        import torch
        from chatterbox.mtl_tts import ChatterboxMultilingualTTS
        from chatterbox.tts import ChatterboxTTS
    except ImportError as exc:
        raise ModelFault(f"a package of Chatterbox's environment is missing ({exc}); see envs/chatterbox") from exc
    if perth.PerthImplicitWatermarker is None:
        # perth hides the ImportError of its own watermarker, and the model would fail on calling None.
        raise ModelFault("the watermarker cannot be imported: install setuptools<81, which still has pkg_resources")
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelFault(f"there is no device {args.device}: torch sees {torch.cuda.device_count()} CUDA devices")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    if args.model == "multilingual":
        prepare_mandarin(folder)
        opened = ChatterboxMultilingualTTS.from_local(folder, args.device)
        if not opened.tokenizer.cangjie_converter.word2cj:
            raise ModelFault(f"{folder / CANGJIE} is no table of Cangjie codes")
    else:
        opened = ChatterboxTTS.from_local(folder, args.device)
    return ChatterboxModel(opened, hello)


def prepare_mandarin(folder: Path) -> None:
    """Have upstream's tokenizer find what it needs for Chinese.

    It takes its table of characters from the hub alone, and where that fails logs a line and reads Chinese as if it
    were no language; and it downloads the model of its segmenter while it is made.

    Raises:
        ModelFault: the segmenter's model cannot be had.
    """
    import spacy_pkuseg
    from chatterbox.models.tokenizers import tokenizer

    tokenizer.hf_hub_download = lambda **_: str(folder / CANGJIE)
    try:
        spacy_pkuseg.pkuseg()
    except Exception as exc:  # requests', urllib's and zipfile's kinds
        raise ModelFault(
            f"the segmenter of Chinese has no model ({exc}); unpack spacy_ontonotes.zip of the spacy-pkuseg releases, "
            "beside the archive, into the folder PKUSEG_HOME"
        ) from exc


class ChatterboxModel:
    """A loaded `ChatterboxTTS` or `ChatterboxMultilingualTTS`."""

    def __init__(self, model: Any, hello: Hello) -> None:
        """Take over a loaded model; `hello.facts["dtype"]` is what its T3 is converted to."""
        import torch
        from chatterbox.models.t3.modules.cond_enc import T3Cond

        self._torch = torch
        self._make_cond = T3Cond
        self._hello = hello
        self._multilingual = hello.model == "multilingual"
        self._model = model
        self._device = torch.device(model.device)
        self._dtype = getattr(torch, hello.facts["dtype"])
        self._max_tokens = MAX_TOKENS
        model.t3.to(dtype=self._dtype)
        self._infer = model.t3.inference
        model.t3.inference = self._infer_within_limits

    def describe(self) -> Hello:
        return self._hello

    def read_settings(self, raw: Mapping[str, Any]) -> ChatterboxSettings:
        defaults = {**_DEFAULTS, "repetition_penalty": 2.0} if self._multilingual else _DEFAULTS
        values = read_numbers(raw, defaults)
        for name, (low, high) in _RANGES.items():
            if not low <= values[name] <= high:
                raise ValueError(f"setting {name!r} is {values[name]:g}, not from {low:g} to {high:g}")
        return ChatterboxSettings(
            {name: values[name] for name in _SAMPLING},
            int(values["max_characters"]),
            values["max_s"],
            values["spare_s"],
            values["max_s_per_character"],
        )

    def prepare_voice(self, samples: Samples, sampling_rate: int) -> Any:
        """Return upstream's `Conditionals`. They do not depend on settings: exaggeration is set when speaking."""
        import soundfile  # one of chatterbox's own requirements, through librosa

        if len(samples) < _MIN_REFERENCE_S * sampling_rate:
            raise RequestFault("unusable_reference", f"{len(samples) / sampling_rate:.2f} s of speech are too short")
        clip = io.BytesIO()
        soundfile.write(clip, samples, sampling_rate, format="WAV", subtype="FLOAT")
        clip.seek(0)
        self._seed(0)
        with self._torch.inference_mode():
            self._model.prepare_conditionals(clip)
        voice, self._model.conds = self._model.conds, None
        return voice

    def save_voice(self, voice: Any, path: Path) -> None:
        try:
            voice.save(path)
        except RuntimeError as exc:  # torch's for what the system calls an OSError
            raise OSError(str(exc)) from exc

    def load_voice(self, path: Path) -> Any:
        try:
            return self._conditionals_type.load(path, map_location=self._device)
        except Exception as exc:  # torch and pickle raise many kinds for a damaged file
            raise ValueError(f"{path}: no prepared voice ({exc})") from exc

    def speak(self, request: SpeakRequest, voice: Any, settings: ChatterboxSettings) -> Samples:
        check_text(request.text, settings.max_characters)
        language = find_language(request.language, LANGUAGES[self._hello.model])
        self._max_tokens = settings.count_tokens(request.text)
        languages = {"language_id": language} if self._multilingual else {}
        for attempt in (1, 2):
            try:
                return self._generate(request, voice, {**settings.sampling, **languages})
            except self._torch.OutOfMemoryError as exc:
                detail = str(exc).splitlines()[0][:200]
            except RequestFault:
                raise
            except Exception:
                self._end_if_device_is_broken()
                raise
            self._free_memory()
            if attempt == 2:
                raise RequestFault("out_of_memory", detail)
        raise AssertionError("the loop returns or raises")

    def measure_device_memory(self) -> float:
        if self._device.type != "cuda":
            return 0.0
        return float(self._torch.cuda.memory_allocated(self._device)) / (1 << 20)

    @property
    def _conditionals_type(self) -> Any:
        from chatterbox import mtl_tts, tts

        return mtl_tts.Conditionals if self._multilingual else tts.Conditionals

    def _generate(self, request: SpeakRequest, voice: Any, arguments: Mapping[str, Any]) -> Samples:
        torch = self._torch
        emotion = arguments["exaggeration"] * torch.ones(1, 1, 1, device=self._device)
        cond = self._make_cond(**{**vars(voice.t3), "emotion_adv": emotion})
        self._model.conds = self._conditionals_type(cond, dict(voice.gen))
        self._seed(request.seed)
        try:
            # A tensor of shape (1, n), float32, on the CPU.
            samples: Samples = self._model.generate(request.text, **arguments)[0].numpy()
        finally:
            self._model.conds = None
            if self._multilingual:
                self._drop_hooks()
        return samples

    def _seed(self, seed: int) -> None:
        """Seed all generators; and have this thread, which may be a new one, call its own device the default."""
        if self._device.type == "cuda":
            self._torch.cuda.set_device(self._device.index or 0)
        self._torch.manual_seed(seed)

    def _drop_hooks(self) -> None:
        """Remove the hooks of the alignment analyser of the call that ended; upstream keeps no handle to them."""
        from chatterbox.models.t3.inference import alignment_stream_analyzer

        for layer in self._model.t3.tfmr.layers:
            hooks = layer.self_attn._forward_hooks
            for key in [key for key, hook in hooks.items() if hook.__module__ == alignment_stream_analyzer.__name__]:
                del hooks[key]

    def _infer_within_limits(self, *, t3_cond: Any, max_new_tokens: int, **others: Any) -> Any:
        """Stand in for `T3.inference`: with the type of its weights, and within the limit."""
        cond = self._make_cond(**vars(t3_cond)).to(device=self._device, dtype=self._dtype)
        limit = min(max_new_tokens, self._max_tokens)
        tokens = self._infer(t3_cond=cond, max_new_tokens=limit, **others)
        ended = int(tokens[0, -1]) == self._model.t3.hp.stop_speech_token
        if not ended and tokens.shape[1] >= limit:
            raise RequestFault("runaway_speech", f"no end after {limit / TOKENS_PER_S:.1f} s")
        if ended and tokens.shape[1] == 1:
            raise RequestFault("no_speech", "the model ended before it began")
        return tokens

    def _free_memory(self) -> None:
        gc.collect()
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()

    def _end_if_device_is_broken(self) -> None:
        """End the process where its CUDA context is lost, since every later call would fail; it is started again."""
        if self._device.type != "cuda":
            return
        try:
            self._torch.ones(1, device=self._device).item()
        except RuntimeError:
            os._exit(_BROKEN_DEVICE)
