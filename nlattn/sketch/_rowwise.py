"""Polynomial features of vectors along the last axis."""

import math
from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import floating
from nlattn.arrays.host import all_finite
from nlattn.arrays.typing import Array, Namespace

__all__ = ["input_scale", "on_rows", "symmetric_square"]


def input_scale(d: int, gamma: float, coef0: float) -> Array:
    """What the coordinates of a vector are multiplied by, and the 1 behind them where coef0 is not 0: on the host."""
    return np.sqrt([gamma] * d + [coef0] * (coef0 > 0))


def on_rows(
    x: Array, d: int, m: int, compute: Callable[[Array], Array], *, constant: bool = False, check_finite: bool = True
) -> Array:
    """`compute`, from matrices (N, d) to (N, m), on the vectors of (..., d); `constant` puts a 1 behind each."""
    x = floating("x", x, check_finite=check_finite)
    xp = array_namespace(x)
    if x.ndim == 0 or x.shape[-1] != d:
        raise ValueError(f"x must have length d = {d} along its last axis, got shape {tuple(x.shape)}")
    lead = x.shape[:-1]
    if 0 in lead:
        return xp.zeros((*lead, m), dtype=x.dtype, device=x.device)
    rows = xp.reshape(x, (math.prod(lead), d))
    if constant:
        rows = xp.concat([rows, xp.ones_like(rows[:, :1])], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        out = compute(rows)
    if check_finite and not all_finite(xp, out):
        raise ValueError(f"x is too large: its features overflow {out.dtype}; scale it down, or lower gamma or degree")
    return xp.reshape(out, (*lead, m))


def symmetric_square(xp: Namespace, x: Array) -> Array:
    """(N, r) -> (N, r (r + 1) / 2) with squared inner products: the squares, then sqrt(2) times the products."""
    twice = x * math.sqrt(2)
    products = [twice[:, i : i + 1] * x[:, i + 1 :] for i in range(x.shape[1] - 1)]
    return xp.concat([x * x, *products], axis=1)
