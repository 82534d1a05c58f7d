"""New columns of a partial Cholesky factor: a tile of rows goes through all products while it is in cache."""

import functools
from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import rows_contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch
from nlattn.backends.numba_cpu.vector import blas, exponential
from nlattn.backends.numba_cpu.vector.blas import GEMM_ADDRESS, gemm
from nlattn.backends.numba_cpu.vector.exponential import add

__all__ = ["cholesky_panel"]

ROWS = 256


def cholesky_panel(columns: Any, inverse: Any, factors: tuple[Any, ...], rows: tuple[Any, ...]) -> tuple[Any, Any]:
    """See :func:`nlattn.kernels.cholesky_panel.cholesky_panel`."""
    dtype, (n, b) = columns.dtype, columns.shape
    if dtype not in (np.float32, np.float64) or n == 0 or b == 0:
        return NotImplemented
    columns = np.ascontiguousarray(columns)
    across = np.ascontiguousarray(inverse.T)
    parts = [(rows_contiguous(f, dtype), np.ascontiguousarray(r)) for f, r in zip(factors, rows, strict=True)]
    places = np.asarray([(f.ctypes.data, f.strides[0], r.ctypes.data, f.shape[1]) for f, r in parts], np.int64).reshape(
        -1, 4
    )
    panel, squares = np.empty((n, b), dtype), np.empty(n)
    tile, address = _compiled(dtype.name), GEMM_ADDRESS[dtype.name]

    def task(first: int, last: int) -> None:
        tile(columns, across, places, address, first, last, scratch(ROWS * b, dtype), panel, squares)

    run(task, [(i, min(i + ROWS, n)) for i in range(0, n, ROWS)])
    return panel, squares


@functools.cache
def _compiled(dtype: str) -> Any:
    number = types.float32 if dtype == "float32" else types.float64
    signature = types.void(
        *(types.Array(number, 2, "C", readonly=True),) * 2,
        types.Array(types.int64, 2, "C", readonly=True),
        *(types.int64,) * 3,
        types.Array(number, 1, "C"),
        types.Array(number, 2, "C"),
        types.Array(types.float64, 1, "C"),
    )
    return compiled(_tile, signature, blas, exponential)


def _tile(columns, across, places, address, first, last, buffer, panel, squares):  # type: ignore[no-untyped-def]
    m, b = last - first, across.shape[0]
    item = columns.itemsize
    number = columns.dtype.type
    one, minus, zero = number(1), number(-1), number(0)
    rest = buffer[: m * b].reshape(m, b)
    for i in range(m):
        row, copy = columns[first + i], rest[i]
        for j in range(row.size):
            copy[j] = row[j]
    here = rest.ctypes.data
    for p in range(places.shape[0]):
        factor, stride, few, k = places[p]
        gemm(address, True, False, b, m, k, minus, few, k, factor + first * stride, stride // item, one, here, b)
    there = panel[first].ctypes.data
    gemm(address, True, False, b, m, b, one, across.ctypes.data, b, here, b, zero, there, b)
    for i in range(m):
        row = panel[first + i]
        total = np.float64(0)
        for j in range(row.size):
            x = np.float64(row[j])
            total = add(total, x * x)
        squares[first + i] = total
