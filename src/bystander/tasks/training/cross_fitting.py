"""Folds of a small detector: each clip is heard once by a network that was not trained on its voice.

A threshold chosen on one held-out slice hangs on which voices that slice has. Cross-fitting (Stone 1974) has every clip
held out in turn, so that the threshold is chosen on all of them; the detector is the mean of the networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import digest_json
from bystander.tasks.engines.log_mel_steps import SAMPLING_RATE
from bystander.tasks.training.pick_threshold import MeasuredClip
from bystander.tasks.training.recurrent_examples import HeardClip, RecurrentExamples

if TYPE_CHECKING:
    from bystander.tasks.training.recurrent_model import RecurrentNetwork

Numbers = npt.NDArray[np.int64]


class ExampleSlice:
    """An `ExampleSource` of some examples of another. It can be pickled as far as the other can."""

    def __init__(self, source: RecurrentExamples, numbers: Numbers) -> None:
        """Take the source, and which of its examples: shape (n,)."""
        self._source = source
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        """Shape (n,): seconds."""
        return self._source.lengths[self._numbers]

    @property
    def groups(self) -> Numbers:
        """Shape (n,): those of the source."""
        return self._source.groups[self._numbers]

    @property
    def digest(self) -> str:
        """Tells slices apart, and sources where they have a digest."""
        return digest_json([self._source.digest, self._numbers.tolist()])

    def read(self, numbers: Sequence[int], epoch: int) -> list[Any]:
        """Return examples of an epoch.

        Raises: as the source.
        """
        return self._source.read([int(self._numbers[number]) for number in numbers], epoch)


def measure_held_out(
    network: RecurrentNetwork, examples: RecurrentExamples, numbers: Sequence[int], varied: int, chunk_s: float
) -> Iterator[MeasuredClip]:
    """Yield what a network says of clips that it was not trained on, each as it is and in `varied` other versions.

    What is as it is comes as often as there are varied versions, so that both count alike.

    Args:
        network: in evaluation mode.
        examples: of all clips; versions that training has kept are not heard anew.
        numbers: of the clips.
        varied: versions of each besides the clip itself.
        chunk_s: length of the chunks that a stream would come in, in seconds.
    """
    import torch

    from bystander.tasks.training.recurrent_model import score_steps

    for number in numbers:
        for version in range(1 + varied):
            heard = examples.hear(number, version)
            steps = torch.from_numpy(heard.steps.astype(np.float32))
            clip = follow_chunks(heard, score_steps(network, steps).numpy(), examples.step_s, chunk_s)
            yield from [clip] * (max(1, varied) if version == 0 else 1)


def follow_chunks(
    heard: HeardClip, probabilities: npt.NDArray[np.float32], step_s: float, chunk_s: float
) -> MeasuredClip:
    """Return what a stream in chunks would have said: at each chunk's end, the answer at the last whole step before it.

    Args:
        heard: the clip.
        probabilities: at each of its steps, shape (steps,).
        step_s: length of a step, in seconds.
        chunk_s: length of a chunk, in seconds.
    """
    samples, size, step = (round(length * SAMPLING_RATE) for length in (heard.duration_s, chunk_s, step_s))
    ends = np.minimum(np.arange(size, samples + size, size), samples)
    answers = np.concatenate([[0.0], probabilities.astype(np.float64)])  # before the first step it says nothing
    return MeasuredClip(ends / SAMPLING_RATE, answers[ends // step], heard.duration_s, heard.break_s)
