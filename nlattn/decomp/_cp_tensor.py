"""A tensor as a sum of tensors of rank one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from array_api_compat import array_namespace

from nlattn.arrays.boundary import carrier, on_numpy
from nlattn.arrays.typing import Array
from nlattn.decomp._columnwise import columnwise

__all__ = ["CPTensor", "halves"]


@carrier("weights", "factors")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CPTensor:
    """A sum of R rank-one tensors: ``sum_r weights[r] factors[0][:, r] o ... o factors[N-1][:, r]``.

    Attributes
    ----------
    weights : array, shape (R,)
        Not negative, largest first.
    factors : tuple of array, shapes (I_k, R)
        Columns of norm 1; those of a component of weight 0 may be 0.
    error : float
        Frobenius norm of the difference to the tensor that was decomposed, relative to the norm of that tensor.
    iterations : int
        Sweeps over all modes that were made.
    converged : bool
        Whether they were enough for the tolerance.
    """

    weights: Array
    factors: tuple[Array, ...]
    error: float
    iterations: int
    converged: bool

    @property
    def rank(self) -> int:
        """Number of components."""
        return int(self.weights.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return tuple(int(factor.shape[0]) for factor in self.factors)

    @on_numpy
    def to_tensor(self) -> Array:
        """The tensor itself."""
        left, right = halves(self.weights, self.factors)
        xp = array_namespace(left)
        return xp.reshape(left @ right, self.shape)


def halves(weights: Array, factors: Sequence[Array]) -> tuple[Array, Array]:
    """Two matrices whose product is the tensor of a CP decomposition, unfolded into a nearly square matrix."""
    xp = array_namespace(weights, *factors)
    sizes = [factor.shape[0] for factor in factors]
    at = min(range(1, len(sizes) + 1), key=lambda k: math.prod(sizes[:k]) + math.prod(sizes[k:]))
    left = columnwise(factors[:at]) * weights
    if at == len(sizes):
        return left, xp.ones((left.shape[1], 1), dtype=left.dtype, device=left.device)
    return left, xp.matrix_transpose(columnwise(factors[at:]))
