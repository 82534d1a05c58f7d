"""Contraction of one axis, column by column: one pass over memory, which more threads would not speed up.

Several products are added before they join the sum, which is loaded and stored that much more rarely.
"""

from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.signatures import read, write

__all__ = ["contract_columns"]


def contract_columns(x: NumpyArray, matrix: NumpyArray) -> NumpyArray:
    """See :func:`nlattn.kernels.contract_columns.contract_columns`."""
    if x.dtype not in (np.float32, np.float64) or x.dtype != matrix.dtype:
        return NotImplemented
    out: Any = np.zeros((x.shape[0], *x.shape[2:]), x.dtype)
    x, matrix = contiguous(x), contiguous(matrix)
    if x.shape[2] == 1:
        _rows[x.dtype](x[:, :, 0], matrix, out[:, 0])
    else:
        _slabs[x.dtype](x, matrix, out)
    return out


@compiled(lambda real: types.void(read(real, 3), read(real, 2), write(real, 2)))
def _rows(x, matrix, out):  # type: ignore[no-untyped-def]
    whole = x.shape[1] - x.shape[1] % 8
    for a in range(x.shape[0]):
        rows, sums = x[a], out[a]
        for b in range(0, whole, 8):
            x0, x1, x2, x3 = rows[b], rows[b + 1], rows[b + 2], rows[b + 3]
            x4, x5, x6, x7 = rows[b + 4], rows[b + 5], rows[b + 6], rows[b + 7]
            f0, f1, f2, f3 = matrix[b], matrix[b + 1], matrix[b + 2], matrix[b + 3]
            f4, f5, f6, f7 = matrix[b + 4], matrix[b + 5], matrix[b + 6], matrix[b + 7]
            for r in range(sums.size):
                first = (x0[r] * f0[r] + x1[r] * f1[r]) + (x2[r] * f2[r] + x3[r] * f3[r])
                second = (x4[r] * f4[r] + x5[r] * f5[r]) + (x6[r] * f6[r] + x7[r] * f7[r])
                sums[r] += first + second
        for b in range(whole, x.shape[1]):
            row, factor = rows[b], matrix[b]
            for r in range(sums.size):
                sums[r] += row[r] * factor[r]


@compiled(lambda real: types.void(read(real, 4), read(real, 2), write(real, 3)))
def _slabs(x, matrix, out):  # type: ignore[no-untyped-def]
    whole = x.shape[1] - x.shape[1] % 4
    for a in range(x.shape[0]):
        for b in range(0, whole, 4):
            f0, f1, f2, f3 = matrix[b], matrix[b + 1], matrix[b + 2], matrix[b + 3]
            for c in range(x.shape[2]):
                x0, x1, x2, x3, sums = x[a, b, c], x[a, b + 1, c], x[a, b + 2, c], x[a, b + 3, c], out[a, c]
                for r in range(sums.size):
                    sums[r] += (x0[r] * f0[r] + x1[r] * f1[r]) + (x2[r] * f2[r] + x3[r] * f3[r])
        for b in range(whole, x.shape[1]):
            factor = matrix[b]
            for c in range(x.shape[2]):
                row, sums = x[a, b, c], out[a, c]
                for r in range(sums.size):
                    sums[r] += row[r] * factor[r]
