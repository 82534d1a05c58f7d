"""Positive random features of the softmax kernel exp(x.y), as logarithms."""

import math

import array_api_compat

from nlattn.arrays.arguments import check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import concrete_or
from nlattn.arrays.namespaces import is_array, namespace
from nlattn.arrays.typing import Array, Namespace
from nlattn.sketch._points import projected_points

__all__ = ["hyperbolic_log_features", "positive_log_features"]


@on_numpy
def positive_log_features(
    x: Array, projection: Array, *, variance: float | Array = 1.0, check_finite: bool = True
) -> Array:
    """Logarithms of positive random features of exp(x.y).

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real. Integers are taken as float64, float16 and bfloat16 as float32.
    projection : array, shape (..., m, d)
        Standard normal rows w, e.g. from `orthogonal_projection`; it is cast to the dtype of `x`.
    variance : float, or array, shape (..., d) or (..., 1), default 1
        The features are those of directions of this variance along each axis instead of 1, weighted so that the
        estimate stays unbiased: see `optimal_variance` and `optimal_covariance`. More than 1/2; at 1/2 or below, the
        variance of the estimate is infinite.
    check_finite : bool, default True

    Returns
    -------
    array, shape (..., n, m)
        w'.x - ||x||^2 / 2 + log(f(w')) / 2 - log(m) / 2 with w' = w variance^(1/2) and f the ratio of the densities of
        N(0, I) and N(0, variance). The inner product of the exponentials for x and for y is an unbiased estimate of
        exp(x.y).

    Notes
    -----
    Costs 2 n m d flops. Exponentials of these may underflow for all but a few of them: contract them by
    `stabilised_features`. The relative variance of one estimate is (exp(||x + y||^2) - 1) / m at variance 1: features
    pay where queries and keys nearly cancel, which `balance_query_key` brings about as far as it can be.
    Source: arXiv 2009.14794 (FAVOR+), with `variance` arXiv 2205.15317 (its A is (1 - variance) / 4) and 2302.00787.
    Bounds: ``positive_variance``, ``orthogonal_positive_variance``, ``weighted_positive_variance``,
    ``orthogonal_moment``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> x = np.asarray([[0.1, 0.2], [0.3, 0.1]])
    >>> a = nlattn.sketch.positive_log_features(x, nlattn.sketch.orthogonal_projection(4096, 2, rng=0))
    >>> bool(abs(np.exp(a[0]) @ np.exp(a[1]) - np.exp(0.05)) < 0.03)
    True
    """
    angles, rest = _parts(x, projection, variance, check_finite)
    return angles + rest


@on_numpy
def hyperbolic_log_features(
    x: Array, projection: Array, *, variance: float | Array = 1.0, check_finite: bool = True
) -> Array:
    """Logarithms of positive features of exp(x.y) for each direction and its opposite.

    Parameters
    ----------
    x : array, shape (..., n, d)
    projection : array, shape (..., m, d)
    variance : float, or array, shape (..., d) or (..., 1), default 1
    check_finite : bool, default True
        These are as in `positive_log_features`.

    Returns
    -------
    array, shape (..., n, 2 m)
        First the features of w, then those of -w, each less log(2) / 2.

    Notes
    -----
    Costs 2 n m d flops for 2 m features. The relative variance of one estimate is (cosh(||x + y||^2) - 1) / m at
    variance 1: never more than that of 2 m positive features, and far less for small ||x + y||.
    Bounds: ``hyperbolic_variance``, ``orthogonal_hyperbolic_variance``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> x = np.asarray([[0.1, 0.2], [0.3, 0.1]])
    >>> a = nlattn.sketch.hyperbolic_log_features(x, nlattn.sketch.orthogonal_projection(2048, 2, rng=0))
    >>> bool(abs(np.exp(a[0]) @ np.exp(a[1]) - np.exp(0.05)) < 0.01)
    True
    """
    angles, rest = _parts(x, projection, variance, check_finite)
    xp = array_api_compat.array_namespace(angles)
    return xp.concat([rest + angles, rest - angles], axis=-1) - math.log(2.0) / 2


def _parts(x: Array, projection: Array, variance: float | Array, check_finite: bool) -> tuple[Array, Array]:
    """The part of the logarithms that changes its sign with w, and the part that does not."""
    xp, x, projection = projected_points(x, projection, check_finite=check_finite)
    m, d = projection.shape[-2:]
    rest = -xp.sum(x * x, axis=-1, keepdims=True) / 2 - math.log(m) / 2
    if is_array(variance):
        given = variance
    else:
        number = check_number("variance", variance, above=0.5)
        if number == 1.0:
            return x @ xp.matrix_transpose(projection), rest
        given = xp.full((1,), number, dtype=x.dtype, device=x.device)
    variance = _axes(xp, given, x, d)
    log_ratio = xp.sum(xp.log(variance), axis=-1)[..., None]
    # The exponent of the ratio of densities, halved: w is standard normal, w' = w variance^(1/2).
    tilt = xp.sum((1 - variance)[..., None, :] * projection * projection, axis=-1)
    stretched = xp.sqrt(variance)[..., None, :] * projection
    weight = (log_ratio + tilt) / 4
    return x @ xp.matrix_transpose(stretched), rest + weight[..., None, :]


def _axes(xp: Namespace, variance: Array, x: Array, d: int) -> Array:
    """The variances as an array (..., d) in the dtype of x."""
    namespace(x=x, variance=variance)
    if variance.ndim < 1 or variance.shape[-1] not in (1, d):
        raise ValueError(
            f"variance must be a number or have shape (..., {d}) or (..., 1), got shape {tuple(variance.shape)}"
        )
    if not concrete_or(xp.all(variance > 0.5), otherwise=True):
        raise ValueError("variance must be > 0.5 everywhere: below, the variance of the estimate is infinite")
    variance = xp.astype(variance, x.dtype, copy=False)
    return xp.broadcast_to(variance, (*variance.shape[:-1], d))
