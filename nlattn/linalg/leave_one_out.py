"""Errors of randomised approximations, estimated from the sketch that made them."""

import math
from typing import Any

from array_api_compat import array_namespace

from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg.operators import adjoint
from nlattn.validation import matrix

__all__ = ["leave_one_out_nystrom", "leave_one_out_range"]


def leave_one_out_range(images: Any, *, check_finite: bool = True) -> float:
    """The Frobenius error of a range finder, from its images alone.

    Parameters
    ----------
    images : array, shape (m, s)
        ``a @ g`` for random vectors of uncorrelated entries of variance 1, without power iterations; s <= m.
    check_finite : bool, default True

    Returns
    -------
    float
        An estimate, no bound: its square is unbiased for the mean of ``||a - Q Q^H a||_F^2`` with s - 1 vectors, and so
        slightly pessimistic for s.

    Notes
    -----
    Column i is tested against the range of the others: what is left of it has the squared norm
    ``1 / ||e_i^T R^-1||^2`` (arXiv 2207.06342). ``leave_one_out_mean`` in ``nlattn.bounds``. Costs O(m s^2).

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
    r = xp.linalg.qr(images, mode="reduced")[1]
    if bool(xp.any(xp.linalg.diagonal(r) == 0)):
        return 0.0
    eye = xp.eye(s, dtype=r.dtype, device=r.device)
    inverse = xp.abs(solve_triangular(r, eye, lower=False))
    return math.sqrt(float(xp.mean(1 / xp.sum(inverse * inverse, axis=1))))


def leave_one_out_nystrom(images: Any, test: Any, *, check_finite: bool = True) -> float:
    """The trace that a Nystrom approximation leaves, from its sketch alone.

    Parameters
    ----------
    images : array, shape (n, s)
        ``a @ test``, `a` positive semidefinite.
    test : array, shape (n, s)
        Random vectors of uncorrelated entries of variance 1.
    check_finite : bool, default True

    Returns
    -------
    float
        An estimate, no bound: unbiased for the mean of ``tr(a - a_hat)`` with s - 1 vectors.

    Notes
    -----
    ``mean_i 1 / (H^-1)_ii``, H = test^H images (arXiv 2207.06342). Costs n s^2.

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
    core = adjoint(test) @ images
    values, vectors = xp.linalg.eigh(0.5 * (core + adjoint(core)))
    if not float(values[0]) > float(xp.finfo(values.dtype).eps) * float(values[-1]):
        return 0.0
    squares = xp.abs(vectors) ** 2
    return float(xp.mean(1 / xp.sum(squares / values[None, :], axis=1)))
