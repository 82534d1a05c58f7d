"""Products of Fourier transforms: blocks of rows that stay in second-level cache from the GEMMs to the result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from nlattn.backends.numba_cpu.runtime.pool import run, scratch

__all__ = ["spectral_product"]

# Bytes of two factors of a block; rows of a block, at least.
BYTES = 1 << 19
ROWS = 32


def spectral_product(*inputs: Any, transforms: Sequence[Any], m: int) -> Any:
    """See :func:`nlattn.kernels.spectral_product.spectral_product`."""
    dtype = inputs[0].dtype
    n = inputs[0].shape[0]
    arrays = (*inputs, *transforms)
    if n == 0 or dtype not in (np.float32, np.float64) or any(array.dtype != dtype for array in arrays):
        return NotImplemented
    width = 2 * (m // 2 + 1)
    step = max(ROWS, BYTES // (2 * width * dtype.itemsize))
    out = np.empty((n, m), dtype)

    def task(first: int) -> None:
        rows = slice(first, min(first + step, n))
        count = rows.stop - first
        product, factor = scratch(2 * step * width, dtype)[: 2 * count * width].reshape(2, count, width)
        for k, (x, transform) in enumerate(zip(inputs, transforms, strict=True)):
            np.matmul(x[rows], transform, out=factor if k else product)
            if k:
                _multiply(product, factor)
        _pack(product, out[rows])

    run(task, [(i,) for i in range(0, n, step)])
    return out


@njit(nogil=True, cache=True)
def _multiply(product, factor):  # type: ignore[no-untyped-def]
    half = product.shape[1] // 2
    for i in range(product.shape[0]):
        real, imag, a, b = product[i, :half], product[i, half:], factor[i, :half], factor[i, half:]
        for j in range(real.size):
            re, im = real[j], imag[j]
            real[j] = re * a[j] - im * b[j]
            imag[j] = re * b[j] + im * a[j]


@njit(nogil=True, cache=True)
def _pack(product, out):  # type: ignore[no-untyped-def]
    half = product.shape[1] // 2
    for i in range(out.shape[0]):
        source, target = product[i], out[i]
        for j in range(half):
            target[j] = source[j]
        a, b = target[half:], source[half + 1 :]
        for j in range(a.size):
            a[j] = b[j]
