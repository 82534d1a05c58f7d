"""Tensor trains by successive truncated SVDs."""

import math

from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._allowances import Allowance, within
from nlattn.decomp._arguments import Ranks, check_tolerance, either, tensor
from nlattn.decomp._errors import projection_error
from nlattn.decomp._subspaces import leading_basis
from nlattn.decomp._trains import TensorTrain, check_train, product
from nlattn.linalg._magnitudes import scaled
from nlattn.linalg._operators import adjoint

__all__ = ["tensor_train"]


@on_numpy
def tensor_train(
    x: Array, ranks: Ranks | None = None, *, rtol: float | None = None, check_finite: bool = True
) -> TensorTrain:
    """Tensor-train decomposition by successive truncated SVDs.

    Parameters
    ----------
    x : array, shape (I_0, ..., I_N-1)
        Real or complex.
    ranks : int or sequence of int
        The N - 1 inner ranks; one integer stands for all. R_k is at most the product of the dimensions on either side,
        R_k-1 I_k, and I_k+1 R_k+1.
    rtol : float
        Instead of `ranks`: the relative error allowed, at least 100 eps. Each truncation may discard an equal share of
        what is left of the squared tolerance.
    check_finite : bool, default True

    Returns
    -------
    TensorTrain

    Notes
    -----
    Singular directions come from Gram matrices where these resolve them, else, and where `rtol` is below about
    30 sqrt(eps), from factorisations that are several times slower. With `rtol` the error is measured from the
    difference itself, and precision is raised until it is met. Costs, for the first step, (I_0 + 2 R_0) prod(I)
    operations in matrix products.

    Bounds: ``tensor_train_error``, ``tensor_train_quasi_optimality``. Source: DOI 10.1137/090752286.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import tensor_train
    >>> x = np.sin(np.add.outer(np.arange(8.0), np.add.outer(np.arange(9.0), np.arange(10.0))))
    >>> train = tensor_train(x, rtol=1e-10)
    >>> train.ranks, bool(np.allclose(train.to_tensor(), x))
    ((2, 2), True)
    """
    x = tensor("x", x, check_finite=check_finite)
    xp = namespace(x=x)
    either(ranks, rtol)
    shape, eps = tuple(x.shape), float(xp.finfo(x.dtype).eps)
    x, norm, scale = scaled(x)
    if rtol is None:
        limits = [min(math.prod(shape[:k]), math.prod(shape[k:])) for k in range(1, len(shape))]
        cores = _swept(xp, x, check_train(ranks, limits, shape), accurate=False)
        error = _error(xp, x, norm, cores, exact=False)
    else:
        rtol = check_tolerance(rtol, eps)

        def attempt(allowance: Allowance, accurate: bool) -> tuple[list[Array], float]:
            cores = _swept(xp, x, allowance, accurate=accurate)
            return cores, _error(xp, x, norm, cores, exact=True)

        cores, error = within(attempt, rtol=rtol, norm=norm, steps=max(len(shape) - 1, 1), eps=eps)
    cores[-1] = cores[-1] * scale
    return TensorTrain(cores=tuple(cores), error=error)


def _swept(xp: Namespace, x: Array, ranks: list[int] | Allowance, *, accurate: bool) -> list[Array]:
    """The cores of the tensor `x`, from the left."""
    cores: list[Array] = []
    rest, rank = x, 1
    for k in range(x.ndim - 1):
        rows = rank * x.shape[k]
        matrix = xp.reshape(rest, (rows, math.prod(x.shape[k + 1 :])))
        u = leading_basis(xp, matrix, ranks if isinstance(ranks, Allowance) else ranks[k], accurate=accurate)
        cores.append(xp.reshape(u, (rank, x.shape[k], u.shape[1])))
        rest, rank = adjoint(u) @ matrix, u.shape[1]
    return [*cores, xp.reshape(rest, (rank, x.shape[-1], 1))]


def _error(xp: Namespace, x: Array, norm: float, cores: list[Array], *, exact: bool) -> float:
    """The relative error of a train whose last core alone is not orthonormal."""
    if len(cores) == 1:
        return 0.0
    half = len(cores) // 2

    def halves() -> tuple[Array, Array]:
        left, right = product(xp, cores[:half]), product(xp, cores[half:])
        columns = math.prod(core.shape[1] for core in cores[half:])
        return left, xp.reshape(right, (left.shape[1], columns))

    return projection_error(xp, x, norm, cores[-1], halves, exact=exact)
