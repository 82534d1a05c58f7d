"""Matrices from a few of their own columns."""

from typing import NamedTuple

from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.typing import Array, RngLike
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._columns import pivot_columns, warn_of_error
from nlattn.linalg._operators import LinearMap, adjoint, operator
from nlattn.sketch._factory import SketchKind

__all__ = ["InterpolativeDecomposition", "interpolative_decomposition"]


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

    columns: Array
    coefficients: Array
    error: float


@on_numpy
def interpolative_decomposition(
    a: Array | LinearMap,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    oversampling: int = 10,
    power_iterations: int = 1,
    sketch: SketchKind = "gaussian",
    rng: RngLike = None,
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
    found = pivot_columns(op, rank, rtol, oversampling, power_iterations, sketch, rng)
    xp, columns = op.xp, found.columns
    # a[:, columns] = q r, and r is what image^H = q^H a holds in these columns.
    projected = adjoint(found.image)
    coefficients = solve_triangular(xp.take(projected, columns, axis=1), projected, lower=False)
    numbers = xp.arange(op.shape[1], dtype=columns.dtype, device=columns.device)
    here = columns[:, None] == numbers[None, :]
    taken = xp.any(here, axis=0)
    coefficients = xp.where(taken[None, :], xp.astype(here, coefficients.dtype), coefficients)
    error = found.residual.of(found.q, found.image)
    warn_of_error(f"{columns.shape[0]} columns have", error, rtol)
    return InterpolativeDecomposition(columns, coefficients, error)
