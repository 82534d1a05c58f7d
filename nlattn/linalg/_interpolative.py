"""Matrices from a few of their own columns and rows."""

import warnings
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.host import to_float
from nlattn.arrays.random import generator
from nlattn.errors import ConvergenceWarning
from nlattn.kernels.pivoted_qr import pivoted_qr
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._magnitudes import squared_norm
from nlattn.linalg._operators import Operator, adjoint, operator
from nlattn.linalg._ranges import grow
from nlattn.linalg._residuals import Residual
from nlattn.linalg._svd import BLOCK
from nlattn.sketch._factory import SKETCHES

__all__ = ["CUR", "InterpolativeDecomposition", "cur", "interpolative_decomposition"]


class InterpolativeDecomposition(NamedTuple):
    """``a ~ a[:, columns] @ coefficients``.

    Attributes
    ----------
    columns : integer array, shape (r,)
        The most important first.
    coefficients : array, shape (r, n)
        ``coefficients[:, columns]`` is the identity.
    error : float
        Relative, in the Frobenius norm; for operators an estimate from 10 random products.
    """

    columns: Any
    coefficients: Any
    error: float


class CUR(NamedTuple):
    """``a ~ a[:, columns] @ core @ a[rows, :]``.

    Attributes
    ----------
    columns, rows : integer array, shape (r,)
    core : array, shape (r, r)
    error : float
        Relative, in the Frobenius norm; for operators an estimate from 10 random products.
    """

    columns: Any
    core: Any
    rows: Any
    error: float


def interpolative_decomposition(
    a: Any,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    oversampling: int = 10,
    power_iterations: int = 1,
    sketch: str = "gaussian",
    rng: Any = None,
    check_finite: bool = True,
) -> InterpolativeDecomposition:
    """A few columns of a matrix that span the others.

    Parameters
    ----------
    a : array, shape (m, n), or operator
        Real or complex; an operator has ``shape``, ``@`` and an adjoint.
    rank : int, optional
        Number of columns, at most min(m, n); with `rtol` their largest number.
    rtol : float, optional
        Wanted relative error in the Frobenius norm, at least 8 eps.
    oversampling : int, default 10
        Columns of the random block beyond `rank`.
    power_iterations : int, default 1
        Further products with ``a a^H``.
    sketch : {"gaussian", "sparse_sign", "srht", "count", "balanced_count"}, default "gaussian"
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    InterpolativeDecomposition
        ``columns``, ``coefficients``, ``error``. Fewer columns than `rank` where those at hand reproduce the
        matrix to rounding.

    Warns
    -----
    ConvergenceWarning
        If `rank` columns do not reach `rtol`.

    Notes
    -----
    Columns come from a pivoted QR factorisation of ``Q^H a``, with a randomised range Q (arXiv 0909.4061, section 5.2);
    the coefficients are those of least squares on the columns themselves.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> a = np.outer([1.0, 2.0], [3.0, 5.0, 4.0])
    >>> columns, coefficients, error = nlattn.interpolative_decomposition(a, 1, rng=0)
    >>> columns, coefficients.round(12)
    (array([1]), array([[0.6, 1. , 0.8]]))
    """
    op = operator("a", a, check_finite=check_finite)
    residual, q, pivots, image = _columns(op, rank, rtol, oversampling, power_iterations, sketch, rng)
    xp = op.xp
    # a[:, pivots] = q r, and r is what image^H = q^H a holds in these columns.
    projected = adjoint(image)
    triangle = xp.take(projected, pivots, axis=1)
    coefficients = solve_triangular(triangle, projected, lower=False)
    numbers = xp.arange(op.shape[1], dtype=pivots.dtype, device=pivots.device)
    here = pivots[:, None] == numbers[None, :]
    taken = xp.any(here, axis=0)
    coefficients = xp.where(taken[None, :], xp.astype(here, coefficients.dtype), coefficients)
    error = residual.of(q, image)
    _warn(f"{pivots.shape[0]} columns have", error, rtol)
    return InterpolativeDecomposition(pivots, coefficients, error)


def cur(
    a: Any,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    oversampling: int = 10,
    power_iterations: int = 1,
    sketch: str = "gaussian",
    rng: Any = None,
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
    xp = op.xp
    eps = float(xp.finfo(op.dtype).eps)
    if rtol is not None:
        rtol = check_number("rtol", rtol, least=8 * eps, below=1.0)
    first = None if rtol is None else max(rtol / 2, 8 * eps)
    residual, q, columns, _ = _columns(op, rank, first, oversampling, power_iterations, sketch, rng)
    c = _take(op, columns)
    _, r, rows = pivoted_qr(adjoint(c), columns.shape[0])
    # The core is of the size of the inverse of the least pivot: beyond sqrt(eps) it would amplify rounding.
    pivots = xp.abs(xp.linalg.diagonal(xp.take(r, rows, axis=1)))
    kept = int(xp.sum(xp.astype(pivots > eps**0.5 * pivots[0], xp.int64))) if pivots.shape[0] else 0
    columns, rows, c, q = columns[:kept], rows[:kept], c[:, :kept], q[:, :kept]
    few = adjoint(_take(op.adjoint, rows))
    right, triangle = xp.linalg.qr(adjoint(few), mode="reduced")
    core = solve_triangular(adjoint(q) @ c, adjoint(q) @ (op @ right), lower=False)
    core = adjoint(solve_triangular(triangle, adjoint(core), lower=False))
    error = residual.explicit(c @ core, few)
    _warn(f"{kept} columns and rows have", error, rtol)
    return CUR(columns, core / op.scale, rows, error)


def _warn(what: str, error: float, rtol: float | None) -> None:
    if rtol is not None and error > rtol:
        message = f"{what} a relative error of {error:.2g}, more than rtol={rtol:g}: raise rank or rtol"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _columns(
    op: Operator, rank: Any, rtol: Any, oversampling: Any, power_iterations: Any, sketch: str, rng: Any
) -> tuple[Residual, Any, Any, Any]:
    """Pivot columns, an orthonormal basis q of them, and a^H q."""
    least = min(op.shape)
    if rank is None and rtol is None:
        raise ValueError("rank and rtol are both None: give the number of columns, the tolerance, or both")
    if rtol is not None:
        rtol = check_number("rtol", rtol, least=8 * float(op.xp.finfo(op.dtype).eps), below=1.0)
    most = least if rank is None else check_integer("rank", rank, least=0, most=least, why="the smaller dimension")
    extra = check_integer("oversampling", oversampling, least=0)
    steps = check_integer("power_iterations", power_iterations, least=0)
    check_choice("sketch", sketch, tuple(SKETCHES))
    random = generator(rng)
    residual = Residual(op, random)
    xp = op.xp
    q, image = (xp.zeros((n, 0), dtype=op.dtype, device=op.like.device) for n in op.shape)
    pivots = xp.zeros((0,), dtype=xp.int64, device=op.like.device)
    basis: Any = None
    width = min(least, BLOCK if rtol is not None else most + extra) if most else 0
    end = min(least, width * (steps + 1) if rtol is None else most + extra)
    for basis, rows in grow(op, width, steps, "krylov", sketch, random):
        if basis.shape[1] >= end:
            break
        if rtol is not None and residual.of(basis, rows) <= rtol:
            q, pivots, image = _pivot(op, rows, most)
            if residual.of(q, image) <= rtol:
                return _shortened(residual, q, pivots, image, rtol)
    if basis is not None:
        q, pivots, image = _pivot(op, rows, most)
    return _shortened(residual, q, pivots, image, rtol)


def _pivot(op: Operator, rows: Any, most: int) -> tuple[Any, Any, Any]:
    """An orthonormal basis q of pivot columns, their numbers, and a^H q; rows = a^H u for a basis u of the range."""
    _, _, pivots = pivoted_qr(adjoint(rows), min(most, rows.shape[1]))
    q, _ = op.xp.linalg.qr(_take(op, pivots), mode="reduced")
    return q, pivots, op.adjoint @ q


def _shortened(residual: Residual, q: Any, pivots: Any, image: Any, rtol: float | None) -> tuple[Any, Any, Any, Any]:
    """The fewest leading columns within the tolerance."""
    if rtol is None:
        return residual, q, pivots, image
    xp = array_namespace(image)
    squares = [to_float(squared_norm(image[:, j : j + 1])) for j in range(image.shape[1])]
    error = residual.of(q, image)
    left, keep = error**2, len(squares)
    while keep > 0 and residual.squared > 0 and (left := left + squares[keep - 1] / residual.squared) <= rtol**2:
        keep -= 1
    keep = keep if residual.squared > 0 else 0
    index = xp.arange(keep, dtype=xp.int64, device=pivots.device)
    return residual, q[:, :keep], xp.take(pivots, index), image[:, :keep]


def _take(op: Operator, columns: Any) -> Any:
    """Some columns of a matrix."""
    xp = op.xp
    if op.array is not None:
        return xp.take(op.array, columns, axis=1)
    numbers = xp.arange(op.shape[1], dtype=columns.dtype, device=columns.device)
    return op @ xp.astype(numbers[:, None] == columns[None, :], op.dtype)
