"""The Walsh-Hadamard transform."""

import math

from array_api_compat import array_namespace

from nlattn.arrays.arguments import floating
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.typing import Array
from nlattn.kernels.fwht import fwht
from nlattn.sketch._base import check_axis, complexly

__all__ = ["hadamard_transform", "padded_length"]


def padded_length(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


@on_numpy
def hadamard_transform(A: Array, axis: int = -1, *, check_finite: bool = True) -> Array:
    """The Walsh-Hadamard transform along an axis, in natural (Sylvester) order, not scaled.

    Parameters
    ----------
    A : array, shape (..., n, ...)
        Real or complex; n is a power of two.
    axis : int, default -1
        The axis of length n.
    check_finite : bool, default True
        Refuse NaN and inf.

    Returns
    -------
    array, shape of A
        ``scipy.linalg.hadamard(n)`` times the vectors along the axis, in O(n log n) each. Applied twice it multiplies
        by n.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> nlattn.sketch.hadamard_transform(np.asarray([1.0, 0.0, 0.0, 2.0]))
    array([ 3., -1., -1.,  3.])
    """
    A = floating("A", A, allow_complex=True, check_finite=check_finite)
    xp = array_namespace(A)
    axis = check_axis(axis, A.ndim)
    n = A.shape[axis]
    if n == 0 or n & (n - 1):
        raise ValueError(f"A must have a power of two as its length along axis {axis}, got {n}; pad it with zeros")
    if 0 in A.shape:
        return xp.zeros_like(A)
    x = xp.reshape(A, (math.prod(A.shape[:axis]), n, math.prod(A.shape[axis + 1 :])))
    return xp.reshape(complexly(xp, lambda part: fwht(part, axis=1), x, axis=0), A.shape)
