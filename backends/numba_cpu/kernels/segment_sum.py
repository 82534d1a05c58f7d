"""Sums of rows by segment: one pass over the rows, each added to its sums in float64."""

import math
from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch
from nlattn.backends.numba_cpu.runtime.signatures import integer, read, strided, write

__all__ = ["segment_sum"]

# Numbers that a task adds, at least.
GRAIN = 1 << 16
# Columns that a task takes, at least.
COLUMNS = 64


def segment_sum(x: NumpyArray, index: NumpyArray, m: int, weights: NumpyArray | None = None) -> NumpyArray:
    """See :func:`nlattn.kernels.segment_sum.segment_sum`."""
    (n, c), k = x.shape[-2:], index.shape[-1]
    lead = np.broadcast_shapes(x.shape[:-2], index.shape[:-2])
    if x.dtype not in (np.float32, np.float64) or 0 in (n, c, m, k, *lead):
        return NotImplemented
    if np.min(index) < 0 or np.max(index) >= m:
        raise IndexError(f"index must lie between 0 and {m - 1}, got {np.min(index)} to {np.max(index)}")
    factors = np.ones((n, k), x.dtype) if weights is None else weights
    parts = [_numbered(x, lead, x.dtype), _numbered(index, lead, np.int64), _numbered(factors, lead, x.dtype)]
    arrays, which = [array for _, array in parts], [number for number, _ in parts]
    sums = _of_numbers(arrays, which, m) if c == 1 else _of_rows(arrays, which, m)
    return sums.reshape(*lead, m, c).astype(x.dtype, copy=False)


def _of_numbers(arrays: list[Any], which: list[Any], m: int) -> Any:
    """The sums where a row is a single number."""
    x, index, weights = arrays
    elements = np.stack(which, axis=1)
    out = np.empty((len(elements), m), x.dtype)
    step, compute = max(1, GRAIN // index[0].size), _add_numbers[x.dtype]

    def task(first: int) -> None:
        last = min(first + step, len(elements))
        compute(x[:, :, 0], index, weights, elements, first, last, scratch(m, np.dtype(np.float64))[:m], out)

    run(task, [(i,) for i in range(0, len(elements), step)])
    return out


def _of_rows(arrays: list[Any], which: list[Any], m: int) -> Any:
    x, index, weights = arrays
    (n, k), c, count = index.shape[1:], x.shape[2], len(which[0])
    own_x, own_index, own_weights = (numbers.tolist() for numbers in which)
    # Each part of the rows has sums of its own, which must be few beside what goes into them. How the work is cut
    # depends on its size alone, and so does the order of the additions.
    tasks = max(1, min(8, n * k * c // GRAIN))
    parts = max(1, min(tasks, n * k // (8 * m)))
    columns = max(COLUMNS, -(-c * parts // tasks))
    sums = np.zeros((parts, count, m, c))
    compute = _add[x.dtype]

    def task(b: int, part: int, left: int) -> None:
        rows = n * part // parts, n * (part + 1) // parts
        own = x[own_x[b]], index[own_index[b]], weights[own_weights[b]]
        compute(*own, sums[part, b], *rows, left, min(left + columns, c))

    run(task, [(b, p, j) for b in range(count) for p in range(parts) for j in range(0, c, columns)])
    return sums[0] if parts == 1 else np.sum(sums, axis=0)


def _numbered(array: Any, lead: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """Which element of the array, its leading axes flattened, belongs to each element of `lead`; and the array."""
    size = math.prod(array.shape[:-2])
    which = np.broadcast_to(np.arange(size).reshape(array.shape[:-2]), lead).reshape(-1)
    return which, contiguous(array, dtype).reshape(size, *array.shape[-2:])


def _signature_of_rows(real: Any) -> Any:
    inputs = read(real, 2), read(integer, 2), read(real, 2), write(types.float64, 2)
    return types.void(*inputs, *(integer,) * 4)


@compiled(_signature_of_rows)
def _add(x, index, weights, sums, begin, end, left, right):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        row = x[i, left:right]
        for k in range(index.shape[1]):
            total, w = sums[index[i, k], left:right], weights[i, k]
            for j in range(row.size):
                total[j] += w * row[j]


def _signature_of_numbers(real: Any) -> Any:
    inputs = strided(real, 2), read(integer, 3), read(real, 3), read(integer, 2)
    return types.void(*inputs, integer, integer, write(types.float64, 1), write(real, 2))


@compiled(_signature_of_numbers)
def _add_numbers(x, index, weights, which, first, last, sums, out):  # type: ignore[no-untyped-def]
    for b in range(first, last):
        sums[:] = 0
        row, at, weight = x[which[b, 0]], index[which[b, 1]], weights[which[b, 2]]
        for i in range(row.size):
            for k in range(at.shape[1]):
                sums[at[i, k]] += weight[i, k] * row[i]
        for s in range(sums.size):
            out[b, s] = sums[s]
