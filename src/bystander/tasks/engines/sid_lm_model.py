"""The model of the SID paper's detector (IV-A): audio encoder, projector, small language model, binary head.

A clip of log-mel features becomes a sequence of audio embeddings at the language model's width. Stage 1 lets the
language model write the transcript behind them; stage 2 asks the state of the last audio position, through a linear
head, whether the clip ends after the user's break (IV-B).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bystander.tasks.engines.sid_lm_encoders import AutEncoder, WhisperEncoder

IGNORED = -100
"""Fills up transcripts of unlike length; no target."""
PARTS = ("encoder", "projector", "language_model", "head")
_INIT_STD = 0.02


class Projector(nn.Module):
    """From the encoder's width to the language model's: linear, GELU, linear.

    `stack_frames` positions that follow each other are laid side by side first (the last ones filled up with zeros),
    which makes the sequence so much shorter: shape (positions, width) to (ceil(positions / stack), model width).
    """

    def __init__(self, width: int, model_width: int, stack_frames: int) -> None:
        super().__init__()
        self.stack_frames = stack_frames
        self.first = nn.Linear(width * stack_frames, model_width)
        self.second = nn.Linear(model_width, model_width)

    def forward(self, states: Tensor) -> Tensor:
        missing = -len(states) % self.stack_frames
        states = nn.functional.pad(states, (0, 0, 0, missing)).reshape(-1, states.shape[1] * self.stack_frames)
        projected: Tensor = self.second(nn.functional.gelu(self.first(states)))
        return projected


class SidLmModel(nn.Module):
    """Encoder, projector, language model and head as one module."""

    def __init__(self, encoder: AutEncoder | WhisperEncoder, language_model: Any, stack_frames: int, seed: int) -> None:
        """Take the two pretrained parts, and draw the weights of projector and head from the seed.

        Args:
            encoder: of `sid_lm_encoders`.
            language_model: a causal language model of `transformers`, as `Qwen3ForCausalLM`.
            stack_frames: positions of the encoder that make one of the language model.
            seed: of the new weights.
        """
        super().__init__()
        config = language_model.config
        self.encoder = encoder
        config.use_cache = False  # nothing is generated
        self.language_model = language_model.base_model
        # Tied weights are the embeddings: one tensor under two names could not be saved as safetensors.
        self.vocabulary = None if config.tie_word_embeddings else language_model.lm_head
        self.projector = Projector(encoder.width, int(config.hidden_size), stack_frames)
        self.head = nn.Linear(int(config.hidden_size), 1)
        generator = torch.Generator().manual_seed(seed)
        for layer in (self.projector.first, self.projector.second, self.head):
            nn.init.normal_(layer.weight, std=_INIT_STD, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(
        self, features: Tensor, frames: Tensor, labels: Tensor | None = None, targets: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return `logits` of the head, or of stage 1 none, and `loss` where there is something to learn.

        Args:
            features: log-mel, shape (clips, mel, frames), float, filled up on the right.
            frames: of each clip, shape (clips,), int64, >= 1.
            labels: 1 where the clip ends after the break, else 0, shape (clips,), float: stage 2, mean binary
                cross-entropy.
            targets: tokens of the transcripts with their end, shape (clips, tokens), int64, filled up with `IGNORED`:
                stage 1, mean cross-entropy over the tokens.
        """
        audio = [self.projector(states) for states in self.encoder(features, frames)]
        if targets is not None:
            return {"loss": self._align(audio, targets)}
        states = self._think(audio)
        ends = torch.tensor([len(clip) - 1 for clip in audio], device=states.device)
        logits = self.head(states[torch.arange(len(audio), device=states.device), ends]).squeeze(-1)
        outputs = {"logits": logits}
        if labels is not None:
            outputs["loss"] = nn.functional.binary_cross_entropy_with_logits(logits.float(), labels.float())
        return outputs

    def _align(self, audio: list[Tensor], targets: Tensor) -> Tensor:
        tokens = [row[row != IGNORED] for row in targets]
        embed = self.language_model.get_input_embeddings()
        states = self._think([torch.cat([clip, embed(row[:-1])]) for clip, row in zip(audio, tokens, strict=True)])
        # The last audio position foretells the first token, each token the one behind it.
        spans = [
            row[len(clip) - 1 : len(clip) - 1 + len(token)]
            for row, clip, token in zip(states, audio, tokens, strict=True)
        ]
        spoken = torch.cat(spans)
        weight = embed.weight if self.vocabulary is None else self.vocabulary.weight
        return nn.functional.cross_entropy(nn.functional.linear(spoken, weight).float(), torch.cat(tokens))

    def _think(self, sequences: list[Tensor]) -> Tensor:
        """Return the last states of sequences of embeddings, filled up on the right: it never sees what is behind."""
        embeds = pad_sequence(sequences, batch_first=True)
        lengths = torch.tensor([len(one) for one in sequences], device=embeds.device)
        mask = torch.arange(embeds.shape[1], device=embeds.device) < lengths.unsqueeze(1)
        states: Tensor = self.language_model(
            inputs_embeds=embeds.to(self.language_model.dtype), attention_mask=mask.long(), use_cache=False
        ).last_hidden_state
        return states

    def count_loss_items(self, batch: Mapping[str, Tensor]) -> int:
        """Return over how many tokens or crops the loss of a batch is the mean."""
        targets = batch.get("targets")
        return len(batch["labels"]) if targets is None else int((targets != IGNORED).sum())

    def train_parts(self, parts: Collection[str], *, aligns: bool) -> None:
        """Let the named parts of `PARTS` learn, and freeze the others, and what a stage has no use for.

        Words play no part in stage 2, nor does the head in stage 1.
        """
        for name in PARTS:
            getattr(self, name).requires_grad_(name in parts and (name != "head" or not aligns))
        if not aligns:
            self.language_model.get_input_embeddings().requires_grad_(False)
        if self.vocabulary is not None:
            self.vocabulary.requires_grad_(aligns and "language_model" in parts)

    def activation_checkpointing_enable(
        self, activation_checkpointing_kwargs: dict[str, Any] | None = None, **options: Any
    ) -> None:
        """Compute activations again in the backward pass, as the trainer of `transformers` asks for by this name."""
        for part in (self.encoder.encoder, self.language_model):
            part.activation_checkpointing_enable(activation_checkpointing_kwargs, **options)

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs: dict[str, Any] | None = None) -> None:
        """The same, as earlier versions of `transformers` have it."""
        for part in (self.encoder.encoder, self.language_model):
            part.gradient_checkpointing_enable(gradient_checkpointing_kwargs)
