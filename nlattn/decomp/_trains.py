"""Tensor trains and their rounding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from array_api_compat import array_namespace

from nlattn.arrays.boundary import carrier, on_numpy
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._allowances import Allowance
from nlattn.decomp._arguments import Ranks, check_ranks, check_tolerance, either
from nlattn.decomp._subspaces import leading_basis
from nlattn.linalg._magnitudes import residual_norm, scaled
from nlattn.linalg._operators import adjoint

__all__ = ["TensorTrain", "check_train", "product"]


@carrier("cores")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorTrain:
    """A tensor whose entry i_0, ..., i_N-1 is the product of the matrices ``cores[k][:, i_k, :]``.

    Attributes
    ----------
    cores : tuple of array, shapes (R_k-1, I_k, R_k), the outer ranks 1
        All but the last one have orthonormal columns as matrices (R_k-1 I_k, R_k).
    error : float
        Frobenius norm of the difference to what was decomposed or rounded, relative to its norm.
    """

    cores: tuple[Array, ...]
    error: float

    @property
    def ranks(self) -> tuple[int, ...]:
        """The N - 1 inner ranks."""
        return tuple(int(core.shape[2]) for core in self.cores[:-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return tuple(int(core.shape[1]) for core in self.cores)

    @on_numpy
    def to_tensor(self) -> Array:
        """The tensor itself."""
        xp = array_namespace(self.cores[0])
        return xp.reshape(product(xp, self.cores), self.shape)

    @on_numpy
    def round(self, ranks: Ranks | None = None, *, rtol: float | None = None) -> "TensorTrain":
        """The same tensor with smaller ranks, without forming it.

        Parameters
        ----------
        ranks : int or sequence of int
            The N - 1 inner ranks.
        rtol : float
            Instead of `ranks`: the error allowed, relative to this tensor, at least 100 eps.

        Returns
        -------
        TensorTrain
            Its `error` is relative to this tensor, not to what this one may have approximated.

        Notes
        -----
        QR factorisations from the right, then truncated SVDs from the left: O(N I R^3). The error is the energy that
        is discarded, known to eps. Bound: ``tensor_train_error``, with the singular values of this tensor.
        """
        xp = array_namespace(self.cores[0])
        either(ranks, rtol)
        cores = _orthogonal_from_the_right(xp, self.cores)
        first, norm, scale = scaled(cores[0])
        cores[0] = first
        wanted: list[int] | Allowance
        if rtol is None:
            limits = [min(core.shape[2], math.prod(self.shape[: k + 1])) for k, core in enumerate(cores[:-1])]
            wanted = check_train(ranks, limits, self.shape)
        else:
            rtol = check_tolerance(rtol, float(xp.finfo(first.dtype).eps))
            wanted = Allowance((rtol * norm) ** 2, len(cores) - 1)
        lost = 0.0
        for k in range(len(cores) - 1):
            matrix = _tall(xp, cores[k])
            u = leading_basis(xp, matrix, wanted if isinstance(wanted, Allowance) else wanted[k], accurate=True)
            rest = adjoint(u) @ matrix
            lost += residual_norm(matrix, u, rest) ** 2
            cores[k] = xp.reshape(u, (*cores[k].shape[:2], u.shape[1]))
            cores[k + 1] = _times(xp, rest, cores[k + 1])
        cores[-1] = cores[-1] * scale
        return TensorTrain(cores=tuple(cores), error=math.sqrt(lost) / norm if norm else 0.0)


def check_train(ranks: Ranks | None, limits: list[int], shape: tuple[int, ...]) -> list[int]:
    """The inner ranks of a train, each within its limit and no more than its neighbours allow."""
    wanted = check_ranks(ranks, limits, "inner rank", "the rank that the tensor can have there")
    for k, r in enumerate(wanted):
        before = (wanted[k - 1] if k else 1) * shape[k]
        after = (wanted[k + 1] if k + 1 < len(wanted) else 1) * shape[k + 1]
        if r > min(before, after):
            raise ValueError(f"ranks[{k}] must be at most {min(before, after)}, as its neighbours are, got {r}")
    return wanted


def _orthogonal_from_the_right(xp: Namespace, cores: Sequence[Array]) -> list[Array]:
    """Cores of the same tensor; all but the first have orthonormal rows as matrices (R_k-1, I_k R_k)."""
    cores = list(cores)
    for k in range(len(cores) - 1, 0, -1):
        rank, size, after = cores[k].shape
        q, r = xp.linalg.qr(adjoint(xp.reshape(cores[k], (rank, size * after))))
        cores[k] = xp.reshape(adjoint(q), (q.shape[1], size, after))
        before = cores[k - 1]
        cores[k - 1] = xp.reshape(_tall(xp, before) @ adjoint(r), (*before.shape[:2], q.shape[1]))
    return cores


def _tall(xp: Namespace, core: Array) -> Array:
    """A core as a matrix whose columns belong to the last rank."""
    return xp.reshape(core, (core.shape[0] * core.shape[1], core.shape[2]))


def _times(xp: Namespace, matrix: Array, core: Array) -> Array:
    """A core multiplied from the left by a matrix."""
    rank, size, after = core.shape
    return xp.reshape(matrix @ xp.reshape(core, (rank, size * after)), (matrix.shape[0], size, after))


def product(xp: Namespace, cores: Sequence[Array]) -> Array:
    """The product of adjoining cores, shape (R I ... I, R')."""
    result = _tall(xp, cores[0])
    for core in cores[1:]:
        rank, size, after = core.shape
        result = xp.reshape(result @ xp.reshape(core, (rank, size * after)), (result.shape[0] * size, after))
    return result
