"""Which rows of a build are reviewed, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import derive_seed
from bystander.schemas.review_rows import ListedRow

FILTER_FIELDS = ("label", "scenario", "split", "language", "reason")
"""Fields that `--only` can name; `reason` is why a row was rejected, by itself or with its stage."""


def read_filters(given: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the values asked for of each field, from `field=value[,value…]`.

    Raises:
        ConfigError: one is not written so, or there is no such field.
    """
    filters: dict[str, frozenset[str]] = {}
    for text in given:
        field, _, values = text.partition("=")
        wanted = frozenset(value.strip() for value in values.split(",") if value.strip())
        if field.strip() not in FILTER_FIELDS or not wanted:
            raise ConfigError(f"--only {text}: write FIELD=VALUE with one of the fields {', '.join(FILTER_FIELDS)}")
        filters[field.strip()] = filters.get(field.strip(), frozenset()) | wanted
    return filters


def select_rows(
    rows: Iterable[ListedRow], only: Sequence[str] = (), sample: int | None = None, seed: int = 0
) -> list[str]:
    """Return the ids of the rows to review, in the build's order.

    Args:
        rows: those there are.
        only: filters of `read_filters`; a row must match all of them.
        sample: take so many of the rows that match. Which ones hangs on the seed and their ids alone, and a bigger
            sample has the smaller one in it.
        seed: of the sample.

    Raises:
        ConfigError: a filter is wrong, or no row matches.
    """
    filters = read_filters(only)
    listed = list(rows)
    ids = [row.id for row in listed if all(_matches(row, field, wanted) for field, wanted in filters.items())]
    if not ids:
        there = {field: sorted({_get(row, field)[0] for row in listed} - {""})[:12] for field in filters}
        known = "; ".join(f"{field} is {' or '.join(values) or 'empty in all'}" for field, values in there.items())
        raise ConfigError(f"--only: no row matches; in this build {known}")
    if sample is not None:
        chosen = {*sorted(ids, key=lambda row_id: (derive_seed(seed, row_id, "review_sample"), row_id))[:sample]}
        ids = [row_id for row_id in ids if row_id in chosen]
    return ids


def _matches(row: ListedRow, field: str, wanted: frozenset[str]) -> bool:
    return not wanted.isdisjoint(_get(row, field))


def _get(row: ListedRow, field: str) -> tuple[str, ...]:
    if field == "reason":
        return (row.reject_reason, row.reject_reason.rpartition(": ")[2])
    return (getattr(row, field),)
