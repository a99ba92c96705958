"""How long a request takes a simulated language model, and which beginnings of prompts it has computed already."""

from __future__ import annotations

from collections import OrderedDict

from pydantic import Field

from bystander.schemas.stages import Params

_BLOCK_TOKENS = 16
"""Tokens of a cached block of a prompt, as vLLM has it by default."""


class LlmSpeed(Params):
    """How fast a simulated language model is. A real one's figures come from its own benchmark, under load."""

    slots: int = Field(64, ge=1, le=100_000)
    """Requests worked on at once (vLLM: `--max-num-seqs`); more wait in a queue, first come, first served."""
    first_token_s: float = Field(0.1, ge=0)
    """Fixed time before anything else, in seconds."""
    prompt_tokens_per_s: float = Field(4000.0, gt=0)
    """Per slot; prompt tokens whose beginning is cached take no time."""
    generated_tokens_per_s: float = Field(40.0, gt=0)
    """Per slot."""
    reasoning_tokens: int = Field(0, ge=0)
    """Tokens that it thinks for before each answer."""
    characters_per_token: float = Field(4.0, gt=0)
    """How characters are turned into tokens; no tokeniser is loaded."""
    prefix_blocks: int = Field(100_000, ge=0)
    """Blocks of 16 prompt tokens that are remembered, the least recently used forgotten first; 0 remembers none."""

    def count_tokens(self, text: str) -> int:
        """Return about how many tokens a text has, at least 1."""
        return max(1, round(len(text) / self.characters_per_token))

    def time_request(self, prompt_tokens: int, cached_tokens: int, generated_tokens: int) -> float:
        """Return the seconds that a request holds a slot."""
        return (
            self.first_token_s
            + (prompt_tokens - cached_tokens) / self.prompt_tokens_per_s
            + generated_tokens / self.generated_tokens_per_s
        )


class PrefixCache:
    """Remembers the beginnings of prompts in blocks, so that a known beginning is not computed again."""

    def __init__(self, speed: LlmSpeed) -> None:
        self._limit = speed.prefix_blocks
        self._block_characters = max(1, round(_BLOCK_TOKENS * speed.characters_per_token))
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def admit(self, prompt: str) -> int:
        """Return how many tokens at the prompt's beginning are known, and remember all its whole blocks."""
        if not self._limit:
            return 0
        known, chain, unbroken = 0, 0, True
        size = self._block_characters
        for start in range(0, len(prompt) - size + 1, size):
            chain = hash((chain, prompt[start : start + size]))
            if chain in self._blocks:
                self._blocks.move_to_end(chain)
                known += unbroken
            else:
                unbroken = False
                self._blocks[chain] = None
        while len(self._blocks) > self._limit:
            self._blocks.popitem(last=False)
        return known * _BLOCK_TOKENS
