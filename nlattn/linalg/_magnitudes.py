"""Norms of arrays and of what an approximation leaves of them, without overflow and without cancellation."""

import math

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array

__all__ = ["CANCELLED", "divided_rows", "residual_norm", "row_norms", "row_squares", "scaled", "squared_norm"]

#: A squared relative error below this many eps is not taken from a difference of squared norms: rounding hides it.
CANCELLED = 1e3

# Squares that are summed in their own precision before the sums are added in float64: for 2^24 float32 numbers the
# result was wrong by 4e-10, that of a plain sum by 6e-5.
RUN = 4096

# Entries of a residual that are formed at once: 32 MiB in float64.
ENTRIES = 1 << 22


def squared_norm(x: Array) -> Array:
    """The sum of |x_i|^2 as a float64 array of no axes: short sums in the dtype of `x`, and their sum in float64."""
    xp = array_namespace(x)
    size = math.prod(x.shape)
    flat, whole = xp.reshape(x, (size,)), size - size % RUN
    parts = xp.reshape(flat[:whole], (whole // RUN, RUN)), xp.reshape(flat[whole:], (1, size - whole))
    sums = xp.concat([xp.vecdot(part, part) for part in parts])
    return xp.sum(xp.astype(xp.real(sums) if xp.isdtype(x.dtype, "complex floating") else sums, xp.float64))


def scaled(x: Array) -> tuple[Array, float, float]:
    """x / s, the norm of that, and s: a power of 2, other than 1 only where squares of `x` leave the floating range."""
    xp = array_namespace(x)
    if 0 in x.shape:
        return x, 0.0, 1.0
    with np.errstate(all="ignore"):
        norm2 = to_float(squared_norm(x))
    info = xp.finfo(x.dtype)
    if float(info.smallest_normal) / float(info.eps) ** 2 < norm2 < math.inf:
        return x, math.sqrt(norm2), 1.0
    most = to_float(xp.max(xp.abs(x)))
    if most == 0 or not math.isfinite(most):
        return x, math.sqrt(norm2), 1.0
    # Two divisions by the root, since the inverse of the smallest scales overflows.
    half = 2.0 ** ((math.frexp(most)[1] - 1) // 2)
    x = x / half / half
    return x, math.sqrt(to_float(squared_norm(x))), half * half


def residual_norm(x: Array, left: Array, right: Array) -> float:
    """``||x - left @ right||`` in the Frobenius norm, from the difference itself, a few rows at a time.

    `x` may have any shape with as many elements as the product, in the same order.
    """
    xp = array_namespace(x, left)
    rows, columns = left.shape[0], right.shape[1]
    x = xp.reshape(x, (rows, columns))
    step = max(1, ENTRIES // columns)
    total = 0.0
    for i in range(0, rows, step):
        part = slice(i, min(i + step, rows))
        total += to_float(squared_norm(x[part, :] - left[part, :] @ right))
    return math.sqrt(total)


def row_norms(a: Array) -> Array:
    """The Euclidean norms of the rows of a matrix in float64, each formed at its own scale."""
    xp = array_namespace(a)
    if 0 in a.shape:
        return xp.zeros((a.shape[0],), dtype=xp.float64, device=a.device)
    most = nonzero(xp.astype(xp.max(xp.abs(a), axis=1), xp.float64))
    return xp.astype(xp.sqrt(row_squares(divided_rows(a, most))), xp.float64) * most


def divided_rows(a: Array, lengths: Array) -> Array:
    """The rows of a matrix over positive lengths: two divisions, as an inverse may overflow in complex division."""
    xp = array_namespace(a)
    half = xp.astype(xp.sqrt(lengths), a.dtype)[:, None]
    return a / half / half


def row_squares(q: Array) -> Array:
    """The squared norms of the rows of a matrix, in its own precision."""
    xp = array_namespace(q)
    if xp.isdtype(q.dtype, "complex floating"):
        return xp.sum(xp.real(q) ** 2 + xp.imag(q) ** 2, axis=1)
    return xp.sum(q * q, axis=1)
