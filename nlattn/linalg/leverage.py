"""Leverage scores: how much of a matrix hangs on each of its rows."""

import warnings
from typing import Any

from array_api_compat import array_namespace

from nlattn.errors import ConvergenceWarning
from nlattn.linalg.operators import adjoint
from nlattn.linalg.orthonormal import orthonormal
from nlattn.sketch.factory import SKETCHES, sketch_operator
from nlattn.validation import check_choice, check_integer, check_number, matrix

__all__ = ["leverage_scores", "lewis_weights"]


def leverage_scores(
    a: Any,
    *,
    ridge: float = 0.0,
    method: str = "exact",
    sketch: str = "sparse_sign",
    size: int | None = None,
    rng: Any = None,
    check_finite: bool = True,
) -> Any:
    """Squared row norms of an orthonormal basis of the range of a matrix.

    Parameters
    ----------
    a : array, shape (n, d)
        Real or complex; with `method` "sketch" n should be much larger than d.
    ridge : float, default 0
        lambda: ``a_i (a^H a + lambda I)^-1 a_i^H``, which sum to the effective dimension.
    method : {"exact", "sketch"}, default "exact"
        "sketch" takes the triangular factor of ``S a`` instead of that of `a`.
    sketch : {"sparse_sign", "gaussian", "srht", "count", "balanced_count"}, default "sparse_sign"
        S.
    size : int, default 4 d
        Rows of S.
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    scores : array, shape (n,)
        Between 0 and 1, with the numerical rank of `a` for sum, if exact and `ridge` is 0. Singular values of at most
        8 eps times the Frobenius norm count as 0.

    Notes
    -----
    A sketch that keeps norms on the range of `a` to 1 +- e gives scores between ``1 / (1 + e)^2`` and ``1 / (1 - e)^2``
    times the exact ones: ``sketched_leverage`` in ``nlattn.bounds`` (arXiv 1109.3843). ``leverage_sampling`` says how
    many rows drawn by leverage keep the range. Costs 2 n d^2, or with a sketch n d^2.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.leverage_scores(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 5.0], [0.0, 0.0]]))
    array([0.5, 0.5, 1. , 0. ])
    """
    a = matrix("a", a, allow_complex=True, check_finite=check_finite)
    xp, (n, d) = array_namespace(a), a.shape
    ridge = check_number("ridge", ridge, least=0.0)
    check_choice("method", method, ("exact", "sketch"))
    check_choice("sketch", sketch, tuple(SKETCHES))
    size = 4 * d if size is None else check_integer("size", size, least=max(d, 1), why="the columns of a")
    if n == 0 or d == 0:
        return xp.zeros((n,), dtype=_real(xp, a.dtype), device=a.device)
    if method == "exact" and ridge == 0:
        return _row_squares(orthonormal(a, 8 * float(xp.finfo(a.dtype).eps) * float(xp.linalg.matrix_norm(a))))
    few = sketch_operator(sketch, size, n, rng=rng).apply(a) if method == "sketch" else a
    _, s, vh = xp.linalg.svd(xp.linalg.qr(few, mode="reduced")[1], full_matrices=False)
    kept = s > 8 * float(xp.finfo(a.dtype).eps) * float(xp.linalg.vector_norm(s))
    inverse = xp.where(kept, 1 / xp.sqrt(xp.where(kept, s * s, xp.ones_like(s)) + ridge), xp.zeros_like(s))
    return _row_squares(a @ (adjoint(vh) * xp.astype(inverse, a.dtype)[None, :]))


def lewis_weights(a: Any, p: float, *, rtol: float = 1e-6, iterations: int = 200, check_finite: bool = True) -> Any:
    """The l_p Lewis weights of the rows of a matrix, ``w_i = leverage_i(diag(w)^(1/2 - 1/p) a)``.

    Parameters
    ----------
    a : array, shape (n, d)
        Real or complex.
    p : float
        Positive; for 2 they are the leverage scores.
    rtol : float, default 1e-6
        The fixed point holds to this relative accuracy.
    iterations : int, default 200
        At most.
    check_finite : bool, default True

    Returns
    -------
    weights : array, shape (n,)
        Between 0 and 1, with the rank of `a` for sum; 0 for zero rows.

    Warns
    -----
    ConvergenceWarning
        If the iterations do not suffice.

    Notes
    -----
    For p < 2 the iteration of arXiv 1412.0588, whose logarithm contracts by 1 - p/2; from there on the fixed-point
    iteration of the definition, which contracts by 1 - 2/p near the weights. Costs 2 n d^2 an iteration.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.linalg.lewis_weights(np.array([[1.0], [1.0], [2.0]]), 1.0).round(4)
    array([0.25, 0.25, 0.5 ])
    """
    a = matrix("a", a, allow_complex=True, check_finite=check_finite)
    p = check_number("p", p, above=0.0)
    rtol = check_number("rtol", rtol, above=0.0, below=1.0)
    iterations = check_integer("iterations", iterations)
    xp = array_namespace(a)
    weights = leverage_scores(a, check_finite=False)
    tolerance = max(rtol, 100 * float(xp.finfo(a.dtype).eps))
    used = weights > 0
    change = 0.0
    for _ in range(iterations):
        base = xp.where(used, weights, xp.ones_like(weights))
        scores = leverage_scores(a * xp.astype(base ** (0.5 - 1 / p), a.dtype)[:, None], check_finite=False)
        new = (scores * base ** (2 / p - 1)) ** (p / 2) if p < 2 else scores
        used = used & (new >= float(xp.finfo(new.dtype).smallest_normal))  # large p: small rows count for nothing
        new = xp.where(used, new, xp.zeros_like(new))
        gap = xp.where(used, xp.abs(scores / base - 1), xp.zeros_like(base))
        change = float(xp.max(gap)) if gap.shape[0] else 0.0
        if change <= tolerance:
            return weights
        weights = new
    warnings.warn(
        f"{iterations} iterations reach an accuracy of {change:.1g} instead of {tolerance:.1g}: raise iterations",
        ConvergenceWarning,
        stacklevel=2,
    )
    return weights


def _row_squares(q: Any) -> Any:
    xp = array_namespace(q)
    if xp.isdtype(q.dtype, "complex floating"):
        return xp.sum(xp.real(q) ** 2 + xp.imag(q) ** 2, axis=1)
    return xp.sum(q * q, axis=1)


def _real(xp: Any, dtype: Any) -> Any:
    return xp.float32 if xp.finfo(dtype).bits == 32 else xp.float64
