"""Matrices from a few of their own columns and rows."""

from typing import NamedTuple

from nlattn.arrays.arguments import check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.typing import Array, RngLike
from nlattn.kernels.pivoted_qr import pivoted_qr
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._columns import pivot_columns, take_columns, warn_of_error
from nlattn.linalg._operators import LinearMap, adjoint, operator
from nlattn.sketch._factory import SketchKind

__all__ = ["CUR", "cur"]


class CUR(NamedTuple):
    """``a ~ a[:, columns] @ core @ a[rows, :]``.

    Attributes
    ----------
    columns, rows : integer array, shape (r,)
    core : array, shape (r, r)
    error : float
        Relative, in the Frobenius norm; for operators an estimate from 10 random products.
    """

    columns: Array
    core: Array
    rows: Array
    error: float


@on_numpy
def cur(
    a: Array | LinearMap,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    oversampling: int = 10,
    power_iterations: int = 1,
    sketch: SketchKind = "gaussian",
    rng: RngLike = None,
    check_finite: bool = True,
) -> CUR:
    """A few columns and as many rows of a matrix that together give the whole.

    Parameters
    ----------
    a : array, shape (m, n), or operator
        Real or complex; an operator has ``shape``, ``@`` and an adjoint.
    rank : int, optional
        Number of columns and of rows, at most min(m, n); with `rtol` their largest number.
    rtol : float, optional
        Wanted relative error in the Frobenius norm, at least 8 eps. The columns meet half of it; where the rows do not
        leave the error within it, and below about sqrt(eps), a ConvergenceWarning says so.
    oversampling, power_iterations, sketch, rng, check_finite
        As in `interpolative_decomposition`.

    Returns
    -------
    CUR
        ``columns``, ``core``, ``rows``, and the ``error`` of their product. Fewer columns and rows than `rank` where
        more would be dependent to sqrt(eps), so that the core would amplify rounding errors.

    Notes
    -----
    Rows come from a pivoted QR factorisation of the chosen columns (arXiv 1412.8447). ``core`` is ``C^+ a R^+``, the
    best for these columns and rows, from thin QR factorisations of both; no square submatrix is inverted.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> a = np.outer([1.0, 2.0], [3.0, 5.0, 4.0])
    >>> columns, core, rows, error = nlattn.cur(a, 1, rng=0)
    >>> bool(np.allclose(a[:, columns] @ core @ a[rows, :], a))
    True
    """
    op = operator("a", a, check_finite=check_finite)
    xp, eps = op.xp, float(op.xp.finfo(op.dtype).eps)
    first = rtol
    if rtol is not None:
        rtol = check_number("rtol", rtol, least=8 * eps, below=1.0)
        first = max(rtol / 2, 8 * eps)
    found = pivot_columns(op, rank, first, oversampling, power_iterations, sketch, rng)
    columns, q = found.columns, found.q
    c = take_columns(op, columns)
    _, r, rows = pivoted_qr(adjoint(c), columns.shape[0])
    # The core is of the size of the inverse of the least pivot: beyond sqrt(eps) it would amplify rounding.
    pivots = xp.abs(xp.linalg.diagonal(xp.take(r, rows, axis=1)))
    kept = int(xp.sum(xp.astype(pivots > eps**0.5 * pivots[0], xp.int64))) if pivots.shape[0] else 0
    columns, rows, c, q = columns[:kept], rows[:kept], c[:, :kept], q[:, :kept]
    few = adjoint(take_columns(op.adjoint, rows))
    right, triangle = xp.linalg.qr(adjoint(few), mode="reduced")
    core = solve_triangular(adjoint(q) @ c, adjoint(q) @ (op @ right), lower=False)
    core = adjoint(solve_triangular(triangle, adjoint(core), lower=False))
    error = found.residual.explicit(c @ core, few)
    warn_of_error(f"{kept} columns and rows have", error, rtol)
    return CUR(columns, core / op.scale, rows, error)
