"""Batches for a speech-language model: the prompt that evaluation puts, then the reply, on which alone the loss is.

What precedes the reply comes from the very function that asks at evaluation, token for token; reply and end of turn are
put after it, as the model is to write them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bystander.schemas.engines import Samples
from bystander.tasks.engines.engine_audio import convert_rate
from bystander.tasks.engines.speech_lm_model import (
    ChatPrompts,
    ModelSource,
    encode_prompts,
    find_turn_end,
    open_processor,
)

IGNORED = -100
"""The label of a token that the loss passes over."""
TOO_LONG_TO_HEAR = "longer_than_the_model_hears"
TOO_MANY_TOKENS = "longer_than_max_length"


class SpokenExample(Protocol):
    """A clip and what is to be answered."""

    @property
    def samples(self) -> Samples: ...
    @property
    def sampling_rate(self) -> int: ...
    @property
    def reply(self) -> str: ...


@dataclass(frozen=True)
class SpeechLmReader:
    """A model's processor with the prompts that go with every clip. It is pickled without the processor, and opens it.

    `max_length` is in tokens: of prompt, sound, reply and end of turn together.
    """

    model: ModelSource
    prompts: ChatPrompts
    max_length: int
    _sound_tokens: dict[int, int] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return SpeechLmReader, (self.model, self.prompts, self.max_length)

    @cached_property
    def processor(self) -> Any:
        """The processor.

        Raises:
            EngineSetupError: it cannot be opened, has no ears or no chat template, or none that can be trained on.
        """
        return open_processor(self.model)

    @cached_property
    def turn_end(self) -> str:
        return find_turn_end(self.processor)

    @property
    def sampling_rate(self) -> int:
        return int(self.processor.feature_extractor.sampling_rate)

    @property
    def heard_s(self) -> float:
        """The longest clip that the model hears whole, in seconds."""
        return float(getattr(self.processor.feature_extractor, "chunk_length", None) or math.inf)

    def encode_reply(self, reply: str) -> list[int]:
        """Return the tokens that the model is to write: the reply and the end of its turn."""
        tokens: list[int] = self.processor.tokenizer(reply.strip() + self.turn_end, add_special_tokens=False)[
            "input_ids"
        ]
        return tokens

    def explain_absence(self, duration_s: float, reply: str) -> str | None:
        """Return why a row cannot be trained on whole, None where it can. Its sound is not needed for that."""
        if duration_s > self.heard_s:
            return TOO_LONG_TO_HEAR
        room = self.max_length - len(self.encode_reply(reply))
        # Counted by whole seconds, each once; exactly only where that decides.
        if self._count_prompt(math.ceil(duration_s) * self.sampling_rate) <= room:
            return None
        exact = self._count_prompt(min(math.ceil(duration_s * self.sampling_rate) + 1, self._heard_samples()))
        return None if exact <= room else TOO_MANY_TOKENS

    def _count_prompt(self, samples: int) -> int:
        """Return how many tokens the prompt around a clip of so many samples has; it depends on nothing else."""
        samples = min(samples, self._heard_samples())
        if samples not in self._sound_tokens:
            clip = np.zeros(max(samples, 1), np.float32)
            self._sound_tokens[samples] = encode_prompts(self.processor, self.prompts, [clip])["input_ids"].shape[1]
        return self._sound_tokens[samples]

    def _heard_samples(self) -> int:
        return int(min(self.heard_s, 24 * 3600.0) * self.sampling_rate)


@dataclass(frozen=True)
class SpeechLmCollate:
    """Examples to the keyword arguments of the model's `forward`, padded on the right.

    `input_ids`, `attention_mask` and `labels` have shape (examples, tokens), int64; the sound's tensors are the
    processor's own.
    """

    reader: SpeechLmReader

    def __call__(self, examples: Sequence[SpokenExample]) -> dict[str, Any]:
        import torch

        reader = self.reader
        clips = [convert_rate(one.samples, one.sampling_rate, reader.sampling_rate) for one in examples]
        batch = dict(encode_prompts(reader.processor, reader.prompts, clips))
        asked, mask = batch.pop("input_ids"), batch.pop("attention_mask").bool()
        prompts = [row[kept] for row, kept in zip(asked, mask, strict=True)]
        replies = [torch.tensor(reader.encode_reply(one.reply), dtype=asked.dtype) for one in examples]
        shape = len(examples), max(len(p) + len(r) for p, r in zip(prompts, replies, strict=True))
        tokens = torch.full(shape, int(reader.processor.tokenizer.pad_token_id or 0), dtype=asked.dtype)
        labels = torch.full(shape, IGNORED, dtype=asked.dtype)
        attended = torch.zeros(shape, dtype=torch.int64)
        for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
            end = len(prompt) + len(reply)
            tokens[row, :end] = torch.cat([prompt, reply])
            labels[row, len(prompt) : end] = reply
            attended[row, :end] = 1
        return {**batch, "input_ids": tokens, "attention_mask": attended, "labels": labels}
