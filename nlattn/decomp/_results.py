"""What the decompositions return."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

from array_api_compat import array_namespace

from nlattn.decomp._columnwise import columnwise
from nlattn.decomp._unfolding import multiplied

__all__ = ["CPTensor", "TuckerTensor", "halves"]


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

    weights: Any
    factors: tuple[Any, ...]
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

    def to_tensor(self) -> Any:
        """The tensor itself."""
        left, right = halves(self.weights, self.factors)
        xp = array_namespace(left)
        return xp.reshape(left @ right, self.shape)


def halves(weights: Any, factors: Any) -> tuple[Any, Any]:
    """Two matrices whose product is the tensor of a CP decomposition, unfolded into a nearly square matrix."""
    xp = array_namespace(weights, *factors)
    sizes = [factor.shape[0] for factor in factors]
    at = min(range(1, len(sizes) + 1), key=lambda k: math.prod(sizes[:k]) + math.prod(sizes[k:]))
    left = columnwise(factors[:at]) * weights
    if at == len(sizes):
        return left, xp.ones((left.shape[1], 1), dtype=left.dtype, device=left.device)
    return left, xp.matrix_transpose(columnwise(factors[at:]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TuckerTensor:
    """A core multiplied by a matrix along each mode.

    Attributes
    ----------
    core : array, shape (R_0, ..., R_N-1)
    factors : tuple of array, shapes (I_k, R_k)
        With orthonormal columns, the largest entry of each real and positive.
    error : float
        Frobenius norm of the difference to the tensor that was decomposed, relative to the norm of that tensor.
    iterations : int
        Sweeps over all modes that were made; 1 unless the method iterates.
    converged : bool
        Whether they were enough for the tolerance.
    """

    core: Any
    factors: tuple[Any, ...]
    error: float
    iterations: int = 1
    converged: bool = True

    @property
    def ranks(self) -> tuple[int, ...]:
        """Shape of the core."""
        return tuple(int(size) for size in self.core.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return tuple(int(factor.shape[0]) for factor in self.factors)

    def to_tensor(self) -> Any:
        """The tensor itself."""
        xp = array_namespace(self.core)
        return reduce(lambda x, k: multiplied(xp, x, self.factors[k], k), range(len(self.factors)), self.core)
