"""Sets of points as arguments: rows of an array, with any leading axes."""

import numpy as np

from nlattn.arrays.arguments import floating
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array, Namespace

__all__ = ["paired_points", "points", "projected_points"]


def points(name: str, x: Array, *, check_finite: bool) -> Array:
    """`floating` for an array of at least two axes."""
    x = floating(name, x, check_finite=check_finite)
    if x.ndim < 2:
        raise ValueError(f"{name} must have shape (..., n, d), got {tuple(x.shape)}; put a single vector into a row")
    return x


def paired_points(
    first: str, a: Array, second: str, b: Array, *, check_finite: bool, allow_empty: bool = True
) -> tuple[Namespace, Array, Array]:
    """The namespace, and two sets of points of one dimension, in float64 if one of them is."""
    xp = namespace(**{first: a, second: b})
    a, b = points(first, a, check_finite=check_finite), points(second, b, check_finite=check_finite)
    _agree(first, a, second, b)
    for name, x in ((first, a), (second, b)):
        if not allow_empty and 0 in x.shape[-2:]:
            raise ValueError(f"{name} must hold at least one point, got shape {tuple(x.shape)}")
    dtype = xp.result_type(a.dtype, b.dtype)
    return xp, xp.astype(a, dtype, copy=False), xp.astype(b, dtype, copy=False)


def projected_points(x: Array, projection: Array, *, check_finite: bool) -> tuple[Namespace, Array, Array]:
    """The namespace, points, and at least one direction in the dtype of the points."""
    xp = namespace(x=x, projection=projection)
    x, projection = (points(n, a, check_finite=check_finite) for n, a in (("x", x), ("projection", projection)))
    if projection.shape[-2] == 0:
        raise ValueError(f"projection must have at least one row, got shape {tuple(projection.shape)}")
    _agree("x", x, "projection", projection)
    return xp, x, xp.astype(projection, x.dtype, copy=False)


def _agree(first: str, a: Array, second: str, b: Array) -> None:
    shapes = tuple(a.shape), tuple(b.shape)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"{first} and {second} must agree in their last axis, got shapes {shapes[0]} and {shapes[1]}")
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(
            f"the leading axes of {first} and {second} must broadcast, got shapes {shapes[0]} and {shapes[1]}"
        ) from None
