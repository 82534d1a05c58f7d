"""Errors of decompositions that project a tensor orthogonally."""

import math
from collections.abc import Callable

from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array, Namespace
from nlattn.linalg._magnitudes import CANCELLED, residual_norm, squared_norm

__all__ = ["projection_error"]


def projection_error(
    xp: Namespace, x: Array, norm: float, coefficients: Array, halves: Callable[[], tuple[Array, Array]], *, exact: bool
) -> float:
    """The relative error of an orthogonal projection of a tensor `x` of a given norm.

    Without `exact` it comes from the norms of the tensor and of the coefficients alone, as long as the difference of
    their squares is known well enough. Otherwise it comes from the difference of the tensor and the product of the two
    matrices that `halves` returns.
    """
    if norm == 0:
        return 0.0
    squared = 1 - to_float(squared_norm(coefficients)) / norm**2
    if squared > CANCELLED * float(xp.finfo(x.dtype).eps) and not exact:
        return math.sqrt(squared)
    return residual_norm(x, *halves()) / norm
