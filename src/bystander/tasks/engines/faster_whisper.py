"""Whisper through faster-whisper and CTranslate2, set up so that the same audio always gives the same text.

No timestamps, no text carried over from one window to the next, no voice activity detection: what is asked is what is
heard. By default it decodes at temperature 0 alone, one clip a thread, which is best on a CPU; in batches, on GPUs.
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
from bystander.tasks.engines.hallucination_guards import SILENCE_DBFS, guard_reply
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.recognition_input import WhisperClip, hear_in_batches, prepare_clip
from bystander.tasks.engines.whisper_settings import describe_rules


class FasterWhisperRecogniser:
    """Recognises speech with a CTranslate2 Whisper model; `workers` clips or batches at once on each device."""

    def __init__(self, config: FasterWhisperConfig, resolve_model: ResolveModel) -> None:
        """Find the model; it is opened by the first call.

        Raises:
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        self._config = config
        self._path = resolve_model(config.model)
        self._pool = ThreadPoolExecutor(config.workers * len(config.device_index), thread_name_prefix="whisper")
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
                *describe_rules(config.fallback, config.guards),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Callable[[int, RecognitionReply], None] | None = None
    ) -> list[RecognitionReply | RowFault]:
        """Transcribe the requests. With guards, a text that is taken for made up is withheld: see `RecognitionReply`.

        Row faults: `empty_audio` (no samples), `non_finite_audio`, `unsupported_language`.

        Raises:
            EngineSetupError: faster-whisper is missing or the model cannot be opened.
            EngineError: the model failed.
        """
        self._open()

        def prepare(request: RecognitionRequest) -> WhisperClip | RecognitionReply | RowFault:
            return prepare_clip(
                request, self._config.model, self._model.model.is_multilingual, self._model.supported_languages
            )

        prepared = self._pool.map(prepare, requests)
        return hear_in_batches(prepared, self._hear, self._pool, self._config.batch_size, on_reply)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._model = None

    def _open(self) -> None:
        with self._lock:
            if self._model is not None:
                return
            self._model = open_whisper(
                self._path,
                self._config.compute_type,
                self._config.workers,
                self._config.device,
                self._config.device_index,
            )

    def _hear(self, clips: Sequence[WhisperClip]) -> list[RecognitionReply]:
        config = self._config
        try:
            if config.batch_size == 1 and config.fallback is None:
                heard = [self._transcribe(clip) for clip in clips]
            else:
                from bystander.tasks.engines.ct2_whisper_decoding import decode_clips

                heard = decode_clips(self._model, clips, config.beam_size, config.batch_size, config.fallback)
        except Exception as exc:  # see open_whisper
            seconds = sum(clip.heard.duration_s for clip in clips)
            raise EngineError(f"Whisper failed on {len(clips)} clips of {seconds:.1f} s together ({exc})") from exc
        return [
            guard_reply(reply, clip.heard, config.guards, repetition)
            for clip, (reply, repetition) in zip(clips, heard, strict=True)
        ]

    def _transcribe(self, clip: WhisperClip) -> tuple[RecognitionReply, float]:
        found, _ = self._model.transcribe(
            clip.audio,
            language=clip.language,
            beam_size=self._config.beam_size,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
            vad_filter=False,
        )
        segments = list(found)
        if not segments:
            return RecognitionReply("", no_speech_prob=1.0), 0.0
        reply = RecognitionReply(
            text="".join(segment.text for segment in segments).strip(),
            mean_logprob=float(np.mean([segment.avg_logprob for segment in segments])),
            no_speech_prob=float(max(segment.no_speech_prob for segment in segments)),
            temperature=0.0,
        )
        return reply, float(max(segment.compression_ratio for segment in segments))


def open_whisper(
    path: Path, compute_type: str, workers: int, device: str = "cpu", device_index: Sequence[int] = (0,)
) -> Any:
    """Return a `faster_whisper.WhisperModel` that decodes `workers` clips at once a device; on the CPU, a thread each.

    Raises:
        EngineSetupError: faster-whisper is missing, or the model or a device cannot be opened.
    """
    try:
        from faster_whisper import WhisperModel
    except ImportError as exc:
        raise EngineSetupError("the package faster-whisper is missing; run: pip install faster-whisper") from exc
    try:
        return WhisperModel(
            str(path),
            device=device,
            device_index=list(device_index) if len(device_index) > 1 else device_index[0],
            compute_type=compute_type,
            cpu_threads=1,
            num_workers=workers,
            local_files_only=True,
        )
    except Exception as exc:  # CTranslate2 raises RuntimeError or ValueError, tokenizers a bare Exception
        place = f" on {device}" if device != "cpu" else ""
        raise EngineSetupError(f"{path}: cannot be opened as a Whisper model{place} ({exc})") from exc
