"""From which normal distribution to draw the directions of positive features."""

from typing import NamedTuple

from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.typing import Array, Namespace
from nlattn.sketch._points import paired_points

__all__ = ["FeatureCovariance", "optimal_covariance", "optimal_variance"]


class FeatureCovariance(NamedTuple):
    """Variances along orthonormal axes.

    Attributes
    ----------
    variance : array, shape (..., d)
        At least 1, descending.
    basis : array, shape (..., d, d)
        The axes are its columns: features are made of ``x @ basis`` and ``y @ basis``, whose inner products are those
        of x and y.
    """

    variance: Array
    basis: Array


@on_numpy
def optimal_variance(x: Array, y: Array, *, check_finite: bool = True) -> Array:
    """The variance of directions that suits two sets of points on average.

    Parameters
    ----------
    x : array, shape (..., n, d)
    y : array, shape (..., s, d)
        Not empty.
    check_finite : bool, default True

    Returns
    -------
    array, shape (..., 1)
        At least 1; `positive_log_features` takes it as `variance`.

    Notes
    -----
    It minimises the mean over all pairs of the logarithm of the second moment of a feature product: with F the mean
    of ||x + y||^2 it is (1 + 1 / r) / 2, where r is the positive root of 2 F r^2 + (d + 2 F) r - d = 0. Costs
    2 (n + s) d flops. Source: arXiv 2205.15317 (there A = (1 - variance) / 4).
    Bounds: ``weighted_positive_variance``, ``optimal_second_moment``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> x = np.asarray([[1.0, 0.0]])
    >>> nlattn.sketch.optimal_variance(x, -x), nlattn.sketch.optimal_variance(x, x).round(3)
    (array([1.]), array([3.351]))
    """
    xp, x, y = paired_points("x", x, "y", y, check_finite=check_finite, allow_empty=False)
    squares = xp.mean(xp.sum(x * x, axis=-1), axis=-1) + xp.mean(xp.sum(y * y, axis=-1), axis=-1)
    mean = squares + 2 * xp.sum(xp.mean(x, axis=-2) * xp.mean(y, axis=-2), axis=-1)
    return _best(xp, mean[..., None] / x.shape[-1])


@on_numpy
def optimal_covariance(x: Array, y: Array, *, check_finite: bool = True) -> FeatureCovariance:
    """The covariance of directions that suits two sets of points on average.

    Parameters
    ----------
    x : array, shape (..., n, d)
    y : array, shape (..., s, d)
        Not empty.
    check_finite : bool, default True

    Returns
    -------
    FeatureCovariance

    Notes
    -----
    The same mean as in `optimal_variance`, minimised over all variances along all orthonormal axes: these are the
    eigenvectors of the mean of (x + y)(x + y)^T. Costs 2 (n + s) d^2 flops and one eigenproblem of order d. Source:
    arXiv 2302.00787 (SDERF); that the eigenvectors are optimal is shown in the proof of ``optimal_second_moment``.
    Bounds: ``weighted_positive_variance``, ``optimal_second_moment``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal((50, 2)) * [0.1, 1.0], rng.standard_normal((40, 2)) * [0.1, 1.0]
    >>> variance, basis = nlattn.sketch.optimal_covariance(x, y)
    >>> W = nlattn.sketch.orthogonal_projection(64, 2, rng=0)
    >>> nlattn.sketch.positive_log_features(x @ basis, W, variance=variance).shape
    (50, 64)
    """
    xp, x, y = paired_points("x", x, "y", y, check_finite=check_finite, allow_empty=False)
    x_mean, y_mean = xp.mean(x, axis=-2), xp.mean(y, axis=-2)
    cross = x_mean[..., :, None] * y_mean[..., None, :]
    moment = _second_moment(xp, x) + _second_moment(xp, y) + cross + xp.matrix_transpose(cross)
    values, vectors = xp.linalg.eigh(moment)
    values = xp.clip(xp.flip(values, axis=-1), 0, None)
    return FeatureCovariance(_best(xp, values), xp.flip(vectors, axis=-1))


def _best(xp: Namespace, mean: Array) -> Array:
    """The best variance (1 + 1/r) / 2 along an axis of mean square `mean`, in a form that does not divide by it."""
    half = 2 * mean + 1
    return (1 + (half + xp.sqrt(half * half + 8 * mean)) / 2) / 2


def _second_moment(xp: Namespace, x: Array) -> Array:
    return xp.matrix_transpose(x) @ x / x.shape[-2]
