"""Audio encoders of the detector of interruptions: Qwen3-Omni's AuT and Whisper's, behind one call.

Both take log-mel features of clips of unlike length, shape (clips, mel, frames) at 100 frames/s, filled up on the
right, with the frames that each clip has. What they return of a clip does not depend on the others in its batch.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

EncoderKind = Literal["aut", "whisper"]
FRAMES_PER_S = 100
SILENCE_BELOW_MAX = 2.0
"""Whisper's features are cut off 8 powers of ten below a clip's loudest, (x + 4) / 4: 2 below it is silence."""


class AutEncoder(nn.Module):
    """Qwen3-Omni's audio encoder: 13 positions for each second of 100 frames, attention within windows of 8 s.

    It hears as many frames as there are: nothing is filled up to 30 s. Its convolutions see each second alone, filled
    up to the longest of a batch; here always to the whole second, so that a clip's end is heard alike in all company.
    """

    kind: EncoderKind = "aut"
    max_frames: int | None = None

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self._second = 2 * encoder.config.n_window

    @property
    def width(self) -> int:
        return int(self.encoder.config.output_dim)

    @property
    def mel_bins(self) -> int:
        return int(self.encoder.config.num_mel_bins)

    def count_positions(self, frames: Tensor) -> Tensor:
        """Return the positions of clips of so many frames: shape (clips,), int64."""
        rest = frames % self._second
        whole = _halve_thrice(torch.full_like(frames, self._second))
        return frames // self._second * whole + torch.where(rest > 0, _halve_thrice(rest), torch.zeros_like(rest))

    def forward(self, features: Tensor, frames: Tensor) -> list[Tensor]:
        """Return each clip's embeddings, shape (positions, width)."""
        heard = [clip[:, :count] for clip, count in zip(features, frames.tolist(), strict=True)]
        lengths = frames
        if int(frames.max()) < self._second:
            heard.append(features.new_zeros(features.shape[1], self._second))
            lengths = torch.cat([frames, frames.new_tensor([self._second])])
        states = self.encoder(input_features=torch.cat(heard, dim=1), feature_lens=lengths).last_hidden_state
        return list(torch.split(states, self.count_positions(lengths).tolist()))[: len(frames)]


class WhisperEncoder(nn.Module):
    """Whisper's encoder: 50 positions a second. It takes 30 s and no less, so clips are filled up with silence.

    The positions of the filling are left out of what it returns. A prefix of a second costs as much as 30 s.
    """

    kind: EncoderKind = "whisper"

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.max_frames = 2 * int(encoder.config.max_source_positions)

    @property
    def width(self) -> int:
        return int(self.encoder.config.d_model)

    @property
    def mel_bins(self) -> int:
        return int(self.encoder.config.num_mel_bins)

    def count_positions(self, frames: Tensor) -> Tensor:
        """Return the positions of clips of so many frames: shape (clips,), int64."""
        return (frames + 1) // 2

    def forward(self, features: Tensor, frames: Tensor) -> list[Tensor]:
        """Return each clip's embeddings, shape (positions, width)."""
        filled = features.new_empty(len(features), features.shape[1], self.max_frames)
        for row, clip, count in zip(filled, features, frames.tolist(), strict=True):
            row.fill_(clip[:, :count].max() - SILENCE_BELOW_MAX)
            row[:, :count] = clip[:, :count]
        states = self.encoder(input_features=filled.to(self.encoder.conv1.weight.dtype)).last_hidden_state
        counts = self.count_positions(frames).tolist()
        return [clip[:count] for clip, count in zip(states, counts, strict=True)]


def build_encoder(kind: EncoderKind, config: dict[str, Any]) -> AutEncoder | WhisperEncoder:
    """Return an encoder with random weights from the settings that `config.json` of a detector keeps."""
    if kind == "aut":
        from transformers.models.qwen3_omni_moe import configuration_qwen3_omni_moe as configurations
        from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as models

        return AutEncoder(models.Qwen3OmniMoeAudioEncoder(configurations.Qwen3OmniMoeAudioEncoderConfig(**config)))
    from transformers import WhisperConfig
    from transformers.models.whisper import modeling_whisper

    return WhisperEncoder(modeling_whisper.WhisperEncoder(WhisperConfig(**config)))


def _halve_thrice(frames: Tensor) -> Tensor:
    """Return what three convolutions of stride 2 leave of so many frames."""
    for _ in range(3):
        frames = (frames + 1) // 2
    return frames
