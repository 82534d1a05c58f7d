"""The Tucker decomposition."""

import math
from collections.abc import Sequence
from functools import partial
from typing import get_args

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.random import generator
from nlattn.arrays.typing import Array, RngLike
from nlattn.decomp._allowances import Allowance, within
from nlattn.decomp._arguments import Ranks, check_ranks, check_tolerance, either, tensor
from nlattn.decomp._orthogonal_iteration import orthogonal_iteration
from nlattn.decomp._subspaces import leading_basis, sketched_basis
from nlattn.decomp._truncations import Basis, Method, truncated, tucker_error
from nlattn.decomp._tucker_tensor import TuckerTensor
from nlattn.linalg._magnitudes import scaled
from nlattn.linalg._warnings import warn_unconverged

__all__ = ["tucker"]


@on_numpy
def tucker(
    x: Array,
    ranks: Ranks | None = None,
    *,
    rtol: float | None = None,
    method: Method = "sthosvd",
    order: Sequence[int] | None = None,
    oversampling: int = 10,
    power_iterations: int = 1,
    iterations: int = 50,
    tol: float = 1e-5,
    rng: RngLike = None,
    check_finite: bool = True,
) -> TuckerTensor:
    """Tucker decomposition: a small core times a matrix with orthonormal columns along each mode.

    Parameters
    ----------
    x : array, shape (I_0, ..., I_N-1)
        Real or complex.
    ranks : int or sequence of int
        Shape of the core; one integer stands for all modes. Each is at most the dimension of its mode, and at most the
        product of the others.
    rtol : float
        Instead of `ranks`: the relative error allowed, at least 100 eps. The ranks are found mode by mode; each
        truncation may discard an equal share of what is left of the squared tolerance.
    method : {"sthosvd", "hosvd", "hooi", "randomized"}, default "sthosvd"
        "sthosvd" truncates the modes one after the other, each on what is left of the tensor; "hosvd" all from the
        tensor itself. "hooi" refines the result of "sthosvd" by orthogonal iteration. "randomized" is "sthosvd" with
        randomised range finding, for modes much longer than their ranks.
    order : sequence of int, optional
        In which the modes are truncated; by default the one that is compressed most comes first, with `rtol` the
        shortest one.
    oversampling : int, default 10
        For "randomized": columns of the sketch beyond the rank.
    power_iterations : int, default 1
        For "randomized"; each costs two more products, re-orthonormalised.
    iterations : int, default 50
        For "hooi": the most sweeps.
    tol : float, default 1e-5
        For "hooi": sweeps end after one that lowers the error by less than `tol` times the error.
    rng : None, int, SeedSequence or Generator, optional
        For "randomized".
    check_finite : bool, default True

    Returns
    -------
    TuckerTensor

    Warns
    -----
    ConvergenceWarning
        If "hooi" does not settle within `iterations`.

    Notes
    -----
    The singular directions come from Gram matrices where these resolve them, else, and where `rtol` is below about
    30 sqrt(eps), from factorisations that are several times slower. With `rtol` the error is measured from the
    difference itself, and precision is raised until it is met. Costs, for the mode truncated first,
    (I_0 + 2 R_0) prod(I) operations in matrix products, and O(I_0^3) for eigenvalues; for "randomized" I_0 is replaced
    by 4 (1 + power_iterations) (R_0 + oversampling).

    Bounds: ``hosvd_error``, ``tucker_quasi_optimality`` and ``tucker_lower_bound``; ``sthosvd_error``;
    ``randomized_tucker_error`` (without power iterations).

    Sources: DOI 10.1137/S0895479896305696 (HOSVD), 10.1137/110836067 (ST-HOSVD), 10.1137/S0895479898346995 (HOOI),
    arXiv 1905.07311 (randomised).

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import tucker
    >>> i = np.arange(20.0)
    >>> x = 1 / (1 + i[:, None, None] + i[:, None] + i)
    >>> result = tucker(x, rtol=1e-4)
    >>> result.ranks, result.error < 1e-4
    ((6, 6, 5), True)
    """
    check_choice("method", method, get_args(Method))
    x = tensor("x", x, check_finite=check_finite)
    xp = namespace(x=x)
    either(ranks, rtol)
    extra = check_integer("oversampling", oversampling, least=0)
    steps = check_integer("power_iterations", power_iterations, least=0)
    iterations, tol = check_integer("iterations", iterations), check_number("tol", tol, least=0.0)
    x, norm, scale = scaled(x)
    basis: Basis = leading_basis
    if method == "randomized":
        basis = partial(sketched_basis, rng=generator(rng), oversampling=extra, power_iterations=steps)
    error = None
    if rtol is None:
        wanted = _check_core(ranks, x.shape)
        modes = _check_order(order, [r / size for r, size in zip(wanted, x.shape, strict=True)])
        core, factors = truncated(xp, x, wanted, modes, basis, method)
    else:
        eps = float(xp.finfo(x.dtype).eps)
        rtol = check_tolerance(rtol, eps)
        modes = _check_order(order, list(x.shape))

        def attempt(allowance: Allowance, accurate: bool) -> tuple[tuple[Array, list[Array]], float]:
            result = truncated(
                xp, x, allowance, modes, partial(leading_basis, accurate=True) if accurate else basis, method
            )
            return result, tucker_error(xp, x, norm, *result, exact=True)

        (core, factors), error = within(attempt, rtol=rtol, norm=norm, steps=x.ndim, eps=eps)
    sweeps, converged = 1, True
    if method == "hooi":
        core, factors, sweeps, converged = orthogonal_iteration(
            xp, x, norm, core, factors, iterations=iterations, tol=tol
        )
        if not converged:
            warn_unconverged(f"tucker: {iterations} sweeps did not settle to tol={tol:g}; raise iterations or tol")
    if error is None or method == "hooi":
        error = tucker_error(xp, x, norm, core, factors, exact=rtol is not None)
    return TuckerTensor(core=core * scale, factors=tuple(factors), error=error, iterations=sweeps, converged=converged)


def _check_core(ranks: Ranks | None, shape: tuple[int, ...]) -> list[int]:
    """The shape of the core, each rank within the dimension of its mode and the product of the other ranks."""
    total = math.prod(shape)
    limits = [min(size, total // size) for size in shape]
    wanted = check_ranks(ranks, limits, "mode", "the smaller of its dimension and the product of the others")
    for k, r in enumerate(wanted):
        others = math.prod(wanted) // r
        if r > others:
            raise ValueError(f"ranks[{k}] must be at most {others}, the product of the other ranks, got {r}")
    return wanted


def _check_order(order: Sequence[int] | None, keys: Sequence[float]) -> list[int]:
    """The modes in the given order, else by their keys, the least first."""
    if order is None:
        return sorted(range(len(keys)), key=keys.__getitem__)
    modes = [check_integer(f"order[{k}]", mode, least=0) for k, mode in enumerate(order)]
    if sorted(modes) != list(range(len(keys))):
        raise ValueError(f"order must name each mode from 0 to {len(keys) - 1} once, got {modes}")
    return modes
