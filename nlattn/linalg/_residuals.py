"""What a projection leaves of a matrix."""

import math

import numpy as np

from nlattn.arrays.host import to_float
from nlattn.arrays.random import standard_normal
from nlattn.arrays.typing import Array
from nlattn.linalg._magnitudes import residual_norm, squared_norm
from nlattn.linalg._operators import Operator, adjoint

__all__ = ["Residual"]

# Random products that stand for a matrix whose entries are not at hand.
PROBES = 10


class Residual:
    """Errors in the Frobenius norm, relative to a matrix.

    For arrays they come from ``||a||^2 - ||w||^2``, or, where rounding would hide that, from the residual itself; for
    operators they are estimates from products with Gaussian vectors.
    """

    def __init__(self, a: Operator, random: np.random.Generator) -> None:
        self.a = a
        self.floor = 10 * math.sqrt(float(a.xp.finfo(a.dtype).eps))
        self.squared: float
        if a.array is None:
            self.probes = standard_normal(random, (a.shape[1], PROBES), a.like)
            self.products = a @ self.probes
            self.squared = to_float(squared_norm(self.products)) / PROBES
        else:
            self.squared = to_float(squared_norm(a.array))

    def of(self, u: Array, w: Array) -> float:
        """The error of u w^H, for orthonormal u and the projection w = a^H u or a part of it."""
        if self.squared == 0:
            return 0.0
        if self.a.array is None:
            return self.explicit(u, adjoint(w))
        error = math.sqrt(max(self.squared - to_float(squared_norm(w)), 0.0) / self.squared)
        return error if error > self.floor else self.explicit(u, adjoint(w))

    def explicit(self, left: Array, right: Array) -> float:
        """The error of left @ right, whatever they are."""
        if self.squared == 0:
            return 0.0
        if self.a.array is None:
            rest = to_float(squared_norm(self.products - left @ (right @ self.probes))) / PROBES
            return math.sqrt(rest / self.squared)
        return residual_norm(self.a.array, left, right) / math.sqrt(self.squared)

    def fewest(self, squares: list[float], error: float, rtol: float) -> int:
        """How many leading parts of given squared norms are enough for `rtol`, if all of them leave `error`."""
        if self.squared == 0:
            return 0
        left, keep = error**2, len(squares)
        while keep > 0 and (left := left + squares[keep - 1] / self.squared) <= rtol**2:
            keep -= 1
        return keep
