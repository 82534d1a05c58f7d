"""Cheapest moves between clusters: one pass over the costs, each row against the minima of its cluster."""

import math

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.pool import run
from nlattn.backends.numba_cpu.runtime.signatures import integer, read, write

__all__ = ["cheapest_moves"]


def cheapest_moves(costs: NumpyArray, labels: NumpyArray, most: int) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.cheapest_moves.cheapest_moves`."""
    lead, (n, k) = costs.shape[:-2], costs.shape[-2:]
    count = math.prod(lead)
    if costs.dtype not in (np.float32, np.float64) or 0 in (count, n, k):
        return NotImplemented
    costs = contiguous(costs).reshape(count, n, k)
    labels = contiguous(labels, np.int64).reshape(count, n)
    least = np.full((count, k, k), np.inf, costs.dtype)
    mover = np.zeros((count, k, k), np.int64)
    moves = _moves[costs.dtype]
    run(lambda b: moves(costs[b], labels[b], least[b], mover[b]), [(b,) for b in range(count)])
    return least.reshape(*lead, k, k), mover.reshape(*lead, k, k)


@compiled(lambda real: types.void(read(real, 2), read(integer, 1), write(real, 2), write(integer, 2)))
def _moves(costs, labels, least, mover):  # type: ignore[no-untyped-def]
    k = costs.shape[1]
    for i in range(costs.shape[0]):
        a = labels[i]
        if a == k:
            continue
        row, own, low, point = costs[i], costs[i, a], least[a], mover[a]
        for b in range(row.size):
            change = row[b] - own
            better = change < low[b]
            low[b] = change if better else low[b]
            point[b] = i if better else point[b]
