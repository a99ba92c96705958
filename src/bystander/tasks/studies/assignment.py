"""Who rates what: every item equally often, nobody the same scenario twice, and both sides of A/B equally often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bystander.schemas.errors import InputError


def assign_items(groups: Mapping[str, str], raters: int, per_rater: int, rng: np.random.Generator) -> list[list[str]]:
    """Return the ids of the items that each rater rates, in a random order.

    Each rater gets `per_rater` items of as many different groups, and each item is rated by n or n + 1 raters.

    Groups are dealt out one after another, each to those raters who have most left to get, chosen at random among
    equals. A group goes to at most all raters, so that what they have left never differs by more than one, and all are
    full when everything is dealt.

    Args:
        groups: item id to its group, a scenario that no rater meets twice.
        raters: number of raters.
        per_rater: number of ratings of each.
        rng: decides whatever the rules leave open.

    Raises:
        InputError: there are too few scenarios, or too many items of one, to keep the rules.
    """
    quotas = _set_quotas(groups, raters, per_rater, rng)
    members: dict[str, list[str]] = {}
    for item in sorted(groups):
        members.setdefault(groups[item], []).append(item)
    left = np.full(raters, per_rater)
    given: list[list[str]] = [[] for _ in range(raters)]
    for group in rng.permutation(sorted(members)).tolist():
        dealt = [item for item in members[group] for _ in range(quotas[item])]
        # A stable sort of a random order breaks ties at random.
        order = rng.permutation(raters)
        takers = order[np.argsort(-left[order], kind="stable")][: len(dealt)]
        for item, rater in zip(dealt, rng.permutation(takers).tolist(), strict=True):
            given[rater].append(item)
            left[rater] -= 1
    return [[items[at] for at in rng.permutation(len(items)).tolist()] for items in given]


def _set_quotas(groups: Mapping[str, str], raters: int, per_rater: int, rng: np.random.Generator) -> dict[str, int]:
    """Return how often each item is rated: equally often, give or take one, and no group more often than raters are."""
    if not groups:
        raise InputError("items: there are none to rate")
    scenarios = len(set(groups.values()))
    if per_rater > scenarios:
        raise InputError(
            f"per_rater: {per_rater} ratings of each rater need as many scenarios, of which there are {scenarios}; "
            "take a larger bench or fewer ratings"
        )
    times, extra = divmod(raters * per_rater, len(groups))
    quotas = dict.fromkeys(sorted(groups), times)
    totals: dict[str, int] = {}
    for item in quotas:
        totals[groups[item]] = totals.get(groups[item], 0) + times
    for item in rng.permutation(sorted(groups)).tolist():
        if extra and totals[groups[item]] < raters:
            quotas[item] += 1
            totals[groups[item]] += 1
            extra -= 1
    if extra or max(totals.values()) > raters:
        raise InputError(
            f"raters: {raters} are too few, since each scenario with all its items would be rated "
            f"{max(totals.values()) + bool(extra)} times and nobody may meet it twice; take more raters, fewer ratings "
            "of each, or fewer systems"
        )
    return quotas


def balance_sides(sheets: Sequence[Sequence[str]], rng: np.random.Generator) -> list[list[bool]]:
    """Return, for each place of each sheet, whether the pair's first reply stands first.

    Of the places of a sheet as of those of an item, half have it first, give or take one. Sheets and items are the two
    sides of a graph whose edges are the places: walked along closed trails, every other edge is taken, which leaves
    each node with both kinds equally often. Nodes of an odd number of edges are joined by extra edges to one of two
    extra nodes, one a side, whose edges are thrown away afterwards.
    """
    ends: list[tuple[int, int]] = []
    places: list[tuple[int, int]] = []
    items = {item: len(sheets) + at for at, item in enumerate(sorted({i for sheet in sheets for i in sheet}))}
    for number, sheet in enumerate(sheets):
        for place, item in enumerate(sheet):
            ends.append((number, items[item]))
            places.append((number, place))
    _even_out(ends, len(sheets), len(sheets) + len(items))
    edges: list[list[int]] = [[] for _ in range(len(sheets) + len(items) + 2)]
    for edge, (one, other) in enumerate(ends):
        edges[one].append(edge)
        edges[other].append(edge)
    for at in edges:
        at[:] = [at[index] for index in rng.permutation(len(at)).tolist()]
    sides = _walk(ends, edges, rng)
    result = [[False] * len(sheet) for sheet in sheets]
    for edge, (number, place) in enumerate(places):
        result[number][place] = sides[edge]
    return result


def _even_out(ends: list[tuple[int, int]], sheets: int, nodes: int) -> None:
    """Add edges until every node has an even number of them."""
    degrees = np.zeros(nodes + 2, int)
    for one, other in ends:
        degrees[one] += 1
        degrees[other] += 1
    # The extra node of each side is joined to the odd nodes of the other side.
    of_sheets, of_items = nodes, nodes + 1
    for node in np.flatnonzero(degrees[:nodes] % 2).tolist():
        extra = of_items if node < sheets else of_sheets
        ends.append((node, extra) if node < sheets else (extra, node))
        degrees[extra] += 1
    if degrees[of_sheets] % 2:  # then the other one is odd as well
        ends.append((of_sheets, of_items))


def _walk(ends: Sequence[tuple[int, int]], edges: list[list[int]], rng: np.random.Generator) -> list[bool]:
    """Return for each edge whether it was walked from the sheet's side, along closed trails over all of them."""
    sides = [False] * len(ends)
    walked = [False] * len(ends)
    for start in rng.permutation(len(edges)).tolist():
        node = start
        while edges[node]:
            edge = edges[node].pop()
            if walked[edge]:
                continue
            walked[edge] = True
            one, other = ends[edge]
            sides[edge] = node == one
            node = other if node == one else one
    return sides
