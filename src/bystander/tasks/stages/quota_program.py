"""The integer programme behind `select_quotas`: how many rows to take from each cell of scenario, label and timing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, vstack

from bystander.schemas.errors import StageContractError

Counts = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Rows to take from each cell, shape (scenarios, labels, timings); `twins` of the `pairs` bring a hard negative."""

    pairs: Counts
    twins: Counts


def solve_cells(
    available: Counts,
    twins_available: Counts,
    label_targets: Counts,
    hard_negatives: int,
    rng: np.random.Generator,
    pinned: CellCounts | None = None,
) -> CellCounts:
    """Choose cell counts that exceed no target, by these aims in order:

    1. as many pairs as the targets and the rows allow; 2. as many hard negatives; 3. the poorest scenario as rich as
    can be; 4. scenarios as equal as can be; 5. timings as equal as can be within each scenario and 6. over all; 7.
    what is still free is settled by random weights, so that the answer is unique.

    A scenario's target is its equal share of all pairs; where the shares do not come out even, as many scenarios as
    needed may have one row more. `available` and `twins_available` have shape (scenarios, labels, timings),
    `label_targets` (labels,).

    Rows that are `pinned` are taken in any case, and with those of them that have a twin, the twin; another twin has to
    belong to another pair. They are among those available, and exceed no target.
    """
    n_scenarios, n_labels, n_timings = available.shape
    cells = available.size
    share, remainder = divmod(int(label_targets.sum()), n_scenarios)
    # Variables: x (cells), y (cells), r (scenarios: one row more), m (poorest scenario), e (scenarios: distance from
    # the mean), b (scenarios: timing imbalance), c (imbalance over all).
    at_y, at_r = cells, 2 * cells
    at_m = at_r + n_scenarios
    at_e, at_b = at_m + 1, at_m + 1 + n_scenarios
    at_c = at_b + n_scenarios
    size = at_c + 1
    programme = _Programme(size)
    index = np.arange(cells).reshape(available.shape)

    def total_of(cell_indices: Counts, factor: float = 1.0) -> dict[int, float]:
        return {int(i): factor for i in cell_indices.ravel()}

    for label in range(n_labels):
        programme.limit(total_of(index[:, label]), high=float(label_targets[label]))
    programme.limit(total_of(index + at_y), high=float(hard_negatives))
    programme.limit({at_r + s: 1.0 for s in range(n_scenarios)}, high=float(remainder))
    for s in range(n_scenarios):
        programme.limit(total_of(index[s]) | {at_r + s: -1.0}, high=float(share))
        programme.limit(total_of(index[s]) | {at_m: -1.0}, low=0.0)
        for t in range(n_timings):
            for other in range(n_timings):
                if t != other:
                    gap = total_of(index[s, :, t]) | total_of(index[s, :, other], -1.0)
                    programme.limit(gap | {at_b + s: -1.0}, high=0.0)
    for t in range(n_timings):
        for other in range(n_timings):
            if t != other:
                gap = total_of(index[:, :, t]) | total_of(index[:, :, other], -1.0)
                programme.limit(gap | {at_c: -1.0}, high=0.0)
    fixed, fixed_twins = (
        (pinned.pairs.ravel(), pinned.twins.ravel()) if pinned is not None else np.zeros((2, cells), np.int64)
    )
    for i in range(cells):
        programme.limit({at_y + i: 1.0, i: -1.0}, high=float(fixed_twins[i] - fixed[i]))
    programme.low[:cells] = fixed
    programme.low[at_y:at_r] = fixed_twins

    high = np.full(size, np.inf)
    high[:cells] = np.minimum(available, label_targets[None, :, None]).ravel()
    high[at_y:at_r] = twins_available.ravel()
    high[at_r:at_m] = 1
    whole = np.ones(size)
    whole[at_e:] = 0

    pairs = programme.reach(total_of(index), high, whole, greatest=True)
    programme.reach(total_of(index + at_y), high, whole, greatest=True)
    programme.reach({at_m: 1.0}, high, whole, greatest=True)
    for s in range(n_scenarios):
        for sign in (1.0, -1.0):
            distance = total_of(index[s], sign * n_scenarios) | {at_e + s: -1.0}
            programme.limit(distance, high=sign * round(pairs))
    programme.reach({at_e + s: 1.0 for s in range(n_scenarios)}, high, whole, greatest=False)
    programme.reach({at_b + s: 1.0 for s in range(n_scenarios)}, high, whole, greatest=False)
    programme.reach({at_c: 1.0}, high, whole, greatest=False)
    weights = dict(enumerate(rng.random(at_m).tolist()))
    answer = programme.solve(weights, high, whole)
    return CellCounts(
        pairs=np.rint(answer[:cells]).astype(np.int64).reshape(available.shape),
        twins=np.rint(answer[at_y:at_r]).astype(np.int64).reshape(available.shape),
    )


class _Programme:
    """Linear constraints that grow, and the solver."""

    def __init__(self, size: int) -> None:
        self.low: _Floats = np.zeros(size)
        """The least value of each variable."""
        self._size = size
        self._rows: list[dict[int, float]] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._built = csr_array((0, size))

    def limit(self, row: dict[int, float], low: float = -np.inf, high: float = np.inf) -> None:
        """Hold a weighted sum of variables within bounds."""
        self._rows.append(row)
        self._low.append(low)
        self._high.append(high)

    def reach(self, aim: dict[int, float], high: _Floats, whole: _Floats, greatest: bool) -> float:
        """Optimise one aim and hold all later ones to its value, which is a whole number; return it."""
        signed = {i: -value for i, value in aim.items()} if greatest else aim
        answer = self.solve(signed, high, whole)
        best = float(round(sum(answer[i] * value for i, value in aim.items())))
        self.limit(aim, low=best if greatest else -np.inf, high=np.inf if greatest else best)
        return best

    def solve(self, aim: dict[int, float], high: _Floats, whole: _Floats) -> _Floats:
        """Return the variables that make `aim` least."""
        fresh = self._rows[self._built.shape[0] :]
        if fresh:
            entries = [(i, j, value) for i, row in enumerate(fresh) for j, value in row.items()]
            rows, columns, values = zip(*entries, strict=True)
            added = coo_array((values, (rows, columns)), shape=(len(fresh), self._size))
            self._built = csr_array(vstack([self._built, added.tocsr()]))
        costs = np.zeros(self._size)
        for i, value in aim.items():
            costs[i] = value
        result = milp(
            costs,
            integrality=whole,
            bounds=Bounds(self.low, high),
            constraints=LinearConstraint(self._built, self._low, self._high),
            options={"mip_rel_gap": 0.0},
        )
        if result.x is None:
            raise StageContractError(f"select_quotas: the solver found no selection ({result.message})")
        return np.asarray(result.x, float)
