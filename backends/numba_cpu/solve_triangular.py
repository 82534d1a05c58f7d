"""Triangular systems by LAPACK, one matrix after the other."""

from typing import Any

import numpy as np
import scipy.linalg

__all__ = ["solve_triangular"]


def solve_triangular(a: Any, b: Any, *, lower: bool = True) -> Any:
    """See :func:`nlattn.kernels.solve_triangular.solve_triangular`."""
    if a.dtype != b.dtype or a.dtype not in (np.float32, np.float64) or a.size == 0 or b.size == 0:
        return NotImplemented
    if np.any(np.diagonal(a, axis1=-2, axis2=-1) == 0):
        return NotImplemented  # LAPACK refuses what the specification answers with inf or NaN
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*lead, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
    b = np.broadcast_to(b, (*lead, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    x = np.empty(b.shape, b.dtype)
    for i in range(len(x)):
        x[i] = scipy.linalg.solve_triangular(a[i], b[i], lower=lower, check_finite=False)
    return x.reshape(*lead, *b.shape[-2:])
