"""Triangular systems by LAPACK, one matrix after the other."""

import numpy as np
import scipy.linalg

from nlattn.backends.numba_cpu.runtime.layout import NumpyArray
from nlattn.backends.numba_cpu.runtime.pool import run

__all__ = ["solve_triangular"]

# Multiplications from which on a system is worth all threads of BLAS.
LARGE = 2**24


def solve_triangular(a: NumpyArray, b: NumpyArray, *, lower: bool = True) -> NumpyArray:
    """See :func:`nlattn.kernels.solve_triangular.solve_triangular`."""
    if a.dtype != b.dtype or a.dtype not in (np.float32, np.float64) or a.size == 0 or b.size == 0:
        return NotImplemented
    if np.any(np.diagonal(a, axis1=-2, axis2=-1) == 0):
        return NotImplemented  # LAPACK refuses what the specification answers with inf or NaN
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*lead, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    b = np.broadcast_to(b, (*lead, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    x = np.empty(b.shape, b.dtype)

    def task(i: int) -> None:
        x[i] = scipy.linalg.solve_triangular(a[i], b[i], lower=lower, check_finite=False)

    # Waking the threads of BLAS for little work can cost more than the work: on the pool it has one.
    if a[0].size * b.shape[-1] < LARGE:
        run(task, [(i,) for i in range(len(x))])
    else:
        for i in range(len(x)):
            task(i)
    return x.reshape(*lead, *b.shape[-2:])
