"""New columns of a partial Cholesky factor: a tile of rows goes through all products while it is in cache."""

from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous, rows_contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch_arrays
from nlattn.backends.numba_cpu.runtime.signatures import integer, read, write
from nlattn.backends.numba_cpu.vector.blas import gemm
from nlattn.backends.numba_cpu.vector.floats import add

__all__ = ["cholesky_panel"]

# Rows of a tile.
ROWS = 256


def cholesky_panel(
    columns: NumpyArray, inverse: NumpyArray, factors: tuple[NumpyArray, ...], rows: tuple[NumpyArray, ...]
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.cholesky_panel.cholesky_panel`."""
    dtype, (n, b) = columns.dtype, columns.shape
    if dtype not in (np.float32, np.float64) or n == 0 or b == 0:
        return NotImplemented
    arguments = contiguous(columns), contiguous(inverse.T)
    # The arrays must live as long as their addresses are used.
    parts = [(rows_contiguous(factor, dtype), contiguous(few)) for factor, few in zip(factors, rows, strict=True)]
    places = [(f.ctypes.data, f.strides[0], few.ctypes.data, f.shape[1]) for f, few in parts]
    addresses = np.asarray(places, np.int64).reshape(-1, 4)
    panel, squares = np.empty((n, b), dtype), np.empty(n)
    compute = _tile[dtype]

    def task(first: int) -> None:
        last = min(first + ROWS, n)
        (rest,) = scratch_arrays(dtype, (last - first, b))
        compute(*arguments, addresses, first, rest, panel, squares)

    run(task, [(i,) for i in range(0, n, ROWS)])
    return panel, squares


def _signature(real: Any) -> Any:
    inputs = read(real, 2), read(real, 2), read(integer, 2), integer
    return types.void(*inputs, write(real, 2), write(real, 2), write(types.float64, 1))


@compiled(_signature)
def _tile(columns, across, places, first, rest, panel, squares):  # type: ignore[no-untyped-def]
    """The rows from `first` on of the result; `places` has the address and row stride of factors, and those of rows."""
    m, b = rest.shape
    real, item = columns.dtype.type, columns.itemsize
    for i in range(m):
        row, copy = columns[first + i], rest[i]
        for j in range(row.size):
            copy[j] = row[j]
    here, there = rest.ctypes.data, panel[first].ctypes.data
    for p in range(places.shape[0]):
        factor, stride, few, k = places[p, 0], places[p, 1], places[p, 2], places[p, 3]
        gemm(True, False, b, m, k, real(-1), few, k, factor + first * stride, stride // item, real(1), here, b)
    gemm(True, False, b, m, b, real(1), across.ctypes.data, b, here, b, real(0), there, b)
    for i in range(m):
        row, total = panel[first + i], np.float64(0)
        for j in range(row.size):
            x = np.float64(row[j])
            total = add(total, x * x)
        squares[first + i] = total
