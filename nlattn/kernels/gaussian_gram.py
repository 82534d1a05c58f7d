"""The Gaussian kernel of two sets of points."""

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["gaussian_gram"]


@kernel
def gaussian_gram(x: Array, y: Array, factor: float) -> Array:
    """``exp(-factor |x_i - y_j|^2)``.

    Parameters
    ----------
    x : array, shape (m, d)
    y : array, shape (n, d)
        Real, finite.
    factor : float
        Positive.

    Returns
    -------
    array, shape (m, n)
        Squared distances are formed as ``|x|^2 + |y|^2 - 2 x y``, and 0 where that is negative; NaN where squares
        overflow.
    """
    xp = array_namespace(x, y)
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = (x * (2 * factor)) @ xp.matrix_transpose(y)
        exponent = exponent - factor * (xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :])
    return xp.exp(xp.where(exponent > 0, xp.zeros_like(exponent), exponent))
