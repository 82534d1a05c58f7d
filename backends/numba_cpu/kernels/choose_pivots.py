"""Pivots among candidates: rank-one updates of a block that stays in cache."""

from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray
from nlattn.backends.numba_cpu.runtime.signatures import flag, integer, read, write

__all__ = ["choose_pivots"]


def choose_pivots(
    core: NumpyArray, floors: NumpyArray, threshold: float, draws: NumpyArray | None, most: int
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.choose_pivots.choose_pivots`."""
    if core.dtype not in (np.float32, np.float64):
        return NotImplemented
    size = core.shape[0]
    uniform = np.zeros(size) if draws is None else np.asarray(draws, np.float64)
    chosen, columns = np.empty(size, np.int64), np.zeros_like(core, order="C")
    rest, before = np.array(core, order="C"), np.array(np.diagonal(core))
    limits = np.asarray(floors, np.float64), float(threshold)
    found = _choose[core.dtype](rest, before, *limits, uniform, draws is None, most, chosen, columns)
    chosen = chosen[:found]
    return chosen, np.tril(columns[:found, chosen].T)


def _signature(real: Any) -> Any:
    outputs = write(integer, 1), write(real, 2)
    limits = read(types.float64, 1), types.float64, read(types.float64, 1)
    return integer(write(real, 2), read(real, 1), *limits, flag, integer, *outputs)


@compiled(_signature)
def _choose(rest, before, floors, threshold, draws, greedy, most, chosen, columns):  # type: ignore[no-untyped-def]
    """The number of candidates chosen; `before` is the diagonal of `rest`, which is overwritten."""
    size = rest.shape[0]
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
