"""One LAPACK call a matrix, several at a time: one call has too little to do for several threads."""

from typing import Any

import numpy as np

from nlattn.backends.numba_cpu.pool import run

__all__ = ["eigh"]


def eigh(a: Any) -> tuple[Any, Any]:
    """See :func:`nlattn.kernels.eigh.eigh`."""
    n = a.shape[-1]
    if a.dtype not in (np.float32, np.float64) or a.size <= n * n:
        return NotImplemented
    matrices = a.reshape(-1, n, n)
    values, vectors = np.empty(matrices.shape[:-1], a.dtype), np.empty(matrices.shape, a.dtype)

    def task(i: int) -> None:
        values[i], vectors[i] = np.linalg.eigh(matrices[i])

    run(task, [(i,) for i in range(len(matrices))])
    return values.reshape(a.shape[:-1]), vectors.reshape(a.shape)
