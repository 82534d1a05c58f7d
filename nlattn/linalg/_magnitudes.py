"""Norms of arrays and of what an approximation leaves of them, without overflow and without cancellation."""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.host import to_float

__all__ = ["CANCELLED", "residual_norm", "scaled", "squared_norm"]

#: A squared relative error below this many eps is no longer taken from a difference of squared norms.
CANCELLED = 1e3

# A plain float32 sum of 2^24 squares was wrong by 6e-5, runs of this length by 4e-10.
RUN = 4096

# Entries of a residual that are formed at once.
ENTRIES = 1 << 22


def squared_norm(x: Any) -> Any:
    """The sum of |x_i|^2 as a float64 array of no axes: short sums in the dtype of `x`, and their sum in float64."""
    xp = array_namespace(x)
    size = math.prod(x.shape)
    flat, whole = xp.reshape(x, (size,)), size - size % RUN
    parts = xp.reshape(flat[:whole], (whole // RUN, RUN)), xp.reshape(flat[whole:], (1, size - whole))
    sums = xp.concat([xp.vecdot(part, part) for part in parts])
    return xp.sum(xp.astype(xp.real(sums) if xp.isdtype(x.dtype, "complex floating") else sums, xp.float64))


def scaled(x: Any) -> tuple[Any, float, float]:
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
    half = 2.0 ** ((math.frexp(most)[1] - 1) // 2)  # twice, as the inverse of the least numbers overflows
    x = x / half / half
    return x, math.sqrt(to_float(squared_norm(x))), half * half


def residual_norm(x: Any, left: Any, right: Any) -> float:
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
