"""Whisper through faster-whisper and CTranslate2, set up so that the same audio always gives the same text.

Temperature 0 alone (no fallback to sampling), no timestamps, no text carried over from one window to the next, no
voice activity detection: what is asked is what is heard. Each clip is decoded by one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.engines import EngineIdentity, RecognitionReply, RecognitionRequest, RowFault
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.recogniser_configs import FasterWhisperConfig
from bystander.tasks.engines.engine_audio import convert_rate, measure_peak_level
from bystander.tasks.engines.model_revision import ResolveModel, read_revision

SAMPLING_RATE = 16000
SILENCE_DBFS = -55.0
"""Audio whose loudest 50 ms lie below this has no text: Whisper would make one up ("Thank you for watching.")."""


class FasterWhisperRecogniser:
    """Recognises speech with a CTranslate2 Whisper model; `workers` clips at once, one thread each."""

    def __init__(self, config: FasterWhisperConfig, resolve_model: ResolveModel) -> None:
        """Find the model; it is opened by the first call.

        Raises:
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        self._config = config
        self._path = resolve_model(config.model)
        self._pool = ThreadPoolExecutor(config.workers, thread_name_prefix="whisper")
        self._lock = threading.Lock()
        self._model: Any = None
        self._identity = EngineIdentity(
            kind="recogniser",
            name="faster_whisper",
            model=config.model,
            revision=read_revision(config.model, self._path),
            settings=(
                ("beam_size", str(config.beam_size)),
                ("compute_type", config.compute_type),
                ("silence_dbfs", f"{SILENCE_DBFS:g}"),
                ("temperature", "0"),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Callable[[int, RecognitionReply], None] | None = None
    ) -> list[RecognitionReply | RowFault]:
        """Transcribe the requests.

        Row faults: `empty_audio` (no samples), `non_finite_audio`, `unsupported_language`.

        Raises:
            EngineSetupError: faster-whisper is missing or the model cannot be opened.
            EngineError: the model failed.
        """
        self._open()

        def listen(item: tuple[int, RecognitionRequest]) -> RecognitionReply | RowFault:
            index, request = item
            reply = self._listen(request)
            if on_reply is not None and isinstance(reply, RecognitionReply):
                on_reply(index, reply)
            return reply

        return list(self._pool.map(listen, enumerate(requests)))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._model = None

    def _open(self) -> None:
        with self._lock:
            if self._model is not None:
                return
            self._model = open_whisper(self._path, self._config.compute_type, self._config.workers)

    def _listen(self, request: RecognitionRequest) -> RecognitionReply | RowFault:
        if len(request.samples) == 0:
            return RowFault("empty_audio", "the clip has no samples")
        if not np.isfinite(request.samples).all():
            return RowFault("non_finite_audio", "the clip has samples that are no numbers")
        language = request.language.split("-")[0]
        if language != "en" and not self._model.model.is_multilingual:
            return RowFault(
                "unsupported_language",
                f"{self._config.model} hears en only, not {language}; set the recogniser's model to a multilingual one "
                "such as whisper-base-ct2",
            )
        if language not in self._model.supported_languages:
            return RowFault("unsupported_language", f"{self._config.model} does not know the language {language!r}")
        if measure_peak_level(request.samples, request.sampling_rate) < SILENCE_DBFS:
            return RecognitionReply("")
        audio = convert_rate(request.samples, request.sampling_rate, SAMPLING_RATE)
        try:
            found, _ = self._model.transcribe(
                audio,
                language=language,
                beam_size=self._config.beam_size,
                temperature=0.0,
                condition_on_previous_text=False,
                without_timestamps=True,
                vad_filter=False,
            )
            segments = list(found)
        except Exception as exc:  # see _open
            raise EngineError(f"Whisper failed on a clip of {len(audio) / SAMPLING_RATE:.1f} s ({exc})") from exc
        if not segments:
            return RecognitionReply("", no_speech_prob=1.0)
        return RecognitionReply(
            text="".join(segment.text for segment in segments).strip(),
            mean_logprob=float(np.mean([segment.avg_logprob for segment in segments])),
            no_speech_prob=float(max(segment.no_speech_prob for segment in segments)),
        )


def open_whisper(path: Path, compute_type: str, workers: int) -> Any:
    """Return a `faster_whisper.WhisperModel` on the CPU that decodes `workers` clips at once, one thread each.

    Raises:
        EngineSetupError: faster-whisper is missing or the model cannot be opened.
    """
    try:
        from faster_whisper import WhisperModel
    except ImportError as exc:
        raise EngineSetupError("the package faster-whisper is missing; run: pip install faster-whisper") from exc
    try:
        return WhisperModel(
            str(path),
            device="cpu",
            compute_type=compute_type,
            cpu_threads=1,
            num_workers=workers,
            local_files_only=True,
        )
    except Exception as exc:  # CTranslate2 raises RuntimeError or ValueError, tokenizers a bare Exception
        raise EngineSetupError(f"{path}: cannot be opened as a Whisper model ({exc})") from exc
