"""Queries and keys with the same scores and smaller sums, for which random features have less variance."""

from typing import Literal, NamedTuple, get_args

from nlattn.arrays.arguments import check_choice
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.typing import Array, Namespace
from nlattn.sketch._points import paired_points

__all__ = ["BalancedPair", "balance_query_key"]

Kind = Literal["full", "diagonal", "none"]


class BalancedPair(NamedTuple):
    """q_i.k_j = query_i.key_j + row_shift_i + log_weight_j.

    Attributes
    ----------
    query : array, shape (..., n, d)
    key : array, shape (..., s, d)
    row_shift : array, shape (..., n)
        Cancels in attention.
    log_weight : array, shape (..., s)
        A log-weight of the keys; to be added to the logarithms of their features.
    """

    query: Array
    key: Array
    row_shift: Array
    log_weight: Array


@on_numpy
def balance_query_key(
    query: Array, key: Array, *, kind: Kind = "full", centre: bool = True, check_finite: bool = True
) -> BalancedPair:
    """Change queries and keys such that scores stay and ||query_i + key_j||^2 is small on average.

    Parameters
    ----------
    query : array, shape (..., n, d)
        Multiplied by the scale of the attention already.
    key : array, shape (..., s, d)
        Neither these nor the queries may be empty.
    kind : {"full", "diagonal", "none"}, default "full"
        "full": queries are multiplied by T^T and keys by T^-1, T the best matrix. "diagonal": T is the best diagonal
        matrix. "none": T is 1.
    centre : bool, default True
        First subtract their mean from the queries, and theirs from the keys.
    check_finite : bool, default True

    Returns
    -------
    BalancedPair

    Notes
    -----
    The mean of ||T^T q + T^-1 k||^2 over all pairs of centred queries and keys with second moments M and N is
    tr(T^T M T) + tr(T^-1 N T^-T). Its minimum is twice the nuclear norm of M^(1/2) N^(1/2), where T T^T is the
    geometric mean of M^-1 and N; of the T with this product the one is taken for which both second moments are the
    same diagonal matrix, so that `optimal_covariance` finds its axes done. M and N are regularised by eps^(1/2) of
    their mean eigenvalues. The identity between scores is exact up to rounding. Costs 4 (n + s) d^2 flops and two
    decompositions of order d. Source of the diagonal form: arXiv 2302.00787 (SADERF).
    Bounds: ``balanced_mean``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((30, 4)) * 3 + 1, rng.standard_normal((20, 4))
    >>> x, y, u, w = nlattn.sketch.balance_query_key(q, k)
    >>> np.allclose(x @ y.T + u[:, None] + w, q @ k.T)
    True
    >>> def mean(q, k):
    ...     return np.mean(np.sum((q[:, None] + k) ** 2, axis=-1))
    >>> bool(mean(x, y) < 0.6 * mean(q, k))
    True
    """
    xp, query, key = paired_points("query", query, "key", key, check_finite=check_finite, allow_empty=False)
    check_choice("kind", kind, get_args(Kind))
    x, y = query, key
    row_shift, log_weight = xp.zeros_like(x[..., 0]), xp.zeros_like(y[..., 0])
    if centre:
        x_mean, y_mean = xp.mean(x, axis=-2, keepdims=True), xp.mean(y, axis=-2, keepdims=True)
        x, y = x - x_mean, y - y_mean
        row_shift = xp.sum(x * y_mean, axis=-1)
        log_weight = xp.sum(x_mean * key, axis=-1)
    if kind == "diagonal":
        m, n = _regularised(xp, xp.mean(x * x, axis=-2), xp.mean(y * y, axis=-2))
        stretch = (n / m)[..., None, :] ** 0.25
        x, y = x * stretch, y / stretch
    elif kind == "full":
        x, y = _balanced(xp, x, y)
    return BalancedPair(x, y, row_shift, log_weight)


def _regularised(xp: Namespace, m: Array, n: Array) -> tuple[Array, Array]:
    """Mean squares along axes, none of them 0; all of them 1 where both sets are 0."""
    least = xp.finfo(m.dtype).eps ** 0.5
    m_mean, n_mean = xp.mean(m, axis=-1, keepdims=True), xp.mean(n, axis=-1, keepdims=True)
    empty = m_mean + n_mean == 0
    m_floor, n_floor = (least * (a + least * b) for a, b in ((m_mean, n_mean), (n_mean, m_mean)))
    one = xp.ones_like(m_mean)
    return m + xp.where(empty, one, m_floor), n + xp.where(empty, one, n_floor)


def _balanced(xp: Namespace, x: Array, y: Array) -> tuple[Array, Array]:
    """x @ T and y @ T^-T with T = M^(-1/2) U S^(1/2), where M^(1/2) N^(1/2) = U S V^T."""
    x_values, x_axes = xp.linalg.eigh(xp.matrix_transpose(x) @ x / x.shape[-2])
    y_values, y_axes = xp.linalg.eigh(xp.matrix_transpose(y) @ y / y.shape[-2])
    x_values, y_values = _regularised(xp, xp.clip(x_values, 0, None), xp.clip(y_values, 0, None))
    x_roots, y_roots = xp.sqrt(x_values), xp.sqrt(y_values)
    # In the axes of x and of y the square roots of their moments are diagonal.
    cross = x_roots[..., :, None] * (xp.matrix_transpose(x_axes) @ y_axes) * y_roots[..., None, :]
    u, s, _ = xp.linalg.svd(cross, full_matrices=False)
    least = xp.finfo(s.dtype).eps * s[..., :1]
    s = xp.sqrt(xp.where(s > least, s, least))
    forward = x_axes @ (u * s[..., None, :] / x_roots[..., :, None])
    backward = x_axes @ (x_roots[..., :, None] * u / s[..., None, :])
    return x @ forward, y @ backward
