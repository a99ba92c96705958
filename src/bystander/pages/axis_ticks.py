"""Round numbers along the axes of charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Axis:
    """The range that an axis spans, and its ticks in rising order with their texts."""

    low: float
    high: float
    ticks: tuple[float, ...]
    texts: tuple[str, ...]
    factor: str = ""
    """What all texts are to be multiplied by, such as `× 10⁻⁵`; empty for 1."""

    def place(self, value: float) -> float:
        """Return where a value lies, in [0, 1]; values outside are put at the end."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def choose_axis(values: Sequence[float], most_ticks: int = 6, whole: bool = False, to_ticks: bool = True) -> Axis:
    """Return an axis that covers the values.

    Args:
        values: finite; without any, the axis is [0, 1].
        most_ticks: no more ticks than these.
        whole: ticks are whole numbers.
        to_ticks: the axis ends at ticks; otherwise at the lowest and the highest value.
    """
    low, high = (min(values), max(values)) if len(values) else (0.0, 1.0)
    if to_ticks and 0 <= low <= 0.4 * high:
        low = 0.0  # nearly there: zero says more than a cut axis
    if high - low <= abs(high) * 1e-9:  # one value
        margin = max(abs(high) / 2, 1.0 if whole or not high else 0.0)
        low, high = low - margin, high + margin
        to_ticks = True
    step = _choose_step((high - low) / max(most_ticks - 1, 1), whole)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if not to_ticks:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    while last - first >= most_ticks:
        step = _choose_step(step * 1.01, whole)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if not to_ticks:
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple(step * at for at in range(first, last + 1))
    texts, factor = _show_ticks(ticks, step)
    return Axis(ticks[0] if to_ticks else low, ticks[-1] if to_ticks else high, ticks, texts, factor)


def _choose_step(least: float, whole: bool) -> float:
    """Return the least of 1, 2, 2.5 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * (1 - 1e-9))
    return max(float(math.ceil(step)), 1.0) if whole else step


def _show_ticks(ticks: Sequence[float], step: float) -> tuple[tuple[str, ...], str]:
    most = max(abs(tick) for tick in ticks)
    power = math.floor(math.log10(most)) if most else 0
    scale = power if power < -2 or power > 5 else 0
    digits = max(0, -math.floor(math.log10(step / 10.0**scale) + 1e-9))
    if digits < 6 and abs(round(step / 10.0**scale, digits) - step / 10.0**scale) > step / 10.0**scale * 1e-6:
        digits += 1  # a step of 2.5
    texts = tuple(f"{round(tick / 10.0**scale, digits) + 0.0:,.{digits}f}" for tick in ticks)
    return texts, f"× 10{str(scale).translate(_SUPERSCRIPTS)}" if scale else ""
