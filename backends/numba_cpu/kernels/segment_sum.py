"""Sums of rows by segment: one pass over the rows, each added to its sums in float64."""

import math
from typing import Any

import numpy as np
from numba import njit

from nlattn.backends.numba_cpu.runtime.pool import run

__all__ = ["segment_sum"]

# Of one task, both at least: numbers that it adds, and columns that it takes.
GRAIN = 1 << 16
COLUMNS = 64


def segment_sum(x: Any, index: Any, m: int, weights: Any = None) -> Any:
    """See :func:`nlattn.kernels.segment_sum.segment_sum`."""
    n, c = x.shape[-2:]
    k = index.shape[-1]
    lead = np.broadcast_shapes(x.shape[:-2], index.shape[:-2])
    count = math.prod(lead)
    if x.dtype not in (np.float32, np.float64) or 0 in (n, c, m, k, count):
        return NotImplemented
    if np.min(index) < 0 or np.max(index) >= m:
        raise IndexError(f"index must lie between 0 and {m - 1}, got {np.min(index)} to {np.max(index)}")
    if weights is None:
        weights = np.ones((n, k), x.dtype)
    x_of, x = _numbered(x, lead)
    index_of, index = _numbered(index.astype(np.int64, copy=False), lead)
    weights_of, weights = _numbered(weights, lead)
    if c == 1:
        out = np.empty((count, m), x.dtype)
        step = max(1, GRAIN // (n * k))
        run(
            lambda b: _add_numbers(
                x[:, :, 0], index, weights, x_of, index_of, weights_of, b, min(b + step, count), out
            ),
            [(b,) for b in range(0, count, step)],
        )
        return out.reshape(*lead, m, 1)
    # Each part of the rows has sums of its own, which must be few beside what goes into them. How the work is cut
    # depends on its size alone, and so does the order of the additions.
    tasks = max(1, min(8, n * k * c // GRAIN))
    parts = max(1, min(tasks, n * k // (8 * m)))
    columns = max(COLUMNS, -(-c * parts // tasks))
    sums = np.zeros((parts, count, m, c))
    arrays = (x, index, weights, sums)

    def task(b: int, part: int, left: int) -> None:
        rows = n * part // parts, n * (part + 1) // parts
        _add(*arrays, part, b, x_of[b], index_of[b], weights_of[b], *rows, left, min(left + columns, c))

    run(task, [(b, p, j) for b in range(count) for p in range(parts) for j in range(0, c, columns)])
    total = sums[0] if parts == 1 else np.sum(sums, axis=0)
    return total.reshape(*lead, m, c).astype(x.dtype, copy=False)


def _numbered(array: Any, lead: tuple[int, ...]) -> tuple[Any, Any]:
    """Which element of the array, its leading axes flattened, belongs to each element of `lead`; and the array."""
    size = math.prod(array.shape[:-2])
    which = np.broadcast_to(np.arange(size).reshape(array.shape[:-2]), lead).reshape(-1)
    return which, np.ascontiguousarray(array).reshape(size, *array.shape[-2:])


@njit(nogil=True, cache=True)
def _add(x, index, weights, sums, part, b, x_of, index_of, weights_of, begin, end, left, right):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        row = x[x_of, i, left:right]
        for k in range(index.shape[2]):
            total, w = sums[part, b, index[index_of, i, k], left:right], weights[weights_of, i, k]
            for j in range(row.size):
                total[j] += w * row[j]


@njit(nogil=True, cache=True)
def _add_numbers(x, index, weights, x_of, index_of, weights_of, first, last, out):  # type: ignore[no-untyped-def]
    sums = np.empty(out.shape[1])
    for b in range(first, last):
        sums[:] = 0
        row, at, weight = x[x_of[b]], index[index_of[b]], weights[weights_of[b]]
        for i in range(row.size):
            for k in range(at.shape[1]):
                sums[at[i, k]] += weight[i, k] * row[i]
        for s in range(sums.size):
            out[b, s] = sums[s]
