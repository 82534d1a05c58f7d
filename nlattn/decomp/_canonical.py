"""The CP decomposition."""

import math
from dataclasses import replace
from typing import Literal, get_args

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.random import generator
from nlattn.arrays.typing import Array, RngLike
from nlattn.decomp._alternating import Rules, alternate
from nlattn.decomp._arguments import check_tolerance, tensor
from nlattn.decomp._cp_tensor import CPTensor
from nlattn.decomp._degeneracy import cancelling_pair
from nlattn.decomp._sampled import Sampler, alternate_on_samples
from nlattn.decomp._starts import Init, extended, grown, started
from nlattn.decomp._sweeps import Model, Sweeper
from nlattn.linalg._magnitudes import scaled
from nlattn.linalg._warnings import warn_unconverged

__all__ = ["cp"]

Method = Literal["als", "sampled"]


@on_numpy
def cp(
    x: Array,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    method: Method = "als",
    init: Init = "random",
    iterations: int = 200,
    tol: float = 1e-5,
    line_search: bool = True,
    damping: float = 0.0,
    samples: int | None = None,
    rng: RngLike = None,
    check_finite: bool = True,
) -> CPTensor:
    """CP decomposition (CANDECOMP/PARAFAC): a sum of `rank` rank-one tensors, by alternating least squares.

    Parameters
    ----------
    x : array, shape (I_0, ..., I_N-1)
        Real or complex.
    rank : int
        Number of components; may exceed the dimensions. With `rtol` the most that is tried, by default the size of `x`
        over its longest dimension, which always suffices for an exact decomposition but may be very expensive.
    rtol : float, optional
        Relative error to reach, at least 100 eps. Ranks 1, 2, 4, ... are tried until one reaches it, then the gap to
        the last one that did not is bisected. What is found is an upper bound of the smallest rank that would do. A
        fit ends as soon as it reaches `rtol`.
    method : {"als", "sampled"}, default "als"
        "sampled" solves least-squares problems on rows drawn by leverage scores, and ends with one exact sweep: for
        modes in the hundreds, and moderate accuracy.
    init : {"random", "hosvd"}, CPTensor or (weights, factors), default "random"
        Normally distributed factors; leading left singular vectors of the unfoldings, with normally distributed columns
        beyond them; or given ones.
    iterations : int, default 200
        The most sweeps over all modes, for each rank that is tried.
    tol : float, default 1e-5
        Sweeps end after one that lowers the error by less than `tol` times the error; with 0 all are made.
    line_search : bool, default True
        For "als": try to go on along the change made by the last sweep. An attempt that fails costs half a sweep, one
        that succeeds nothing. The error never grows either way.
    damping : float, default 0
        Weight of a term that holds each factor near its predecessor, relative to the diagonal of the normal equations
        (proximal regularisation). It slows a fit down, and steadies one whose components become nearly dependent.
    samples : int, default 100 * rank
        For "sampled": rows drawn for each factor. A factor with no more rows to draw from is updated exactly.
    rng : None, int, SeedSequence or Generator, optional
        For random factors and samples.
    check_finite : bool, default True

    Returns
    -------
    CPTensor

    Warns
    -----
    ConvergenceWarning
        If the sweeps have not settled to `tol` or `rtol` is not reached; and if two components, each of larger norm
        than `x`, nearly cancel: a best approximation of this rank may then not exist, and the weights diverge.

    Notes
    -----
    The result is a local optimum and depends on the start; the smallest of several errors is the usual remedy. A sweep
    costs 4 R prod(I) operations in two matrix products, shared by all modes. The error is taken from norms and inner
    products, or, where they would cancel, from the difference itself. Directions in which the normal equations
    are singular are left out, so that dependent, repeated or vanishing components are no error.

    A tensor may have no best approximation of a rank: with orthonormal a and b, a o a o b + a o b o a + b o a o a has
    rank 3, and approximations of rank 2 whose errors go to 0 while their weights go to infinity.

    Bounds: ``tucker_lower_bound`` with all ranks equal to `rank` holds for the error; ``khatri_rao_leverage`` and
    ``khatri_rao_least_squares`` for "sampled".

    Sources: DOI 10.1137/07070111X (survey), 10.1109/TSP.2013.2269903 (shared products), arXiv 2006.16438 ("sampled").

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import cp
    >>> i = np.arange(1.0, 9.0)
    >>> x = i[:, None, None] * i[:, None] * i + np.ones((8, 8, 8))
    >>> result = cp(x, rtol=1e-8, rng=0)
    >>> result.rank, bool(np.allclose(result.to_tensor(), x))
    (2, True)
    """
    check_choice("method", method, get_args(Method))
    x = tensor("x", x, check_finite=check_finite)
    rank, rtol = _check_size(x, rank, rtol, init)
    rules = Rules(
        iterations=check_integer("iterations", iterations),
        tol=check_number("tol", tol, least=0.0),
        rtol=rtol or 0.0,
        line_search=bool(line_search),
        damping=check_number("damping", damping, least=0.0),
    )
    if samples is not None:
        samples = check_integer("samples", samples, least=rank if rtol is None else 1)
    random = generator(rng)
    x, norm, scale = scaled(x)
    sweeper = Sweeper(namespace(x=x), x, norm)

    def fit(size: int, lower: Model | None) -> tuple[Model, int, bool]:
        model = started(sweeper, size, init, scale, random) if lower is None else extended(sweeper, lower, size, random)
        if norm == 0:
            return replace(model, weights=0 * model.weights, error=0.0), 0, True
        if method == "als":
            return alternate(sweeper, model, rules)
        return alternate_on_samples(Sampler(sweeper, samples or 100 * size, random), model, rules)

    model, sweeps, settled = fit(rank, None) if rtol is None else grown(fit, rank, rtol)
    if rtol is not None and model.error > rtol:
        _warn(f"error {model.error:.2g} at rank {rank} exceeds rtol={rtol:g}; raise rank or iterations, or change rng")
        settled = False
    elif not settled:
        _warn(f"{iterations} sweeps did not settle to tol={tol:g}; raise iterations or tol")
    weights, factors = _largest_first(sweeper, model)
    return CPTensor(weights=weights * scale, factors=factors, error=model.error, iterations=sweeps, converged=settled)


def _check_size(x: Array, rank: int | None, rtol: float | None, init: Init) -> tuple[int, float | None]:
    """The number of components, or with a tolerance the most that is tried; and the tolerance."""
    if rtol is not None:
        rtol = check_tolerance(rtol, float(namespace(x=x).finfo(x.dtype).eps))
        if not isinstance(init, str):
            raise ValueError("init must be 'random' or 'hosvd' with rtol, which starts from rank 1, got factors")
    elif rank is None:
        raise ValueError("pass rank, rtol or both, got neither")
    return math.prod(x.shape) // max(x.shape) if rank is None else check_integer("rank", rank), rtol


def _largest_first(sweeper: Sweeper, model: Model) -> tuple[Array, tuple[Array, ...]]:
    """Weights and factors, the largest component first; warns of two that nearly cancel."""
    xp = sweeper.xp
    order = xp.argsort(model.weights, descending=True, stable=True)
    weights = xp.take(model.weights, order, axis=0)
    factors = tuple(xp.take(factor, order, axis=1) for factor in model.factors)
    pair = cancelling_pair(xp, weights, factors, sweeper.norm)
    if pair is not None:
        i, j, cosine = pair
        _warn(
            f"components {i} and {j} are larger than x and nearly cancel (cosine {cosine:.2f}); a best approximation "
            f"of rank {weights.shape[0]} may not exist: lower the rank, or raise damping"
        )
    return weights, factors


def _warn(sentence: str) -> None:
    warn_unconverged(f"cp: {sentence}")
