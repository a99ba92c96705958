"""Digits in Mandarin text, in the characters with which they are read."""

from __future__ import annotations

import re
import unicodedata

_DIGITS = "零一二三四五六七八九"
_UNITS = ("", "十", "百", "千")
_GROUPS = ("", "万", "亿", "万亿")
_MAX_CARDINAL_DIGITS = 16


def read_digits(number: str) -> tuple[str, ...]:
    """Return the ways to read a number such as `1,234`, `3.5`, `20%`, `7:30` or `2025`, the most likely first."""
    text = unicodedata.normalize("NFKC", number).replace(",", "").rstrip(".:")
    if text.endswith("%"):
        return tuple("百分之" + form for form in read_digits(text[:-1]))
    clock = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", text)
    if clock:
        hour, minute = ("两" if clock[1] in ("2", "02") else read_cardinal(clock[1])), int(clock[2])
        return (f"{hour}点" + (f"{'零' if 0 < minute < 10 else ''}{read_cardinal(clock[2])}" if minute else ""),)
    parts = [part for part in re.split(r"[.:%]", text) if part]
    if len(parts) == 2 and "." in text:
        return (f"{read_cardinal(parts[0])}点{_spell(parts[1])}",)
    if len(parts) != 1:
        return ("".join(_spell(part) for part in parts),)
    forms = [read_cardinal(parts[0]), _spell(parts[0])]
    if parts[0] == "2":
        forms.append("两")
    elif re.fullmatch(r"2[0-9]{2,3}", parts[0]):
        forms.append("两" + forms[0][1:])
    if re.fullmatch(r"[12][0-9]{3}", parts[0]) or (len(parts[0]) > 1 and parts[0][0] == "0"):
        forms[:2] = forms[1::-1]  # a year, or a number that is spelt
    if "1" in parts[0] and len(parts[0]) > 2:
        forms.append(_spell(parts[0]).replace("一", "幺"))
    return tuple(dict.fromkeys(forms))


def read_cardinal(digits: str) -> str:
    """Return a whole number in characters: `read_cardinal("2050")` is 二千零五十."""
    digits = digits.lstrip("0")
    if not digits:
        return "零"
    if len(digits) > _MAX_CARDINAL_DIGITS:
        return _spell(digits)
    groups = [digits[max(0, end - 4) : end] for end in range(len(digits), 0, -4)]
    spoken, skipped = "", False
    for position in reversed(range(len(groups))):
        group = groups[position]
        if not int(group):
            skipped = True
            continue
        if spoken and (skipped or group[0] == "0"):
            spoken += "零"
        spoken += _read_group(group) + _GROUPS[position]
        skipped = False
    return spoken.removeprefix("一") if spoken.startswith("一十") else spoken


def _read_group(group: str) -> str:
    spoken, pending = "", False
    for position, digit in enumerate(group):
        unit = _UNITS[len(group) - 1 - position]
        if digit == "0":
            pending = bool(spoken)
            continue
        spoken += ("零" if pending else "") + _DIGITS[int(digit)] + unit
        pending = False
    return spoken


def _spell(digits: str) -> str:
    return "".join(_DIGITS[int(digit)] for digit in digits)
