"""Errors of randomised approximations, estimated from the sketch that made them."""

import math

from array_api_compat import array_namespace

from nlattn.arrays.arguments import matrix
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._magnitudes import row_norms, scaled, squared_norm
from nlattn.linalg._operators import adjoint
from nlattn.linalg._orthonormal import orthonormal

__all__ = ["leave_one_out_nystrom", "leave_one_out_range"]

# The most that eps times the condition number may be for an inverse to tell what is left of each column. Beyond it, one
# column after the other is projected onto the rest.
REGULAR = 1e-2


@on_numpy
def leave_one_out_range(images: Array, *, check_finite: bool = True) -> float:
    """The Frobenius error of a range finder, from its images alone.

    Parameters
    ----------
    images : array, shape (m, s)
        ``a @ g`` for independent random vectors of uncorrelated entries of mean 0 and variance 1, without power
        iterations; s <= m.
    check_finite : bool, default True

    Returns
    -------
    float
        An estimate, no bound: its square is unbiased for the mean of ``||a - Q Q^H a||_F^2`` with s - 1 vectors, and so
        slightly pessimistic for s.

    Notes
    -----
    Column i is tested against the range of the others: what is left of it has the squared norm
    ``1 / ||e_i^T R^-1||^2`` (arXiv 2207.06342). ``leave_one_out_mean`` in ``nlattn.bounds``. Columns that
    depend on the others count as 0. Costs O(m s^2), and s^4 more if some nearly do.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import leave_one_out_range
    >>> round(leave_one_out_range(np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])) ** 2, 9)
    12.5
    """
    images = matrix("images", images, allow_complex=True, check_finite=check_finite)
    xp, (m, s) = array_namespace(images), images.shape
    if s == 0 or s > m:
        raise ValueError(f"images must have at least one column and no more than rows, got shape {(m, s)}")
    images, _, scale = scaled(images)
    r = xp.linalg.qr(images, mode="reduced")[1]
    eps = float(xp.finfo(r.dtype).eps)
    lengths = row_norms(adjoint(r))
    r = r / xp.astype(nonzero(lengths), r.dtype)[None, :]
    if bool(xp.all(xp.abs(xp.linalg.diagonal(r)) > eps)):
        eye = xp.eye(s, dtype=r.dtype, device=r.device)
        rows = row_norms(solve_triangular(r, eye, lower=False))
        if to_float(xp.max(rows)) < REGULAR / eps:
            return scale * math.sqrt(to_float(xp.mean((lengths / rows) ** 2)))
    total = 0.0
    for i in range(s):
        q = orthonormal(_without(r, i), 8 * eps * math.sqrt(s))
        rest = r[:, i : i + 1] - q @ (adjoint(q) @ r[:, i : i + 1])
        total += to_float(squared_norm(rest)) * to_float(lengths[i]) ** 2
    return scale * math.sqrt(total / s)


@on_numpy
def leave_one_out_nystrom(images: Array, test: Array, *, check_finite: bool = True) -> float:
    """The trace that a Nystrom approximation leaves, from its sketch alone.

    Parameters
    ----------
    images : array, shape (n, s)
        ``a @ test``, `a` positive semidefinite.
    test : array, shape (n, s)
        Independent random vectors of uncorrelated entries of mean 0 and variance 1.
    check_finite : bool, default True

    Returns
    -------
    float
        An estimate, no bound: unbiased for the mean of ``tr(a - a_hat)`` with s - 1 vectors.

    Notes
    -----
    ``mean_i 1 / (H^-1)_ii``, H = test^H images (arXiv 2207.06342). Images that depend on the others count
    as 0. Costs n s^2, and s^4 more if some nearly do.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import leave_one_out_nystrom
    >>> leave_one_out_nystrom(np.diag([3.0, 5.0]), np.eye(2))
    4.0
    """
    images = matrix("images", images, allow_complex=True, check_finite=check_finite)
    test = matrix("test", test, allow_complex=True, check_finite=check_finite)
    xp = array_namespace(images, test)
    if images.shape != test.shape or 0 in images.shape:
        raise ValueError(f"images and test must have one shape, not empty, got {images.shape} and {test.shape}")
    images, _, scale = scaled(images)
    test, _, other = scaled(test)
    core = adjoint(test) @ images
    core = 0.5 * (core + adjoint(core))
    eps, s = float(xp.finfo(core.dtype).eps), core.shape[0]
    own = xp.real(xp.linalg.diagonal(core)) if xp.isdtype(core.dtype, "complex floating") else xp.linalg.diagonal(core)
    own = xp.where(own > 0, own, xp.zeros_like(own))
    lengths = xp.astype(xp.sqrt(nonzero(own)), core.dtype)
    core = core / lengths[:, None] / lengths[None, :]
    values, vectors = xp.linalg.eigh(core)
    if to_float(values[0]) > eps / REGULAR * to_float(values[-1]):
        left = own / xp.sum(xp.abs(vectors) ** 2 / values[None, :], axis=1)
        return to_float(xp.mean(left)) * scale * other
    total = 0.0
    for i in range(s):
        values, vectors = xp.linalg.eigh(adjoint(_without(adjoint(_without(core, i)), i)))
        kept = values > 8 * eps * s
        inverse = xp.where(kept, 1 / xp.where(kept, values, xp.ones_like(values)), xp.zeros_like(values))
        along = xp.abs(adjoint(vectors) @ _without(core[:, i : i + 1], i, axis=0))[:, 0]
        total += max(1.0 - to_float(xp.sum(along**2 * inverse)), 0.0) * to_float(own[i])
    return float(total / s * scale * other)


def _without(x: Array, i: int, axis: int = 1) -> Array:
    """All columns but one, or all rows."""
    xp = array_namespace(x)
    before, after = (x[:, :i], x[:, i + 1 :]) if axis == 1 else (x[:i, ...], x[i + 1 :, ...])
    return xp.concat([before, after], axis=axis)
