"""Leverage scores: how much of a matrix hangs on each of its rows."""

from typing import Literal, get_args

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, check_number, matrix
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.precision import real_dtype
from nlattn.arrays.typing import Array, RngLike
from nlattn.linalg._magnitudes import row_squares, scaled
from nlattn.linalg._operators import adjoint
from nlattn.linalg._orthonormal import orthonormal
from nlattn.sketch._factory import SketchKind, sketch_operator
from nlattn.sketch._hadamard import padded_length

__all__ = ["leverage_scores"]

Method = Literal["exact", "sketch"]


@on_numpy
def leverage_scores(
    a: Array,
    *,
    ridge: float = 0.0,
    method: Method = "exact",
    sketch: SketchKind = "sparse_sign",
    size: int | None = None,
    rng: RngLike = None,
    check_finite: bool = True,
) -> Array:
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
    check_choice("method", method, get_args(Method))
    check_choice("sketch", sketch, get_args(SketchKind))
    size = _rows_of_sketch(size, sketch, n, d)
    if n == 0 or d == 0:
        return xp.zeros((n,), dtype=real_dtype(xp, a.dtype), device=a.device)
    a, norm, scale = scaled(a)
    ridge = ridge / scale / scale
    eps = float(xp.finfo(a.dtype).eps)
    if method == "exact" and ridge == 0:
        return row_squares(orthonormal(a, 8 * eps * norm))
    few = sketch_operator(sketch, size, n, rng=rng).apply(a, check_finite=False) if method == "sketch" else a
    _, s, vh = xp.linalg.svd(xp.linalg.qr(few, mode="reduced")[1], full_matrices=False)
    s = xp.astype(s, xp.float64, copy=False)  # the scaled ridge may be beyond float32
    kept = s > 8 * eps * to_float(xp.linalg.vector_norm(s))
    inverse = xp.where(kept, 1 / xp.sqrt(xp.where(kept, s * s, xp.ones_like(s)) + ridge), xp.zeros_like(s))
    return row_squares(a @ (adjoint(vh) * xp.astype(inverse, a.dtype)[None, :]))


def _rows_of_sketch(size: int | None, kind: SketchKind, n: int, d: int) -> int:
    most = padded_length(n) if kind == "srht" else None
    if size is None:
        return 4 * d if most is None else min(4 * d, most)
    size = check_integer("size", size, least=0, most=most, why=f"the least power of two that is at least n = {n}")
    least = max(d, 1) if most is None else min(max(d, 1), most)
    if size < least:
        raise ValueError(f"size must be at least {least}, the columns of a, got {size}")
    return size
