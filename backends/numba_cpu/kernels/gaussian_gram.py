"""The Gaussian kernel of two sets of points: tiles of products by GEMM, exponentials while they are in cache."""

import functools
from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.pool import run
from nlattn.backends.numba_cpu.vector import blas, exponential
from nlattn.backends.numba_cpu.vector.blas import GEMM_ADDRESS, gemm
from nlattn.backends.numba_cpu.vector.exponential import exp_sum

__all__ = ["gaussian_gram"]

# Numbers of a tile of the result.
TILE = 2**16


def gaussian_gram(x: Any, y: Any, factor: float) -> Any:
    """See :func:`nlattn.kernels.gaussian_gram.gaussian_gram`."""
    if x.dtype != y.dtype or x.dtype not in (np.float32, np.float64) or x.size == 0 or y.size == 0:
        return NotImplemented
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    number = x.dtype.type
    factor = number(factor)
    with np.errstate(over="ignore"):
        left, right = factor * np.vecdot(x, x), factor * np.vecdot(y, y)
    out = np.empty((len(x), len(y)), x.dtype)
    rows = max(16, TILE // len(y))
    tile, address = _compiled(x.dtype.name), GEMM_ADDRESS[x.dtype.name]
    starts = range(0, len(x), rows)
    run(
        lambda i: tile(x[i : i + rows], y, left[i : i + rows], right, 2 * factor, address, out[i : i + rows]),
        [(i,) for i in starts],
    )
    return out


@functools.cache
def _compiled(dtype: str) -> Any:
    number = types.float32 if dtype == "float32" else types.float64

    def contiguous(ndim: int, readonly: bool = True) -> Any:
        return types.Array(number, ndim, "C", readonly=readonly)

    inputs = (contiguous(2), contiguous(2), contiguous(1), contiguous(1))
    return compiled(_tile, types.void(*inputs, number, types.int64, contiguous(2, False)), blas, exponential)


def _tile(x, y, left, right, twice, address, out):  # type: ignore[no-untyped-def]
    m, d = x.shape
    n = y.shape[0]
    zero = x.dtype.type(0)
    gemm(address, True, False, n, m, d, twice, y.ctypes.data, d, x.ctypes.data, d, zero, out.ctypes.data, n)
    for i in range(m):
        row, shift = out[i], left[i]
        for j in range(row.size):
            exponent = row[j] - (shift + right[j])
            row[j] = zero if exponent > zero else exponent
        exp_sum(row, zero)
