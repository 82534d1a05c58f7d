"""Exponentials of log-features that can neither overflow nor lose a denominator."""

from typing import NamedTuple

from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.guards import finite_or_zero
from nlattn.arrays.host import concrete_or
from nlattn.arrays.typing import Array, Namespace
from nlattn.sketch._points import paired_points

__all__ = ["StabilisedFeatures", "stabilised_features"]


class StabilisedFeatures(NamedTuple):
    """Features between 0 and 1.

    Attributes
    ----------
    query : array, shape (..., n, m)
        The largest of each row is 1; all are 0 where a row has nothing to see.
    key : array, shape (..., s, m)
        The largest of each column is 1; all are 0 where a feature has no key.
    shift : array, shape (..., n)
        The estimate of the kernel is exp(shift_i) times the inner product of query row i and a key row; 0 where the
        query row is 0.
    """

    query: Array
    key: Array
    shift: Array


@on_numpy
def stabilised_features(log_query: Array, log_key: Array, *, check_finite: bool = True) -> StabilisedFeatures:
    """Scale positive features such that sums over keys are at least 1.

    Parameters
    ----------
    log_query : array, shape (..., n, m)
        Logarithms of the features of the queries, e.g. from `positive_log_features`.
    log_key : array, shape (..., s, m)
        Those of the keys, with log-weights added. -inf leaves a key out, or a feature of it.
    check_finite : bool, default True
        Refuse NaN and +inf, and -inf in `log_query`.

    Returns
    -------
    StabilisedFeatures
        With denominators D_i, the sum over j of the inner products of query row i and key row j, between 1 and m s; 0
        only where all keys are left out. The attention is the same in exact arithmetic as with unscaled features.

    Notes
    -----
    Each feature is divided by its largest key, and then each query row by its largest feature. What peers do instead,
    one maximum over all keys and a small number added to each feature, lets that number outweigh typical features, and
    the attention tends to the mean of the values. Costs n m + s m exponentials.
    Bounds: ``stabilised_denominator``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> rng = np.random.default_rng(0)
    >>> x, W = 5 * rng.standard_normal((40, 8)), nlattn.sketch.orthogonal_projection(16, 8, rng=0)
    >>> a = nlattn.sketch.positive_log_features(x, W)
    >>> query, key, _ = nlattn.sketch.stabilised_features(a, a)
    >>> bool(np.all(query @ key.sum(axis=0) >= 1))
    True
    """
    xp, a, b = paired_points("log_query", log_query, "log_key", log_key, check_finite=False)
    if check_finite:
        _refuse(xp, "log_query", a, xp.isfinite(a), "NaN or inf")
        _refuse(xp, "log_key", b, xp.isfinite(b) | (b == -xp.inf), "NaN or +inf")
    if a.shape[-1] == 0:
        raise ValueError(f"log_query must hold at least one feature, got shape {tuple(a.shape)}")
    if b.shape[-2] == 0:
        top = xp.full((*b.shape[:-2], 1, b.shape[-1]), -xp.inf, dtype=b.dtype, device=b.device)
    else:
        top = xp.max(b, axis=-2, keepdims=True)
    key = xp.exp(b - finite_or_zero(top))
    a = a + top
    row = finite_or_zero(xp.max(a, axis=-1, keepdims=True))
    return StabilisedFeatures(xp.exp(a - row), key, row[..., 0])


def _refuse(xp: Namespace, name: str, array: Array, fine: Array, what: str) -> None:
    if not concrete_or(xp.all(fine), otherwise=True):
        raise ValueError(f"{name} contains {what}; clean it, or pass check_finite=False to let it through")
