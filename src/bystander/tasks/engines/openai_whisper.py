"""Whisper through OpenAI's own package on torch, set up so that the same audio always gives the same text.

The language is the request's, no text is carried over from one window to the next, nothing is cut out beforehand.
Clips of up to 30 s, which is nearly all of them, are decoded in batches; the package's own transcription, which hears
one window after the other, is left to longer ones.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bystander.schemas.engines import EngineIdentity, RecognitionReply, RecognitionRequest, RowFault
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.model_manifest import load_manifest
from bystander.schemas.recogniser_configs import OpenAiWhisperConfig
from bystander.tasks.engines.hallucination_guards import SILENCE_DBFS, guard_reply
from bystander.tasks.engines.model_revision import ResolveModel, find_package_version, read_revision
from bystander.tasks.engines.recognition_input import WhisperClip, hear_in_batches, prepare_clip
from bystander.tasks.engines.whisper_settings import describe_rules

if TYPE_CHECKING:
    from bystander.tasks.engines.whisper_decoding import Decoding

_PACKAGE = "openai-whisper"
_VERSION = "20250625"
"""The version whose decoding `whisper_decoding` extends to batches; others do it in other ways."""


class OpenAiWhisperRecogniser:
    """Recognises speech with openai-whisper, one model a device; calls from several threads share them."""

    def __init__(self, config: OpenAiWhisperConfig, resolve_model: ResolveModel) -> None:
        """Find the model; it is opened, and fetched where it goes by one of the package's names, by the first call.

        Raises:
            EngineSetupError: openai-whisper is missing, or another version.
            ModelStoreError: there is no such file, or it is empty (from `resolve_model`).
        """
        version = find_package_version(_PACKAGE)
        if version != _VERSION:
            raise EngineSetupError(
                f"openai_whisper: {_PACKAGE} {version} is installed, but {_VERSION} is needed; run: "
                f"pip install {_PACKAGE}=={_VERSION}"
            )
        self._config = config
        self._path = resolve_model(config.model) if _is_file(config.model) else None
        self._pool = ThreadPoolExecutor(len(config.devices), thread_name_prefix="openai-whisper")
        self._lock = threading.Lock()
        self._models: list[Any] = []
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._identity = EngineIdentity(
            kind="recogniser",
            name="openai_whisper",
            model=config.model if self._path is None else self._path.name,
            # The package pins the checksums of the models that it names.
            revision=f"{_PACKAGE} {version}" if self._path is None else read_revision(config.model, self._path),
            settings=(
                ("beam_size", str(config.beam_size)),
                ("dtype", config.dtype),
                ("package", version),
                ("silence_dbfs", f"{SILENCE_DBFS:g}"),
                *describe_rules(config.fallback, config.guards),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Callable[[int, RecognitionReply], None] | None = None
    ) -> list[RecognitionReply | RowFault]:
        """Transcribe the requests. A text that is taken for made up is withheld: see `RecognitionReply`.

        Row faults: `empty_audio` (no samples), `non_finite_audio`, `unsupported_language`.

        Raises:
            EngineSetupError: the model cannot be fetched or opened.
            EngineError: the model failed.
        """
        if not requests:
            return []
        self._open()
        model = self._models[0]
        languages = _list_languages(model)
        prepared = (
            prepare_clip(request, self._identity.model, model.is_multilingual, languages) for request in requests
        )
        return hear_in_batches(prepared, self._hear, self._pool, self._config.batch_size, on_reply)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._models.clear()
        self._free = queue.SimpleQueue()

    def _open(self) -> None:
        with self._lock:
            if not self._models:
                models = [open_model(self._config, self._path, device) for device in self._config.devices]
                self._models = models
                for model in models:
                    self._free.put(model)

    @contextmanager
    def _take_model(self) -> Iterator[Any]:
        free = self._free
        model = free.get()
        try:
            yield model
        finally:
            free.put(model)

    def _hear(self, clips: Sequence[WhisperClip]) -> list[RecognitionReply]:
        from bystander.tasks.engines.whisper_decoding import Decoding

        decoding = Decoding(self._config.beam_size, self._config.dtype == "float16", self._config.fallback)
        with self._take_model() as model:
            if clips[0].fits_window:
                replies = _decode_what_fits(model, clips, decoding)
                return [
                    guard_reply(reply, clip.heard, self._config.guards)
                    for reply, clip in zip(replies, clips, strict=True)
                ]
            return [self._hear_long(model, clip, decoding) for clip in clips]

    def _hear_long(self, model: Any, clip: WhisperClip, decoding: Decoding) -> RecognitionReply:
        from bystander.tasks.engines.whisper_decoding import transcribe_long

        try:
            reply, repetition = transcribe_long(model, clip, decoding)
        except Exception as exc:  # torch raises RuntimeError, whisper whatever its code runs into
            raise EngineError(f"Whisper failed on a clip of {clip.heard.duration_s:.1f} s ({exc})") from exc
        return guard_reply(reply, clip.heard, self._config.guards, repetition)


def open_model(config: OpenAiWhisperConfig, path: Path | None, device: str) -> Any:
    """Return a `whisper.Whisper` on a device, ready to decode.

    Raises:
        EngineSetupError: a package is missing, the device is not there or cannot compute so, the name is unknown, the
            model cannot be fetched, or it is none.
    """
    try:
        import torch
        import whisper
    except ImportError as exc:
        raise EngineSetupError(
            f"openai_whisper: a package that it needs is missing ({exc}); run: pip install 'bystander[whisper]'"
        ) from exc
    try:
        kind = torch.device(device).type
    except RuntimeError as exc:
        raise EngineSetupError(f"openai_whisper: {device!r} is no device; name them as cuda:0, cuda:1 or cpu") from exc
    if kind == "cuda" and not torch.cuda.is_available():
        raise EngineSetupError(
            f"openai_whisper: torch {torch.__version__} finds no GPU for {device}; check the driver and that torch is "
            "a CUDA build, or set devices to [cpu] and dtype to float32"
        )
    if kind == "cpu" and config.dtype == "float16":
        raise EngineSetupError("openai_whisper: a CPU cannot compute in float16; set dtype to float32")
    if path is None and config.model not in whisper.available_models():
        names = ", ".join(whisper.available_models())
        raise EngineSetupError(
            f"openai_whisper: no model is called {config.model!r}; give the path of a .pt or one of: {names}"
        )
    folder = config.download_folder and str(Path(config.download_folder).expanduser())
    try:
        return whisper.load_model(str(path or config.model), device=device, download_root=folder).eval()
    except OSError as exc:  # urllib's errors too
        where = path or f"{config.model} in {folder or 'the cache of openai-whisper'}"
        raise EngineSetupError(
            f"openai_whisper: {where} can be neither read nor fetched ({exc}); fetch it on a machine with a connection "
            "and give its path as model"
        ) from exc
    except Exception as exc:  # torch.load raises what the bytes lead it to
        raise EngineSetupError(f"{path or config.model}: cannot be opened as an openai-whisper model ({exc})") from exc


def _decode_what_fits(model: Any, clips: Sequence[WhisperClip], decoding: Decoding) -> list[RecognitionReply]:
    """Decode a batch; in halves where the device has too little memory for it."""
    import torch

    from bystander.tasks.engines.whisper_decoding import decode_windows

    try:
        return decode_windows(model, clips, decoding)
    except torch.OutOfMemoryError as exc:
        if len(clips) == 1:
            raise EngineError(f"Whisper: {model.device} has too little memory for one clip ({exc})") from exc
    except Exception as exc:  # see _hear_long
        raise EngineError(f"Whisper failed on a batch of {len(clips)} clips ({exc})") from exc
    # Outside the handler: the exception holds the frames, and so the tensors, of the batch that was too large.
    torch.cuda.empty_cache()
    half = len(clips) // 2
    return _decode_what_fits(model, clips[:half], decoding) + _decode_what_fits(model, clips[half:], decoding)


def _list_languages(model: Any) -> frozenset[str]:
    from whisper.tokenizer import LANGUAGES

    return frozenset(itertools.islice(LANGUAGES, model.num_languages)) if model.is_multilingual else frozenset({"en"})


def _is_file(model: str) -> bool:
    """Whether a model is a file or one of the model store, and not one of the package's names."""
    named = model in load_manifest().models
    return named or model.endswith(".pt") or os.sep in model or Path(model).expanduser().is_file()
