"""What a projection leaves of a matrix."""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from nlattn.linalg.operators import Operator, adjoint
from nlattn.rng import standard_normal

__all__ = ["Residual", "frobenius_squared"]

# Random products that stand for a matrix whose entries are not at hand.
PROBES = 10
# Rows of a residual that are formed at once.
ROWS = 1024


class Residual:
    """The error ``||a - u w^H||`` in the Frobenius norm, relative to a, for orthonormal u and ``w = a^H u``.

    Arrays: from ``||a||^2 - ||w||^2``, or, where rounding would drown that, from the residual itself. Operators: an
    estimate from products with Gaussian vectors.
    """

    def __init__(self, a: Operator, random: np.random.Generator) -> None:
        self.a = a
        self.floor = 10 * math.sqrt(float(a.xp.finfo(a.dtype).eps))
        if a.array is None:
            self.probes = standard_normal(random, (a.shape[1], PROBES), a.like)
            self.products = a @ self.probes
            self.squared = frobenius_squared(self.products) / PROBES
        else:
            self.squared = frobenius_squared(a.array)

    def of(self, u: Any, w: Any) -> float:
        """The relative error of u w^H."""
        if self.squared == 0:
            return 0.0
        if self.a.array is None:
            left = frobenius_squared(self.products - u @ (adjoint(w) @ self.probes)) / PROBES
            return math.sqrt(left / self.squared)
        error = math.sqrt(max(self.squared - frobenius_squared(w), 0.0) / self.squared)
        return error if error > self.floor else math.sqrt(self._explicit(u, w) / self.squared)

    def _explicit(self, u: Any, w: Any) -> float:
        total, wh, a = 0.0, adjoint(w), self.a.array
        for i in range(0, a.shape[0], ROWS):
            rows = slice(i, min(i + ROWS, a.shape[0]))
            total += frobenius_squared(a[rows, :] - u[rows, :] @ wh)
        return total


def frobenius_squared(a: Any) -> float:
    """The sum of |a_ij|^2, rows summed in the dtype of `a` and their sums in float64."""
    xp = array_namespace(a)
    sums = xp.linalg.vecdot(a, a)
    sums = xp.real(sums) if xp.isdtype(sums.dtype, "complex floating") else sums
    return float(xp.sum(xp.astype(sums, xp.float64)))
