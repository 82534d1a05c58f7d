"""Products of Fourier transforms: blocks of rows that stay in second-level cache from the GEMMs to the result."""

from collections.abc import Sequence

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray
from nlattn.backends.numba_cpu.runtime.pool import run, scratch_arrays
from nlattn.backends.numba_cpu.runtime.signatures import write

__all__ = ["spectral_product"]

# Bytes of two factors of a block, which second-level caches hold.
BYTES = 1 << 19
# Rows of a block, at least.
ROWS = 32


def spectral_product(*inputs: NumpyArray, transforms: Sequence[NumpyArray], m: int) -> NumpyArray:
    """See :func:`nlattn.kernels.spectral_product.spectral_product`."""
    dtype = inputs[0].dtype
    n = inputs[0].shape[0]
    arrays = (*inputs, *transforms)
    if n == 0 or dtype not in (np.float32, np.float64) or any(array.dtype != dtype for array in arrays):
        return NotImplemented
    width = 2 * (m // 2 + 1)
    step = max(ROWS, BYTES // (2 * width * dtype.itemsize))
    out = np.empty((n, m), dtype)
    multiply, pack = _multiply[dtype], _pack[dtype]

    def task(first: int) -> None:
        rows = slice(first, min(first + step, n))
        product, factor = scratch_arrays(dtype, *((rows.stop - first, width),) * 2)
        for k, (x, transform) in enumerate(zip(inputs, transforms, strict=True)):
            np.matmul(x[rows], transform, out=factor if k else product)
            if k:
                multiply(product, factor)
        pack(product, out[rows])

    run(task, [(i,) for i in range(0, n, step)])
    return out


@compiled(lambda real: types.void(write(real, 2), write(real, 2)))
def _multiply(product, factor):  # type: ignore[no-untyped-def]
    half = product.shape[1] // 2
    for i in range(product.shape[0]):
        real, imag, a, b = product[i, :half], product[i, half:], factor[i, :half], factor[i, half:]
        for j in range(real.size):
            re, im = real[j], imag[j]
            real[j] = re * a[j] - im * b[j]
            imag[j] = re * b[j] + im * a[j]


@compiled(lambda real: types.void(write(real, 2), write(real, 2)))
def _pack(product, out):  # type: ignore[no-untyped-def]
    half = product.shape[1] // 2
    for i in range(out.shape[0]):
        source, target = product[i], out[i]
        for j in range(half):
            target[j] = source[j]
        a, b = target[half:], source[half + 1 :]
        for j in range(a.size):
            a[j] = b[j]
