"""Partial Cholesky factorisations with pivoting, in blocks."""

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.host import all_finite, to_float
from nlattn.arrays.random import generator, weighted
from nlattn.kernels.cholesky_panel import cholesky_panel
from nlattn.kernels.choose_pivots import choose_pivots
from nlattn.kernels.segment_sum import segment_sum
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.kernels.top_k import top_k
from nlattn.linalg._operators import adjoint
from nlattn.linalg._psd import psd

__all__ = ["PivotedCholesky", "pivoted_cholesky"]

BLOCK = 96


class PivotedCholesky(NamedTuple):
    """``a ~ factor @ factor^H``, and ``0 <= a - factor @ factor^H`` in the order of semidefinite matrices.

    Attributes
    ----------
    pivots : integer array, shape (r,)
        Distinct; r is the rank that was reached.
    factor : array, shape (n, r)
        ``factor[pivots, :]`` is lower triangular. Its leading columns are the factor of the leading pivots.
    residual : array, shape (n,)
        The diagonal of what is left: ``|a - factor @ factor^H|_ij <= sqrt(residual_i residual_j)``.
    error : float
        Trace of what is left relative to that of `a`; its nuclear norm, and at least its other norms.
    """

    pivots: Any
    factor: Any
    residual: Any
    error: float


def pivoted_cholesky(
    a: Any,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    pivoting: str = "random",
    block: int = BLOCK,
    rng: Any = None,
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
    xp, n = op.xp, op.shape[0]
    if rank is None and rtol is None:
        raise ValueError("rank and rtol are both None: give the number of pivots, the tolerance, or both")
    most = n if rank is None else check_integer("rank", rank, least=0, most=n, why="the size of a")
    if rtol is not None:
        rtol = check_number("rtol", rtol, above=0.0, below=1.0)
    check_choice("pivoting", pivoting, ("random", "greedy"))
    block = check_integer("block", block)
    random = generator(rng)

    diagonal = xp.astype(entries.diagonal(), xp.float64)
    diagonal = xp.where(diagonal > 0, diagonal, xp.zeros_like(diagonal))
    trace = to_float(xp.sum(diagonal))
    eps = float(xp.finfo(op.dtype).eps)
    residual = diagonal
    factors: list[Any] = []
    pivots: list[Any] = []
    found = 0
    while found < most:
        # What is left is the difference of numbers as large as the diagonal: below this it is rounding.
        noise = 10 * eps * (found + 2) * diagonal
        left = xp.where(residual > noise, residual, xp.zeros_like(residual))
        if to_float(xp.sum(left)) <= 0 or (rtol is not None and to_float(xp.sum(residual)) <= rtol * trace):
            break
        candidates, threshold = _candidates(left, min(block, n), pivoting, random)
        core = entries.block(candidates)
        if check_finite and not all_finite(xp, core):
            raise ValueError("a contains NaN or inf; clean it, or pass check_finite=False to let it through")
        for factor in factors:
            rows = xp.take(factor, candidates, axis=0)
            core = core - rows @ adjoint(rows)
        draws = random.random(candidates.shape[0]) if pivoting == "random" else None
        chosen, triangle = choose_pivots(core, xp.take(noise, candidates), threshold, draws, most - found)
        if chosen.shape[0] == 0:  # what seemed to be left was rounding
            residual = _without(residual, candidates)
            continue
        new = xp.take(candidates, chosen)
        columns, squares = _panel(entries, factors, new, triangle)
        if check_finite and not all_finite(xp, squares):
            raise ValueError("a contains NaN or inf; clean it, or pass check_finite=False to let it through")
        keep = new.shape[0]
        if rtol is not None:
            gone = xp.cumulative_sum(_squares(columns, axis=0))
            keep = 1 + min(int(xp.sum(xp.astype(gone < to_float(xp.sum(residual)) - rtol * trace, xp.int64))), keep - 1)
            if keep < new.shape[0]:
                columns, new = columns[:, :keep], new[:keep]
                squares = _squares(columns, axis=1)
        residual = residual - squares
        found += keep
        if bool(xp.any(residual < -(eps**0.5) * diagonal)):
            raise ValueError(f"a must be positive semidefinite; after {found} pivots its rest is not")
        residual = xp.where(residual > 0, residual, xp.zeros_like(residual))
        factors.append(columns)
        pivots.append(new)
    chosen = xp.concat(pivots) if pivots else xp.zeros((0,), dtype=xp.int64, device=op.like.device)
    residual = _without(residual, chosen)
    error = to_float(xp.sum(residual)) / trace if trace > 0 else 0.0
    factor = xp.concat(factors, axis=1) if factors else xp.zeros((n, 0), dtype=op.dtype, device=op.like.device)
    return PivotedCholesky(
        chosen,
        factor if op.scale == 1 else factor * op.scale**0.5,
        xp.astype(residual * op.scale, entries.diagonal().dtype),
        error,
    )


def _panel(entries: Any, factors: list[Any], new: Any, triangle: Any) -> tuple[Any, Any]:
    """The columns of the factor for new pivots, and the sums of their squares along each row."""
    xp = array_namespace(triangle)
    precise = xp.complex128 if xp.isdtype(triangle.dtype, "complex floating") else xp.float64
    eye = xp.eye(triangle.shape[0], dtype=precise, device=triangle.device)
    inverse = xp.astype(adjoint(solve_triangular(xp.astype(triangle, precise), eye)), triangle.dtype)
    rows = tuple(xp.take(factor, new, axis=0) for factor in factors)
    return cholesky_panel(entries.columns(new), inverse, tuple(factors), rows)


def _squares(columns: Any, axis: int) -> Any:
    """Sums of |columns|^2 along an axis, in float64."""
    xp = array_namespace(columns)
    is_complex = xp.isdtype(columns.dtype, "complex floating")
    squares = xp.real(columns) ** 2 + xp.imag(columns) ** 2 if is_complex else columns * columns
    return xp.sum(squares, axis=axis, dtype=xp.float64)


def _without(residual: Any, index: Any) -> Any:
    """The same numbers with zeros at `index`."""
    xp = array_namespace(residual)
    ones = xp.ones((index.shape[0], 1), dtype=residual.dtype, device=residual.device)
    count = segment_sum(ones, index[:, None], residual.shape[0])[:, 0]
    return xp.where(count > 0, xp.zeros_like(residual), residual)


def _candidates(left: Any, size: int, pivoting: str, random: np.random.Generator) -> tuple[Any, float]:
    """Candidates for pivots, and the largest residual elsewhere (greedy)."""
    xp = array_namespace(left)
    if pivoting == "greedy":
        values, index = top_k(left, min(size + 1, left.shape[0]))
        positive = int(xp.sum(xp.astype(values > 0, xp.int64)))
        size = min(size, positive)
        return index[:size], to_float(values[size]) if size < values.shape[0] else 0.0
    return weighted(random, left, size), 0.0
