"""Tiny random models of the kinds that the detector `sid_lm` is made of, saved as the real classes save them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VOCABULARY = 64


def save_omni(folder: Path, *, shard_size: str = "5GB", seed: int = 0) -> Any:
    """Save a whole Qwen3-Omni (thinker, no talker) with an audio tower of one layer, and return the model."""
    import torch
    from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration, WhisperFeatureExtractor

    torch.manual_seed(seed)
    audio = {
        "d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "output_dim": 24,
        "num_mel_bins": 16, "downsample_hidden_size": 4,
    }  # fmt: skip
    text = {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "intermediate_size": 32, "moe_intermediate_size": 8, "num_experts": 2, "num_experts_per_tok": 1,
        "vocab_size": VOCABULARY,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "depth": 1, "num_heads": 2, "intermediate_size": 32, "out_hidden_size": 16,
        "deepstack_visual_indexes": [0],
    }  # fmt: skip
    config = Qwen3OmniMoeConfig(
        thinker_config={"audio_config": audio, "text_config": text, "vision_config": vision},
        enable_audio_output=False,
    )
    model = Qwen3OmniMoeForConditionalGeneration(config)
    model.save_pretrained(folder, max_shard_size=shard_size)
    WhisperFeatureExtractor(feature_size=16).save_pretrained(folder)
    return model


def save_whisper(folder: Path, seed: int = 0, hears_s: int = 2) -> Any:
    """Save a whole Whisper of one layer that hears so many seconds, and return the model."""
    import torch
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    torch.manual_seed(seed)
    config = WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, d_model=16, max_source_positions=50 * hears_s,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    model.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=16).save_pretrained(folder)
    return model


def save_language_model(folder: Path, seed: int = 0, *, tied: bool = True) -> Any:
    """Save a Qwen3 of one layer with a tokenizer of letters, and return the model."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    letters = ["<end>", "<unknown>", " ", *"abcdefghijklmnopqrstuvwxyz'.,?!"]
    spelling = Tokenizer(models.WordLevel({one: at for at, one in enumerate(letters)}, unk_token="<unknown>"))
    spelling.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=spelling, eos_token="<end>", unk_token="<unknown>").save_pretrained(folder)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, intermediate_size=64, max_position_embeddings=4096, tie_word_embeddings=tied,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    return model
