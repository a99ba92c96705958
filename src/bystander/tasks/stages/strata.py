"""Which scenario and timing a query's draws take: a permutation of the scenarios for each query, seeded by its id.

All of it is integer arithmetic on a seed of (build seed, query id) and a hash of the scenario's key, so that neither
other queries nor other scenarios change the order of two scenarios of one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import derive_seed, digest_json
from bystander.schemas.taxonomy import Scenario, Taxonomy, Timing
from bystander.schemas.tpi_params import DrawScenarios

_SEEDED_AS = "draw_scenarios"
_TIMING_SALT = np.uint64(0xA0761D6478BD642F)
_RANK_SALT = np.uint64(0xE7037ED1A0B428DB)


@dataclass(frozen=True, slots=True)
class DrawnStrata:
    """The draws of n queries.

    `scenario`, shape (n, draws), is the index of the scenario of each draw, all different in a row; `timing`, same
    shape, that of the timing; `rank`, same shape, uint64, a hash by which draws of equal number are ordered among
    queries.
    """

    scenario: npt.NDArray[np.int16]
    timing: npt.NDArray[np.int8]
    rank: npt.NDArray[np.uint64]


def choose_scenarios(params: DrawScenarios, taxonomy: Taxonomy) -> tuple[Scenario, ...]:
    """Return the scenarios of the taxonomy that are to be drawn, in its order.

    Raises:
        ConfigError: the parameters name a scenario that the taxonomy has not, or no timing.
    """
    unknown = sorted(set(params.scenarios) - set(taxonomy.keys))
    if unknown:
        raise ConfigError(
            f"stages.draw_scenarios.scenarios: taxonomy {taxonomy.name!r} has no {', '.join(unknown)}; "
            f"it has {', '.join(taxonomy.keys)}"
        )
    if not params.timings:
        raise ConfigError("stages.draw_scenarios.timings: name at least one timing")
    return tuple(
        scenario for scenario in taxonomy.scenarios if not params.scenarios or scenario.key in params.scenarios
    )


def choose_timings(params: DrawScenarios) -> tuple[Timing, ...]:
    """Return the timings that are to be drawn, once each and in the order of `Timing`."""
    return tuple(timing for timing in Timing if timing in params.timings)


def draw_strata(
    query_ids: Sequence[str], build_seed: int, scenarios: Sequence[Scenario], timings: Sequence[Timing], draws: int
) -> DrawnStrata:
    """Draw the first `draws` strata of each query (at most one for each scenario)."""
    draws = min(draws, len(scenarios))
    seeds = np.array([derive_seed(build_seed, query_id, _SEEDED_AS) for query_id in query_ids], np.uint64)
    keys = np.array([int(digest_json(scenario.key)[:16], 16) for scenario in scenarios], np.uint64)
    mixed = mix_bits(seeds[:, None] ^ keys[None, :])  # (n, scenarios)
    order = np.argsort(mixed, axis=1, kind="stable")[:, :draws]
    drawn = np.take_along_axis(mixed, order, axis=1)
    return DrawnStrata(
        scenario=order.astype(np.int16),
        timing=(mix_bits(drawn ^ _TIMING_SALT) % np.uint64(len(timings))).astype(np.int8),
        rank=mix_bits(drawn ^ _RANK_SALT),
    )


def mix_bits(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64-bit values one to one: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
