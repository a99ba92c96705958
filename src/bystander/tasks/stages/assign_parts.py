"""`assign_parts`: cuts finished rows into parts that share no query, no text and no pair of voices."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from bystander.schemas.errors import BuildError, ConfigError
from bystander.schemas.exclusions import VoicePair
from bystander.schemas.identity import derive_seed

_SEEDED_AS = "assign_parts"
_SPLIT_NAME = re.compile(r"\w+([.-]\w+)*")
_LEAST_NEED = 1e-6  # of a part that has all it aims at: it takes what fits nowhere else


@dataclass(frozen=True, slots=True)
class PartRow:
    """What decides where a row may go. `texts` are in their normalised form; a row of one voice has no `pair`."""

    id: str
    query: str
    texts: AbstractSet[str]
    pair: VoicePair | None
    label: str
    twin_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows that stay together: a row, or two twins."""

    rows: tuple[PartRow, ...]
    texts: frozenset[str]
    pairs: frozenset[VoicePair]


def parse_parts(text: str) -> dict[str, float]:
    """Return the shares of `train=0.8,validation=0.1,test=0.1`.

    Raises:
        ConfigError: it is not of this form, a name is no split's or comes twice, or the shares do not sum to 1.
    """
    parts: dict[str, float] = {}
    for item in text.split(","):
        name, _, number = (piece.strip() for piece in item.partition("="))
        try:
            share = float(number)
        except ValueError:
            share = math.nan
        if not _SPLIT_NAME.fullmatch(name) or not 0 < share < 1:
            raise ConfigError(f"--parts {text!r}: write name=share for each part, with shares between 0 and 1")
        if name in parts:
            raise ConfigError(f"--parts {text!r}: {name} comes twice")
        parts[name] = share
    if not math.isclose(sum(parts.values()), 1, abs_tol=1e-6):
        raise ConfigError(f"--parts {text!r}: the shares sum to {sum(parts.values()):g}, not to 1")
    return parts


def assign_parts(rows: Sequence[PartRow], parts: Mapping[str, float], seed: int) -> dict[str, str]:
    """Return the part of each row that has one, by id.

    Guaranteed: two rows of different parts have no query, no text and no pair of voices in common, and twins are in the
    same part or in none. A row that would break this is left out.

    Pairs of voices are dealt out first, the most frequent one first, each to the part that lacks most rows. Then each
    query, with all its rows, goes to the part where most of them fit, rows of labels that the part lacks counting for
    more; a text belongs to the part that first says it. Queries that share texts are placed one after the other, so
    that they tend to meet. Thus the sizes come close to `parts`, and so do the labels within them, where the rows allow
    it: with few voices and many rows a query, many rows are left out. The answer depends on the rows and the seed, not
    on the order of the rows.

    Args:
        rows: all rows of a build.
        parts: part to its share of the rows; the shares sum to 1.
        seed: settles ties.

    Raises:
        BuildError: there are fewer pairs of voices than parts, a part gets no row, or twins are of different queries.
    """
    units = _make_units(rows)
    owner_of_pair = _deal_pairs(units, parts, seed)
    owner_of_text: dict[str, str] = {}
    labels = Counter(row.label for row in rows)
    aims = {(part, label): share * count for part, share in parts.items() for label, count in labels.items()}
    got: Counter[tuple[str, str]] = Counter()
    assigned: dict[str, str] = {}
    for query, group in _order_groups(units, seed):
        fitting = {part: _find_fitting(group, part, owner_of_pair, owner_of_text) for part in parts}

        def rate(part: str, fitting: Mapping[str, list[_Unit]] = fitting, query: str = query) -> tuple[float, int]:
            rows = (row for unit in fitting[part] for row in unit.rows)
            needs = (max(_LEAST_NEED, 1 - got[part, row.label] / aims[part, row.label]) for row in rows)
            # Squared, so that a small part does not starve where most rows of a query fit a large one.
            return sum(need**2 for need in needs), derive_seed(seed, query, _SEEDED_AS, part)

        best = max(parts, key=rate)
        for unit in fitting[best]:
            owner_of_text.update((text, best) for text in unit.texts)
            got.update((best, row.label) for row in unit.rows)
            assigned.update((row.id, best) for row in unit.rows)
    empty = [part for part in parts if part not in set(assigned.values())]
    if empty:
        raise BuildError(
            f"part {empty[0]!r} would get no row: {len(rows)} rows of {len(owner_of_pair)} pairs of voices cannot be "
            f"cut into {len(parts)} parts that share nothing; ask for fewer or larger parts"
        )
    return assigned


def _make_units(rows: Sequence[PartRow]) -> list[_Unit]:
    by_id = {row.id: row for row in rows}
    units, done = [], set[str]()
    for row in sorted(rows, key=lambda row: row.id):
        if row.id in done:
            continue
        twin = by_id.get(row.twin_id or "")
        if twin is not None and twin.query != row.query:
            raise BuildError(f"rows {row.id} and {twin.id} are twins, but of different queries")
        together = (row,) if twin is None or twin.id in done else (row, twin)
        done.update(member.id for member in together)
        units.append(
            _Unit(
                together,
                frozenset(text for member in together for text in member.texts),
                frozenset(member.pair for member in together if member.pair is not None),
            )
        )
    return units


def _deal_pairs(units: Sequence[_Unit], parts: Mapping[str, float], seed: int) -> dict[VoicePair, str]:
    weights: Counter[VoicePair] = Counter()
    for unit in units:
        weights.update(dict.fromkeys(unit.pairs, len(unit.rows)))
    if weights and len(weights) < len(parts):
        raise BuildError(
            f"the rows have only {len(weights)} pairs of voices, too few for {len(parts)} parts of their own"
        )
    left = {part: share * weights.total() for part, share in parts.items()}
    order = sorted(weights, key=lambda pair: (-weights[pair], derive_seed(seed, " ".join(pair), _SEEDED_AS)))
    owners: dict[VoicePair, str] = {}
    for number, pair in enumerate(order):
        bare = [part for part in parts if part not in owners.values()]
        choice = bare if len(order) - number <= len(bare) else list(parts)
        owners[pair] = max(choice, key=lambda part: (left[part], part))
        left[owners[pair]] -= weights[pair]
    return owners


def _order_groups(units: Sequence[_Unit], seed: int) -> list[tuple[str, list[_Unit]]]:
    """Return the units of each query: large clusters of queries that share texts first, neighbours close together."""
    groups: dict[str, list[_Unit]] = defaultdict(list)
    for unit in units:
        groups[unit.rows[0].query].append(unit)
    queries = sorted(groups, key=lambda query: derive_seed(seed, query, _SEEDED_AS))
    at: dict[Hashable, int] = {("query", query): i for i, query in enumerate(queries)}
    edges: set[tuple[int, int]] = set()
    for i, query in enumerate(queries):
        for unit in groups[query]:
            edges.update((i, at.setdefault(("text", text), len(at))) for text in sorted(unit.texts))
    ones, ends = np.ones(len(edges)), np.array(sorted(edges), np.int64).reshape(-1, 2)
    graph = coo_array((ones, (ends[:, 0], ends[:, 1])), shape=(len(at), len(at))).tocsr()
    _, component = connected_components(graph, directed=False)
    members: dict[int, list[int]] = defaultdict(list)
    for i in range(len(queries)):
        members[component[i]].append(i)
    order: list[int] = []
    for cluster in sorted(members.values(), key=lambda cluster: (-len(cluster), cluster[0])):
        if len(cluster) > 1:
            reached = breadth_first_order(graph, cluster[0], directed=False, return_predecessors=False)
            cluster = [int(i) for i in reached if i < len(queries)]
        order += cluster
    return [(queries[i], groups[queries[i]]) for i in order]


def _find_fitting(
    group: Sequence[_Unit], part: str, owner_of_pair: Mapping[VoicePair, str], owner_of_text: Mapping[str, str]
) -> list[_Unit]:
    return [
        unit
        for unit in group
        if all(owner_of_pair[pair] == part for pair in unit.pairs)
        and all(owner_of_text.get(text, part) == part for text in unit.texts)
    ]
