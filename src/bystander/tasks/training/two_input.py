"""The two-input model: words and sound, each through a branch of its own, and one decision on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bystander.schemas.train_tpi_config import TwoInputConfig
from bystander.tasks.training.two_input_rows import TwoInputExample

_VARIANCE_FLOOR = 1e-4


class TwoInputModel(nn.Module):
    """Says which of some classes a clip is of.

    Words: the mean of the embeddings of words and pairs of words. Sound: a convolution over three frames, then mean and
    standard deviation over the clip, the pooling of speaker encoders (Snyder et al. 2018). Nothing bends or levels the
    values before that: how far they spread in a clip is what tells two speakers. What both branches say is put
    together in one hidden layer, whose values are the embedding of the clip.
    """

    def __init__(self, config: TwoInputConfig, width: int, classes: int) -> None:
        """Draw the weights from torch's generator: seed it before.

        Args:
            config: sizes, and which branches there are.
            width: numbers a frame of sound.
            classes: how many there are.
        """
        super().__init__()
        hidden = config.hidden
        self.words = None
        if config.inputs != "sound":
            self.words = nn.EmbeddingBag(config.hash_buckets, hidden, mode="mean", padding_idx=0)
            self.word_layer = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU())
        self.frames = None
        if config.inputs != "text":
            self.frames = nn.Conv1d(width, hidden, 3, padding=1)
            self.frame_layer = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.GELU())
        branches = 2 if config.inputs == "text_and_sound" else 1
        self.joint = nn.Sequential(nn.Dropout(config.dropout), nn.Linear(branches * hidden, hidden), nn.GELU())
        self.head = nn.Linear(hidden, classes)

    def embed(self, words: Tensor, frames: Tensor, frame_mask: Tensor) -> Tensor:
        """Return the last hidden layer, shape (clips, hidden).

        Args:
            words: numbers of words and pairs, shape (clips, most of a clip), 0 where there is none.
            frames: shape (clips, most of a clip, width).
            frame_mask: shape (clips, most of a clip), true where there is a frame.
        """
        heard: list[Tensor] = []
        if self.words is not None:
            heard.append(self.word_layer(self.words(words)))
        if self.frames is not None:
            mask = frame_mask.unsqueeze(1)
            values = self.frames((frames * frame_mask.unsqueeze(2)).transpose(1, 2)) * mask
            count = mask.sum(2)
            mean = values.sum(2) / count
            variance = ((values - mean.unsqueeze(2)) ** 2 * mask).sum(2) / count
            heard.append(self.frame_layer(torch.cat([mean, (variance + _VARIANCE_FLOOR).sqrt()], 1)))
        embedding: Tensor = self.joint(torch.cat(heard, 1))
        return embedding

    def forward(
        self, words: Tensor, frames: Tensor, frame_mask: Tensor, labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return `logits`, shape (clips, classes), `embeddings`, and the mean `loss` where labels are given."""
        embeddings = self.embed(words, frames, frame_mask)
        logits = self.head(embeddings)
        found = {"logits": logits, "embeddings": embeddings}
        if labels is not None:
            found = {"loss": nn.functional.cross_entropy(logits, labels), **found}
        return found


def collate_two_input(examples: Sequence[TwoInputExample]) -> dict[str, Any]:
    """Return examples as the arguments of `TwoInputModel.forward`, padded to the longest."""
    words = np.zeros((len(examples), max(1, *(len(example.words) for example in examples))), np.int64)
    longest = max(len(example.frames) for example in examples)
    frames = np.zeros((len(examples), longest, examples[0].frames.shape[1]), np.float32)
    mask = np.zeros((len(examples), longest), bool)
    for place, example in enumerate(examples):
        words[place, : len(example.words)] = example.words
        frames[place, : len(example.frames)] = example.frames
        mask[place, : len(example.frames)] = True
    return {
        "words": torch.from_numpy(words),
        "frames": torch.from_numpy(frames),
        "frame_mask": torch.from_numpy(mask),
        "labels": torch.tensor([example.label for example in examples]),
    }


@dataclass(frozen=True, slots=True)
class TwoInputAnswers:
    """What a model says of clips: `probabilities`, shape (clips, classes), and `embeddings`, shape (clips, hidden)."""

    probabilities: np.ndarray[Any, np.dtype[np.float64]]
    embeddings: np.ndarray[Any, np.dtype[np.float64]]


def make_two_input_model(config: TwoInputConfig, width: int, classes: int, seed: int) -> TwoInputModel:
    """Return a model whose weights hang on the seed alone; torch's own generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return TwoInputModel(config, width, classes)


def answer_two_input(model: TwoInputModel, examples: Sequence[TwoInputExample], batch: int = 64) -> TwoInputAnswers:
    """Return what a model says of clips, without dropout."""
    was_training = model.training
    model.eval()
    probabilities, embeddings = [], []
    device = next(model.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(examples), batch):
            inputs = collate_two_input(examples[start : start + batch])
            found = model(**{name: value.to(device) for name, value in inputs.items() if name != "labels"})
            probabilities.append(found["logits"].double().softmax(1).cpu().numpy())
            embeddings.append(found["embeddings"].double().cpu().numpy())
    model.train(was_training)
    return TwoInputAnswers(np.concatenate(probabilities), np.concatenate(embeddings))
