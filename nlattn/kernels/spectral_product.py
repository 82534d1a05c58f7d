"""Products of Fourier transforms, from which the sketch of a tensor product is made."""

import math
from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["spectral_product"]

# Numbers that a block of rows holds between the products.
BLOCK = 1 << 17


@kernel
def spectral_product(*inputs: Array, transforms: Sequence[Array], m: int) -> Array:
    """The elementwise product of complex matrices x_1 E_1, x_2 E_2, ..., in real numbers.

    Parameters
    ----------
    *inputs : array, shape (n, d_i)
        Real floating.
    transforms : sequence of array, shape (d_i, 2 h), h = m // 2 + 1
        The real parts of E_i, then its imaginary parts. Column 0, and the last one for even m, are real.
    m : int

    Returns
    -------
    out : array, shape (n, m)
        The h real parts, then the imaginary parts that are not always 0, of columns 1 to ceil(m / 2) - 1.
    """
    xp = array_namespace(*inputs)
    n, half = inputs[0].shape[0], m // 2 + 1
    blocks = []
    step = max(1, BLOCK // m)
    for i in range(0, max(n, 1), step):
        rows = slice(i, min(i + step, n))
        real: Any = None
        imag: Any = None
        for x, transform in zip(inputs, transforms, strict=True):
            y = x[rows, :] @ transform
            a, b = y[:, :half], y[:, half:]
            real, imag = (a, b) if real is None else (real * a - imag * b, real * b + imag * a)
        blocks.append(xp.concat([real, imag[:, 1 : math.ceil(m / 2)]], axis=1))
    return blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=0)
