"""Contraction of one axis, column by column: one pass over memory, which more threads would not speed up."""

from typing import Any

import numpy as np
from numba import njit

__all__ = ["contract_columns"]


def contract_columns(x: Any, matrix: Any) -> Any:
    """See :func:`nlattn.kernels.contract_columns.contract_columns`."""
    if x.dtype not in (np.float32, np.float64) or x.dtype != matrix.dtype:
        return NotImplemented
    out = np.zeros((x.shape[0], *x.shape[2:]), x.dtype)
    _contract_columns(np.ascontiguousarray(x), np.ascontiguousarray(matrix), out)
    return out


@njit(nogil=True, cache=True)
def _contract_columns(x, matrix, out):  # type: ignore[no-untyped-def]
    for a in range(x.shape[0]):
        for b in range(x.shape[1]):
            factor = matrix[b]
            for c in range(x.shape[2]):
                row, sums = x[a, b, c], out[a, c]
                for r in range(sums.size):
                    sums[r] += row[r] * factor[r]
