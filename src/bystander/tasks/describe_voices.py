"""A bank of reference voices in words: counts, distributions, voices that sound alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bystander.schemas.identity import make_rng
from bystander.storage.voice_bank import FileVoiceBank, stack_embeddings
from bystander.tasks.index_voices import summarise_bank
from bystander.tasks.metrics.voice_similarity import find_similar_pairs, measure_quantiles
from bystander.tasks.stages.voice_sides import find_held_out_voices

_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_SAMPLED_PAIRS = 200_000
_DECIMALS = {"duration_s": 1, "level_dbfs": 1, "snr_db": 1, "consistency": 2}


def describe_voices(bank: FileVoiceBank, similar: float, hold_out: float, most_pairs: int) -> Iterator[str]:
    """Yield lines about a bank.

    Args:
        bank: the bank.
        similar: cosine from which two voices sound alike.
        hold_out: share of the voices on the held-out side.
        most_pairs: how many pairs are listed.
    """
    rows = bank.list_rows()
    yield from summarise_bank(repr(bank).removeprefix("FileVoiceBank('").removesuffix("')"), bank.manifest)
    yield f"Digest {bank.digest[:16]}…, licence {bank.manifest.source.licence or 'not stated'}."
    for name in ("language", "gender", "sampling_rate"):
        counted = Counter(str(row[name] if row[name] is not None else "unknown") for row in rows)
        yield f"{name}: " + ", ".join(f"{value} {count}" for value, count in counted.most_common(12))
    yield "                " + "".join(f"{_name_quantile(share):>9}" for share in _QUANTILES)
    for name, decimals in _DECIMALS.items():
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            shown = "".join(f"{value:9.{decimals}f}" for value in np.quantile(values, _QUANTILES))
            yield f"{name:16}{shown}" + (f"   ({len(values)} voices)" if len(values) < len(rows) else "")
    joined = sum(len(row["clips"]) > 1 for row in rows)
    yield f"{joined} references are joined of several clips."
    yield from _describe_pairs(rows, similar, hold_out, most_pairs)


def _describe_pairs(rows: Sequence[dict[str, Any]], similar: float, hold_out: float, most: int) -> Iterator[str]:
    embeddings = stack_embeddings(rows)
    names = [row["voice"] for row in rows]
    spread = measure_quantiles(embeddings, (0.5, 0.95, 0.99), _SAMPLED_PAIRS, make_rng(0, "voices", "describe_voices"))
    if spread:
        yield "Cosine of two voices: median {:.2f}, 95 % below {:.2f}, 99 % below {:.2f}.".format(*spread)
    held = find_held_out_voices(names, hold_out)
    sizes = f"{int(held.sum())} voices held out, {int((~held).sum())} not"
    yield f"With `hold_out_by: voice` and hold_out {hold_out:g}: {sizes}."
    pairs, count = find_similar_pairs(embeddings, similar, max(most, 1))
    total = len(rows) * (len(rows) - 1) // 2
    listed = "; the closest, as `avoid_pairs`:" if count and most else "."
    yield f"{count} of {total} pairs have a cosine of {similar:g} or more{listed}"
    for one, other, cosine in pairs[:most]:
        sides = "  on both sides of the hold-out" if held[one] != held[other] else ""
        yield f"  - [{names[one]}, {names[other]}]  # {cosine:.3f}{sides}"
    if count > most:
        yield f"  and {count - most} more: `stages.choose_voices.avoid_similar: {similar:g}` rules all of them out."


def _name_quantile(share: float) -> str:
    return {0.0: "min", 0.5: "median", 1.0: "max"}.get(share, f"{share:.0%}")
