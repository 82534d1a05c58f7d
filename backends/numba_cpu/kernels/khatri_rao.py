"""The Khatri-Rao product of two matrices, without NumPy's start of a loop for each pair of rows."""

from typing import Any

import numpy as np
from numba import njit

__all__ = ["khatri_rao"]


def khatri_rao(a: Any, b: Any) -> Any:
    """See :func:`nlattn.kernels.khatri_rao.khatri_rao`."""
    if a.dtype not in (np.float32, np.float64) or a.dtype != b.dtype:
        return NotImplemented
    out = np.empty((a.shape[0] * b.shape[0], a.shape[1]), a.dtype)
    _khatri_rao(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


@njit(nogil=True, cache=True)
def _khatri_rao(a, b, out):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        left = a[i]
        for j in range(b.shape[0]):
            right, row = b[j], out[i * b.shape[0] + j]
            for r in range(row.size):
                row[r] = left[r] * right[r]
