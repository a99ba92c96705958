"""Stable digests, row ids and seeds.

Everything random in a build derives from (build seed, row id, stage), so that neither partitioning nor the
number of workers, a resume or the order of rows can change a row.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

_SEED_BITS = 63  # fits a signed 64-bit column


def digest_json(value: Any) -> str:
    """Return the SHA-256 hex digest of `value` as canonical JSON (sorted keys, no spaces, UTF-8)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def make_id(prefix: str, *parts: str | int) -> str:
    """Return a stable id such as `row-3f2a…` (prefix and 20 hex digits) from the content that names the thing."""
    return f"{prefix}-{digest_json(list(parts))[:20]}"


def derive_seed(build_seed: int, row_id: str, stage: str, *extra: str | int) -> int:
    """Return a seed in [0, 2**63) that depends on its arguments alone."""
    raw = digest_json([build_seed, row_id, stage, *extra])
    return int(raw[:16], 16) >> (64 - _SEED_BITS)


def make_rng(build_seed: int, row_id: str, stage: str, *extra: str | int) -> np.random.Generator:
    """Return a generator seeded by `derive_seed`; PCG64 is named because `default_rng` may change its algorithm."""
    return np.random.Generator(np.random.PCG64(derive_seed(build_seed, row_id, stage, *extra)))
