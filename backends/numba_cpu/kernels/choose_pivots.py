"""Pivots among candidates: rank-one updates of a block that stays in cache."""

from typing import Any

import numpy as np
from numba import njit

__all__ = ["choose_pivots"]


def choose_pivots(core: Any, floors: Any, threshold: float, draws: Any, most: int) -> tuple[Any, Any]:
    """See :func:`nlattn.kernels.choose_pivots.choose_pivots`."""
    if core.dtype not in (np.float32, np.float64):
        return NotImplemented
    size = len(core)
    greedy = draws is None
    uniform = np.zeros(size) if greedy else np.asarray(draws, np.float64)
    chosen, columns = np.empty(size, np.int64), np.zeros_like(core, order="C")
    rest = np.array(core, order="C")
    found = _choose(rest, np.asarray(floors, np.float64), threshold, uniform, greedy, most, chosen, columns)
    chosen = chosen[:found]
    return chosen, np.tril(columns[:found, chosen].T)


@njit(nogil=True, cache=True)
def _choose(rest, floors, threshold, draws, greedy, most, chosen, columns):  # type: ignore[no-untyped-def]
    size = rest.shape[0]
    before = np.empty(size, rest.dtype)
    for i in range(size):
        before[i] = rest[i, i]
    found = 0
    for step in range(size):
        if found == most:
            break
        at = step
        if greedy:
            at = 0
            for i in range(size):
                if rest[i, i] > rest[at, at]:
                    at = i
        value = rest[at, at]
        if greedy:
            if value <= floors[at] or (found > 0 and value < threshold):
                break
        elif value <= floors[at] or draws[at] * before[at] >= value:
            continue
        root = np.sqrt(value)
        column = columns[found]
        for i in range(size):
            column[i] = rest[i, at] / root
        for i in range(size):
            row, factor = rest[i], column[i]
            for j in range(size):
                row[j] -= factor * column[j]
        chosen[found] = at
        found += 1
    return found
