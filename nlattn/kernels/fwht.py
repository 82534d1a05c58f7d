"""The fast Walsh-Hadamard transform."""

import math
from typing import TypeVar

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["fwht"]

ArrayT = TypeVar("ArrayT", bound=Array)

# Factors of the transform that are applied as dense matrices.
WIDTH = 64


@kernel
def fwht(x: ArrayT, axis: int = -1) -> ArrayT:
    """The Walsh-Hadamard transform along an axis, in natural (Sylvester) order, not scaled.

    Parameters
    ----------
    x : array
        Real floating.
    axis : int, default -1
        Its length n is a power of two.

    Returns
    -------
    out : array, shape of x
        Along the axis, sum_j (-1)^(bits that i and j share) x_j. Applied twice it multiplies by n.
    """
    xp = array_namespace(x)
    shape, n = x.shape, x.shape[axis]
    if n == 0 or n & (n - 1):
        raise ValueError(f"the axis that is transformed must have a power of two as its length, got {n}")
    if 0 in shape:
        return xp.zeros_like(x)
    # H_n is a Kronecker product of smaller ones, each of which is a dense product on an axis of its own.
    after = math.prod(shape[axis % x.ndim + 1 :])
    while n > 1:
        width = min(WIDTH, n)
        x = _hadamard(width, x) @ xp.reshape(x, (-1, width, after))
        n //= width
        after *= width
    return xp.reshape(x, shape) if shape[axis] > 1 else xp.asarray(x, copy=True)


def _hadamard(n: int, like: Array) -> Array:
    xp = array_namespace(like)
    h = xp.ones((1, 1), dtype=like.dtype, device=like.device)
    while h.shape[0] < n:
        top, bottom = xp.concat([h, h], axis=1), xp.concat([h, -h], axis=1)
        h = xp.concat([top, bottom], axis=0)
    return h
