"""Real audio chat models with random weights, small enough for a test: saved as `transformers` saves any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")


def save_qwen2_audio(folder: Path, heard_s: int = 2) -> Path:
    """Save a Qwen2-Audio of some 30,000 parameters that hears up to `heard_s` seconds, with its own tokenizer."""
    import torch
    from transformers import (
        Qwen2AudioConfig,
        Qwen2AudioForConditionalGeneration,
        Qwen2AudioProcessor,
        WhisperFeatureExtractor,
    )

    torch.set_num_threads(1)  # more would only wait for each other in a model of this size
    tokenizer = _make_tokenizer()
    hears = WhisperFeatureExtractor(feature_size=16, sampling_rate=16000, chunk_length=heard_s)
    Qwen2AudioProcessor(feature_extractor=hears, tokenizer=tokenizer).save_pretrained(folder)
    config = Qwen2AudioConfig(
        audio_config={
            "num_mel_bins": 16,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "d_model": 16,
            "max_source_positions": 50 * heard_s,
        },
        text_config={
            "model_type": "qwen2",
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
            "pad_token_id": tokenizer.pad_token_id,
            "tie_word_embeddings": False,
        },
        audio_token_index=tokenizer.convert_tokens_to_ids("<|AUDIO|>"),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = Qwen2AudioForConditionalGeneration(config)
        # Wider than at the start of a training, so that what it hears shows in what it says.
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.5)
    model.generation_config.eos_token_id = config.text_config.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    return folder


def _make_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL),
    )
