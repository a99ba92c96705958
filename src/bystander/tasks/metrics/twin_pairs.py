"""Which rows of a bench are twins: the same transcript, spoken by two people in one and by one person in the other."""

from __future__ import annotations

from collections.abc import Sequence


def find_twins(ids: Sequence[str], n_speakers: Sequence[int], twin_ids: Sequence[str | None]) -> list[tuple[int, int]]:
    """Return the positions of the two rows of each pair that is here whole, the two-speaker row first.

    A pair counts if each row names the other. The result is in the order of the two-speaker rows. All three arguments
    have one item a row.
    """
    places = {row_id: place for place, row_id in enumerate(ids)}
    pairs: list[tuple[int, int]] = []
    for place, (row_id, speakers, twin_id) in enumerate(zip(ids, n_speakers, twin_ids, strict=True)):
        if speakers != 2 or twin_id not in places:
            continue
        twin = places[twin_id]
        if n_speakers[twin] == 1 and twin_ids[twin] == row_id:
            pairs.append((place, twin))
    return pairs
