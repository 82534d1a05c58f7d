"""Pivoted Cholesky factorisation."""

from typing import Literal, get_args

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.random import generator, weighted_draws
from nlattn.arrays.typing import Array, RngLike
from nlattn.kernels.top_k import top_k
from nlattn.linalg._kernel_matrix import KernelMatrix
from nlattn.linalg._pivoting import PivotedCholesky, Progress
from nlattn.linalg._psd import psd

__all__ = ["pivoted_cholesky"]

Pivoting = Literal["random", "greedy"]


@on_numpy
def pivoted_cholesky(
    a: Array | KernelMatrix,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    pivoting: Pivoting = "random",
    block: int = 96,
    rng: RngLike = None,
    check_finite: bool = True,
) -> PivotedCholesky:
    """Approximation of a positive semidefinite matrix by some of its columns, without forming the rest.

    Parameters
    ----------
    a : array, shape (n, n), or KernelMatrix
        Positive semidefinite, real or complex Hermitian. Only its diagonal and the chosen columns are looked at.
    rank : int, optional
        Number of pivots, at most n; with `rtol` their largest number.
    rtol : float, optional
        Wanted relative trace of what is left. It is computed on the way, so that the rank is the least possible.
    pivoting : {"random", "greedy"}, default "random"
        "random" draws a pivot with probability proportional to the diagonal of what is left (arXiv 2207.06503), by
        rejection from blocks of draws (arXiv 2410.03969): the law is that of one pivot after the other. "greedy" takes
        the largest; it is deterministic, and can be worse by a factor that is exponential in the rank.
    block : int, default 96
        Candidates at a time. Neither the law nor, but for ties, the greedy pivots depend on it.
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    PivotedCholesky
        ``pivots``, ``factor``, ``residual``, ``error``. Fewer pivots than `rank` where nothing but rounding is left.

    Raises
    ------
    ValueError
        If a diagonal entry of `a` or of what is left is negative beyond rounding: `a` is not semidefinite. Entries that
        are not looked at are not checked, nor is symmetry.

    Notes
    -----
    ``nlattn.bounds``: ``random_pivot_step``, ``random_pivoted_cholesky``, ``pivoted_cholesky_spectral``.
    Costs n rank kernel values and n rank^2 multiplications, as matrix products.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> a = np.diag([4.0, 0.0, 1.0])
    >>> pivots, factor, residual, error = nlattn.pivoted_cholesky(a, rtol=0.3, pivoting="greedy")
    >>> pivots, residual, error
    (array([0]), array([0., 0., 1.]), 0.2)
    """
    entries, op = psd("a", a, check_finite=check_finite)
    n = op.shape[0]
    if rank is None and rtol is None:
        raise ValueError("rank and rtol are both None: give the number of pivots, the tolerance, or both")
    most = n if rank is None else check_integer("rank", rank, least=0, most=n, why="the size of a")
    if rtol is not None:
        rtol = check_number("rtol", rtol, above=0.0, below=1.0)
    check_choice("pivoting", pivoting, get_args(Pivoting))
    block = check_integer("block", block)
    random = generator(rng)
    progress = Progress(entries, op, check_finite)
    while progress.found < most and not progress.within(rtol):
        left = progress.beyond_rounding()
        if to_float(op.xp.sum(left)) <= 0:
            break
        candidates, threshold = _candidates(left, min(block, n), pivoting, random)
        draws = random.random(candidates.shape[0]) if pivoting == "random" else None
        progress.add(candidates, threshold, draws, most, rtol)
    return progress.result()


def _candidates(left: Array, size: int, pivoting: Pivoting, random: np.random.Generator) -> tuple[Array, float]:
    """Candidates for pivots, and for "greedy" the largest residual among the others."""
    xp = array_namespace(left)
    if pivoting == "random":
        return weighted_draws(random, left, size), 0.0
    values, index = top_k(left, min(size + 1, left.shape[0]))
    positive = int(xp.sum(xp.astype(values > 0, xp.int64)))
    size = min(size, positive)
    return index[:size], to_float(values[size]) if size < values.shape[0] else 0.0
