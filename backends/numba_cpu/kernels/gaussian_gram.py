"""The Gaussian kernel of two sets of points: tiles of products by GEMM, exponentials while they are in cache."""

from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.pool import run
from nlattn.backends.numba_cpu.runtime.signatures import read, write
from nlattn.backends.numba_cpu.vector.blas import gemm
from nlattn.backends.numba_cpu.vector.exponential import exp_sum

__all__ = ["gaussian_gram"]

# Numbers of a tile of the result: 256 kB in float32, which second-level caches hold.
TILE = 2**16
# Rows of a tile, at least.
ROWS = 16


def gaussian_gram(x: NumpyArray, y: NumpyArray, factor: float) -> NumpyArray:
    """See :func:`nlattn.kernels.gaussian_gram.gaussian_gram`."""
    if x.dtype != y.dtype or x.dtype not in (np.float32, np.float64) or x.size == 0 or y.size == 0:
        return NotImplemented
    points, others, real = contiguous(x), contiguous(y), x.dtype.type
    with np.errstate(over="ignore"):
        left, right = (real(factor) * np.vecdot(z, z) for z in (points, others))
    out: Any = np.empty((len(points), len(others)), x.dtype)
    rows, compute = max(ROWS, TILE // len(others)), _tile[x.dtype]

    def task(i: int) -> None:
        some = slice(i, i + rows)
        compute(points[some], others, left[some], right, 2 * real(factor), out[some])

    run(task, [(i,) for i in range(0, len(points), rows)])
    return out


def _signature(real: Any) -> Any:
    return types.void(read(real, 2), read(real, 2), read(real, 1), read(real, 1), real, write(real, 2))


@compiled(_signature)
def _tile(x, y, left, right, twice, out):  # type: ignore[no-untyped-def]
    """out = exp(twice x y^T - left - right^T), with exponents that rounding has made positive set to 0."""
    (m, d), n = x.shape, y.shape[0]
    zero = x.dtype.type(0)
    gemm(True, False, n, m, d, twice, y.ctypes.data, d, x.ctypes.data, d, zero, out.ctypes.data, n)
    for i in range(m):
        row, shift = out[i], left[i]
        for j in range(row.size):
            exponent = row[j] - (shift + right[j])
            row[j] = zero if exponent > zero else exponent
        exp_sum(row, zero)
