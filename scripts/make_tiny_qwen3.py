"""Makes a random Qwen3 of some 100,000 parameters with a byte-pair tokenizer of its own, to test vLLM with.

Runs in the environment of vLLM, which brings torch, transformers and tokenizers:

    path/to/vllm-environment/bin/python scripts/make_tiny_qwen3.py FOLDER [--seed 0] [--context 4096]

The same seed and packages give the same files. The model writes noise; what is tested with it is the server. Its chat
template is that of Qwen3 in short: turns between `<|im_start|>` and `<|im_end|>`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

VOCABULARY = 512
THOUGHTS = ("<think>", "</think>")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *THOUGHTS)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = (
    "the a user asks assistant to play music set an alarm for ten minutes order a pizza with olives call my sister "
    "remind me of the party on sunday no wait it is on saturday what is the weather in rome good idea yes answer with "
    "one letter request remark reply primary third party score rationale json"
)


def make_model(folder: Path, seed: int, context: int) -> int:
    """Write weights, configuration and tokenizer to a folder, and return the number of parameters."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    _write_tokenizer(folder, context)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=SPECIAL.index("<|im_end|>"),
        pad_token_id=SPECIAL.index("<|endoftext|>"),
    )
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def _write_tokenizer(folder: Path, context: int) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_list_texts(), trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    # As with the real Qwen3, the marks of thoughts are tokens of their own, but not special: decoding keeps them.
    saved = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    for token in saved["added_tokens"]:
        token["special"] = token["content"] not in THOUGHTS
    (folder / "tokenizer.json").write_text(json.dumps(saved), "utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": context,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), "utf-8")


def _list_texts() -> Iterator[str]:
    words = WORDS.split()
    for first in words:
        for second in words:
            yield f'{{"reply": "{first} {second}"}}\n{first} {second}'


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--context", type=int, default=4096)
    asked = parser.parse_args()
    print(f"{asked.folder}: {make_model(asked.folder, asked.seed, asked.context)} parameters")
