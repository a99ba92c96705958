"""Chatterbox's real classes with random weights: saved as upstream publishes its own, and the worker that loads them.

Run by the Python of Chatterbox's environment: `tiny_chatterbox.py save FOLDER` writes the weights of both models;
with a path of the worker and its arguments it runs the worker. The language model has 14 layers, since the
multilingual model reads the attention of the last; the rest is as small as it gets.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

LAYERS = 14
os.environ["TQDM_DISABLE"] = "1"  # before anything imports tqdm


def shrink() -> None:
    """Make upstream's networks narrow and shallow, and its segmenter of Chinese, whose model only GitHub has, none."""
    import spacy_pkuseg
    from chatterbox.models.s3gen import s3gen
    from chatterbox.models.t3.llama_configs import LLAMA_CONFIGS
    from s3tokenizer.model_v2 import ModelConfig, S3TokenizerV2

    LLAMA_CONFIGS["Llama_520M"].update(num_hidden_layers=LAYERS, intermediate_size=64, head_dim=16)
    decoder, encoder = s3gen.ConditionalDecoder, s3gen.UpsampleConformerEncoder
    s3gen.ConditionalDecoder = lambda **sizes: decoder(**{**sizes, "n_blocks": 1, "num_mid_blocks": 1})
    s3gen.UpsampleConformerEncoder = lambda **sizes: encoder(**{**sizes, "num_blocks": 1, "linear_units": 64})
    S3TokenizerV2.__init__.__defaults__ = (ModelConfig(n_audio_state=128, n_audio_head=2, n_audio_layer=1),)
    spacy_pkuseg.pkuseg = Characters


class Characters:
    """A segmenter: every character is a word."""

    def cut(self, text: str) -> list[str]:
        return list(text)


def save(folder: Path) -> None:
    """Write the files of both models."""
    import torch
    from chatterbox.models.s3gen import S3Gen
    from chatterbox.models.t3 import T3
    from chatterbox.models.t3.modules.t3_config import T3Config
    from chatterbox.models.voice_encoder import VoiceEncoder
    from safetensors.torch import save_file

    torch.manual_seed(5)
    folder.mkdir(parents=True, exist_ok=True)
    encoder, vocoder = VoiceEncoder().state_dict(), S3Gen().state_dict()
    save_file(_copy(encoder), folder / "ve.safetensors")
    torch.save(_copy(encoder), folder / "ve.pt")
    save_file(_copy(vocoder), folder / "s3gen.safetensors")
    torch.save(_copy(vocoder), folder / "s3gen.pt")
    for name, config in (("t3_cfg", T3Config.english_only()), ("t3_mtl23ls_v2", T3Config.multilingual())):
        weights = T3(config).state_dict()
        # Few tokens are ever drawn, the end among them: so a clip ends after a second or so, as a trained model's do.
        head = torch.zeros_like(weights["speech_head.weight"])
        drawn = [*range(0, 6400, 400), config.stop_speech_token]
        head[drawn] = 0.15 * torch.randn(len(drawn), head.shape[1])
        save_file(_copy({**weights, "speech_head.weight": head}), folder / f"{name}.safetensors")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,?!'-"
    _save_tokenizer(folder / "tokenizer.json", ["[START]", "[STOP]", "[UNK]", "[SPACE]", *letters])
    codes = [f"[cj_{letter}]" for letter in "abcdefghijklmnopqrstuvwxyz0123456789."]
    tokens = ["[START]", "[STOP]", "[UNK]", "[SPACE]", "[en]", "[zh]", *codes, *letters]
    _save_tokenizer(folder / "grapheme_mtl_merged_expanded_v1.json", tokens)
    (folder / "Cangjie5_TC.json").write_text(json.dumps(["你\tonf", "好\tvnd", "明\tab", "天\tmk"]), "utf-8")


def _save_tokenizer(path: Path, tokens: list[str]) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    special = [token for token in tokens if len(token) > 1]
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, [], unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(path))


def _copy(weights: dict[str, Any]) -> dict[str, Any]:
    """Return the weights at half their size, without memory that two of them share."""
    return {
        name: (value.half() if value.is_floating_point() else value).contiguous().clone()
        for name, value in weights.items()
    }


if __name__ == "__main__":
    if sys.argv[1] == "save":
        shrink()
        save(Path(sys.argv[2]))
    else:
        sys.argv = sys.argv[1:]
        if "--describe" not in sys.argv:
            shrink()
        runpy.run_path(sys.argv[0], run_name="__main__")
