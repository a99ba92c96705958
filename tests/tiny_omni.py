"""A Qwen2.5-Omni with random weights, small enough for a test, in a folder as the published model's is laid out.

The whole model's files are there (its thinker's weights under `thinker.`), the processor's as the hub has them, with a
chat template that writes what the real one writes for text and sound.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TEMPLATE = """\
{%- for message in messages -%}
{%- if loop.first and message['role'] != 'system' -%}
{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif -%}
{{ '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['content'] is string -%}{{ message['content'] }}{%- else -%}
{%- for part in message['content'] -%}
{%- if part['type'] == 'audio' -%}{{ '<|audio_bos|><|AUDIO|><|audio_eos|>' }}
{%- elif part['type'] == 'text' -%}{{ part['text'] }}{%- endif -%}
{%- endfor -%}{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""
NAMED = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}


def save_qwen_omni(folder: Path, heard_s: int = 4, seed: int = 3) -> Path:
    """Save a Qwen2.5-Omni without its talker, of some 70,000 parameters, that hears up to `heard_s` seconds."""
    import torch
    from transformers import Qwen2_5OmniConfig, Qwen2_5OmniForConditionalGeneration, WhisperFeatureExtractor

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _make_tokenizer()
    tokenizer.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=16, sampling_rate=16000, chunk_length=heard_s).save_pretrained(folder)
    names = {"processor_class": "Qwen2_5OmniProcessor", "image_processor_type": "Qwen2VLImageProcessor"}
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | names))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = Qwen2_5OmniConfig(thinker_config=_describe_thinker(tokenizer), enable_audio_output=False)
        model = Qwen2_5OmniForConditionalGeneration(config)
        # Wider than at the start of a training, so that what it hears shows in what it says.
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "visual" not in name:
                torch.nn.init.normal_(parameter, std=0.2)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    return folder


def _describe_thinker(tokenizer: Any) -> dict[str, Any]:
    token = {name: tokenizer.convert_tokens_to_ids(text) for name, text in NAMED.items()}
    return {
        "audio_config": {
            "num_mel_bins": 16,
            "d_model": 16,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "output_dim": 32,
            "n_window": 20,
            "max_source_positions": 200,
        },
        "vision_config": {
            "depth": 1,
            "hidden_size": 16,
            "num_heads": 2,
            "intermediate_size": 16,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [0],
        },
        "text_config": {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
            "pad_token_id": tokenizer.pad_token_id,
            "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0},
        },
        "audio_token_id": token["audio_token"],
        "image_token_id": token["image_token"],
        "video_token_id": token["video_token"],
        "audio_start_token_id": token["audio_bos_token"],
        "audio_end_token_id": token["audio_eos_token"],
        "vision_start_token_id": token["vision_bos_token"],
        "vision_end_token_id": token["vision_eos_token"],
        "pad_token_id": tokenizer.pad_token_id,
    }


def _make_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *NAMED.values()])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=NAMED,
    )
