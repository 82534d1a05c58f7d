"""Leverage scores: how much of a matrix hangs on each of its rows."""

import math
import warnings
from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, check_number, matrix
from nlattn.arrays.host import to_float
from nlattn.arrays.precision import real_dtype
from nlattn.errors import ConvergenceWarning
from nlattn.linalg._magnitudes import scaled
from nlattn.linalg._operators import adjoint
from nlattn.linalg._orthonormal import orthonormal
from nlattn.sketch._factory import SKETCHES, sketch_operator

__all__ = ["leverage_scores", "lewis_weights", "row_norms"]


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
    size : int, optional
        Rows of S, at least d, and for "srht" at most N, the least power of two that is at least n. By default 4 d, or
        the N of "srht" if that is less.
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
    size = _rows_of_sketch(size, sketch, n, d)
    if n == 0 or d == 0:
        return xp.zeros((n,), dtype=real_dtype(xp, a.dtype), device=a.device)
    a, norm, scale = scaled(a)
    ridge = ridge / scale / scale
    eps = float(xp.finfo(a.dtype).eps)
    if method == "exact" and ridge == 0:
        return _row_squares(orthonormal(a, 8 * eps * norm))
    few = sketch_operator(sketch, size, n, rng=rng).apply(a, check_finite=False) if method == "sketch" else a
    _, s, vh = xp.linalg.svd(xp.linalg.qr(few, mode="reduced")[1], full_matrices=False)
    s = xp.astype(s, xp.float64, copy=False)  # the scaled ridge may be beyond float32
    kept = s > 8 * eps * to_float(xp.linalg.vector_norm(s))
    inverse = xp.where(kept, 1 / xp.sqrt(xp.where(kept, s * s, xp.ones_like(s)) + ridge), xp.zeros_like(s))
    return _row_squares(a @ (adjoint(vh) * xp.astype(inverse, a.dtype)[None, :]))


def lewis_weights(a: Any, p: float, *, rtol: float = 1e-6, iterations: int = 200, check_finite: bool = True) -> Any:
    """The l_p Lewis weights of the rows of a matrix, ``w_i = leverage_i(diag(w)^(1/2 - 1/p) a)``.

    Parameters
    ----------
    a : array, shape (n, d)
        Real or complex.
    p : float
        At least 1e-3, and finite; for 2 they are the leverage scores.
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
    iteration of the definition, which contracts by 1 - 2/p near the weights. A small p so takes more iterations than
    the default, about ``-2 log(rtol) / p``. Costs 2 n d^2 an iteration.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.linalg.lewis_weights(np.array([[1.0], [1.0], [2.0]]), 1.0).round(4)
    array([0.25, 0.25, 0.5 ])
    """
    a = matrix("a", a, allow_complex=True, check_finite=check_finite)
    if p == math.inf:
        raise ValueError("p must be finite, got inf; take a large one, e.g. 100")
    p = check_number("p", p, least=1e-3)
    rtol = check_number("rtol", rtol, above=0.0, below=1.0)
    iterations = check_integer("iterations", iterations)
    xp = array_namespace(a)
    dtype = real_dtype(xp, a.dtype)
    tolerance = max(rtol, 100 * float(xp.finfo(a.dtype).eps))
    # Rows of length 1 and logarithms of what multiplies them: w^(-1/p) may be out of range, w^(-1/p) |a_i| is not.
    lengths = row_norms(a)
    used = lengths > 0
    lengths = xp.where(used, lengths, xp.ones_like(lengths))
    unit = _divided(a, lengths)
    if p < 2:
        powers = xp.exp(p * (xp.log(lengths) - (to_float(xp.max(xp.log(lengths))) if lengths.shape[0] else 0.0)))
        weights = xp.where(used, powers, xp.zeros_like(powers))
        weights = weights * (a.shape[1] / (to_float(xp.sum(weights)) or 1.0))
    else:
        weights = xp.astype(leverage_scores(a, check_finite=False), xp.float64)
        used = weights > 0
    change = 0.0
    for _ in range(iterations):
        base = xp.where(used, weights, xp.ones_like(weights))
        logs = xp.log(lengths) + (0.5 - 1 / p) * xp.log(base)
        logs = xp.where(used, logs, xp.full_like(logs, -math.inf))
        peak = to_float(xp.max(logs)) if logs.shape[0] else 0.0
        factors = xp.exp(logs - (peak if peak > -math.inf else 0.0))
        scores = leverage_scores(unit * xp.astype(factors, a.dtype)[:, None], check_finite=False)
        scores = xp.astype(scores, xp.float64)
        # Large p: small rows count for nothing.
        used = used & (scores >= float(xp.finfo(dtype).smallest_normal))
        base = xp.where(used, base, xp.ones_like(base))
        scores = xp.where(used, scores, xp.ones_like(scores))
        change = to_float(xp.max(xp.abs(scores / base - 1))) if scores.shape[0] else 0.0
        if change <= tolerance:
            return xp.astype(weights, dtype)
        new = xp.exp(p / 2 * xp.log(scores) + (1 - p / 2) * xp.log(base)) if p < 2 else scores
        weights = xp.where(used, new, xp.zeros_like(new))
    warnings.warn(
        f"{iterations} iterations reach an accuracy of {change:.1g} instead of {tolerance:.1g}: raise iterations",
        ConvergenceWarning,
        stacklevel=2,
    )
    return xp.astype(weights, dtype)


def row_norms(a: Any) -> Any:
    """The Euclidean norms of the rows in float64, each formed at its own scale."""
    xp = array_namespace(a)
    if 0 in a.shape:
        return xp.zeros((a.shape[0],), dtype=xp.float64, device=a.device)
    most = xp.astype(xp.max(xp.abs(a), axis=1), xp.float64)
    most = xp.where(most > 0, most, xp.ones_like(most))
    return xp.astype(xp.sqrt(_row_squares(_divided(a, most))), xp.float64) * most


def _divided(a: Any, lengths: Any) -> Any:
    """The rows over their lengths; two divisions, as the inverse of a length may overflow in complex division."""
    xp = array_namespace(a)
    half = xp.astype(xp.sqrt(lengths), a.dtype)[:, None]
    return a / half / half


def _rows_of_sketch(size: int | None, kind: str, n: int, d: int) -> int:
    most = 1 << max(n - 1, 0).bit_length() if kind == "srht" else None
    if size is None:
        return 4 * d if most is None else min(4 * d, most)
    size = check_integer("size", size, least=0, most=most, why=f"the least power of two that is at least n = {n}")
    least = max(d, 1) if most is None else min(max(d, 1), most)
    if size < least:
        raise ValueError(f"size must be at least {least}, the columns of a, got {size}")
    return size


def _row_squares(q: Any) -> Any:
    xp = array_namespace(q)
    if xp.isdtype(q.dtype, "complex floating"):
        return xp.sum(xp.real(q) ** 2 + xp.imag(q) ** 2, axis=1)
    return xp.sum(q * q, axis=1)
