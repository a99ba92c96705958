"""What an evaluation asks of an interruption detector: hears a clip chunk by chunk and says when to stop talking."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bystander.schemas.engines import EngineIdentity, Samples


class DetectorStream(Protocol):
    """One clip as a detector hears it. It knows nothing of what is still to come."""

    def accept(self, chunk: Samples) -> bool:
        """Hear one more chunk of `chunk_samples` samples (the last may be shorter); True to stop now.

        It may be fed on after it said so: it says of each chunk whether it would stop there, so that a policy over
        several chunks can be laid around it.

        Raises:
            EngineError: the detector failed.
        """
        ...


@runtime_checkable
class Detector(Protocol):
    """A detector of interruptions. Streams are independent of each other and of their order."""

    @property
    def identity(self) -> EngineIdentity: ...

    @property
    def sampling_rate(self) -> int:
        """Rate in Hz that it hears; clips are resampled to it."""
        ...

    @property
    def chunk_samples(self) -> int:
        """Samples that it is fed at once."""
        ...

    def open_stream(self) -> DetectorStream: ...

    def close(self) -> None: ...
