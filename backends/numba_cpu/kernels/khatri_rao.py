"""The Khatri-Rao product of two matrices, without NumPy's start of a loop for each pair of rows."""

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.signatures import read, write

__all__ = ["khatri_rao"]


def khatri_rao(a: NumpyArray, b: NumpyArray) -> NumpyArray:
    """See :func:`nlattn.kernels.khatri_rao.khatri_rao`."""
    if a.dtype not in (np.float32, np.float64) or a.dtype != b.dtype:
        return NotImplemented
    out = np.empty((a.shape[0] * b.shape[0], a.shape[1]), a.dtype)
    _multiply[out.dtype](contiguous(a), contiguous(b), out)
    return out


@compiled(lambda real: types.void(read(real, 2), read(real, 2), write(real, 2)))
def _multiply(a, b, out):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        left = a[i]
        for j in range(b.shape[0]):
            right, row = b[j], out[i * b.shape[0] + j]
            for r in range(row.size):
                row[r] = left[r] * right[r]
