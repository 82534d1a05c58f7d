"""The largest entries of each row: one pass that keeps a sorted list of the best, or a partition where k is large."""

from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, threads
from nlattn.backends.numba_cpu.runtime.signatures import integer, read, write

__all__ = ["top_k"]

# Inserting costs k per new maximum; beyond this many entries a partition and a sort win.
MOST = 64
# The least part of a row for which a partition beats a sort of all.
PART = 4


def top_k(x: NumpyArray, k: int) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.top_k.top_k`."""
    n = x.shape[-1]
    if x.dtype not in (np.float32, np.float64) or not 0 < k <= n or x.size == 0 or (k > MOST and k > n // PART):
        return NotImplemented
    rows = contiguous(x).reshape(-1, n)
    values, indices = np.empty((len(rows), k), rows.dtype), np.empty((len(rows), k), np.int64)
    if k > MOST:
        run(lambda i: _by_partition(rows[i], values[i], indices[i]), [(i,) for i in range(len(rows))])
    else:
        step, insert = max(1, -(-len(rows) // (8 * threads()))), _insert[rows.dtype]
        tasks = [(i,) for i in range(0, len(rows), step)]
        run(lambda i: insert(rows, i, min(i + step, len(rows)), values, indices), tasks)
    return values.reshape(*x.shape[:-1], k), indices.reshape(*x.shape[:-1], k)


def _by_partition(row: Any, values: Any, indices: Any) -> None:
    k = values.size
    least = np.partition(row, row.size - k)[row.size - k]
    above, equal = np.flatnonzero(row > least), np.flatnonzero(row == least)
    chosen = np.sort(np.concatenate([above, equal[: k - above.size]]))
    indices[:] = chosen[np.argsort(-row[chosen], kind="stable")]
    values[:] = row[indices]


def _signature(real: Any) -> Any:
    return types.void(read(real, 2), integer, integer, write(real, 2), write(integer, 2))


@compiled(_signature)
def _insert(rows, first, last, values, indices):  # type: ignore[no-untyped-def]
    k = values.shape[1]
    for i in range(first, last):
        row = rows[i]
        filled = 0
        for j in range(row.size):
            x = row[j]
            if filled == k and not x > values[i, k - 1]:
                continue
            at = min(filled, k - 1)
            while at > 0 and x > values[i, at - 1]:
                values[i, at] = values[i, at - 1]
                indices[i, at] = indices[i, at - 1]
                at -= 1
            values[i, at] = x
            indices[i, at] = j
            filled = min(filled + 1, k)
