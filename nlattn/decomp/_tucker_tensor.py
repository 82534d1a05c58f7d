"""A tensor as a core times a matrix along each mode."""

from dataclasses import dataclass
from functools import reduce

from array_api_compat import array_namespace

from nlattn.arrays.boundary import carrier, on_numpy
from nlattn.arrays.typing import Array
from nlattn.decomp._unfolding import multiplied

__all__ = ["TuckerTensor"]


@carrier("core", "factors")
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

    core: Array
    factors: tuple[Array, ...]
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

    @on_numpy
    def to_tensor(self) -> Array:
        """The tensor itself."""
        xp = array_namespace(self.core)
        return reduce(lambda x, k: multiplied(xp, x, self.factors[k], k), range(len(self.factors)), self.core)
