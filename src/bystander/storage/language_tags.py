"""Names of languages as files give them, as primary subtags."""

from __future__ import annotations

_NAMES = {"english": "en", "eng": "en", "mandarin": "zh", "chinese": "zh", "zho": "zh", "cmn": "zh"}


def take_primary_subtag(name: str) -> str:
    """Return the primary subtag of a language's name or tag: `en` for `en-US`, `English` or `eng`; "" for none."""
    word = name.strip().casefold().replace("_", "-").encode("utf-8", "replace").decode("utf-8")[:40]
    subtag = word.split("-")[0]
    return _NAMES.get(word) or _NAMES.get(subtag, subtag)
