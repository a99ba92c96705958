"""What a small causal network hears of a clip: log-mel frames, or a recogniser's encoding; in training and after it.

A step is STEP_FRAMES frames of `bands` numbers. How much sound a step takes differs: 40 ms of log-mel, 80 ms encoded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from bystander.schemas.engines import Samples
from bystander.tasks.engines import log_mel_steps, recogniser_steps
from bystander.tasks.engines.log_mel_steps import SAMPLING_RATE, Features, LogMelSteps
from bystander.tasks.engines.recogniser_steps import RecogniserEncoder, RecogniserSteps


class StepStream(Protocol):
    """The features of one clip."""

    def accept(self, samples: Samples) -> Features:
        """Hear more, and return what it completes: shape (steps, STEP_FRAMES, bands), float32."""
        ...


class StepFeatures(Protocol):
    """Makes features of clips. It can be pickled."""

    @property
    def bands(self) -> int:
        """Numbers of a frame."""
        ...

    @property
    def step_s(self) -> float:
        """Seconds of sound that a step takes."""
        ...

    @property
    def empty(self) -> float:
        """What the frames before a clip are taken for."""
        ...

    def open_stream(self) -> StepStream:
        """Return the stream of a new clip."""
        ...

    def close(self) -> None:
        """Let go of a model, if there is one."""
        ...


class LogMelFeatures:
    """Log-mel frames, see `LogMelSteps`."""

    empty = log_mel_steps.EMPTY_FEATURE
    step_s = log_mel_steps.STEP_S

    def __init__(self, bands: int) -> None:
        self.bands = bands

    def open_stream(self) -> LogMelSteps:
        return LogMelSteps(self.bands)

    def close(self) -> None:
        """There is nothing to let go of."""


class RecogniserFeatures:
    """A recogniser's encoding, see `RecogniserSteps`."""

    empty = 0.0
    step_s = recogniser_steps.STEP_SAMPLES / SAMPLING_RATE

    def __init__(self, folder: Path, bands: int | None = None) -> None:
        """Take the folder of a Whisper model of CTranslate2; without `bands`, it is opened to learn them.

        Raises:
            EngineSetupError: it cannot be opened.
        """
        self._encoder = RecogniserEncoder(folder)
        self.bands = self._encoder.width if bands is None else bands

    def open_stream(self) -> RecogniserSteps:
        return RecogniserSteps(self._encoder, self.bands)

    def close(self) -> None:
        self._encoder.close()
