"""Random Fourier features."""

import math

from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.typing import Array
from nlattn.sketch._points import projected_points

__all__ = ["trigonometric_features"]


@on_numpy
def trigonometric_features(x: Array, projection: Array, *, check_finite: bool = True) -> Array:
    """Random Fourier features of the Gaussian kernel.

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real. Integers are taken as float64, float16 and bfloat16 as float32.
    projection : array, shape (..., m, d)
        Standard normal rows w, e.g. from `orthogonal_projection`; it is cast to the dtype of `x`.
    check_finite : bool, default True

    Returns
    -------
    array, shape (..., n, 2 m)
        m^(-1/2) (sin w.x, cos w.x): rows of unit length, whose inner product for x and y is an unbiased estimate of
        exp(-||x - y||^2 / 2).

    Notes
    -----
    Costs 2 n m d flops. exp(x.y) is exp(||x||^2 / 2) exp(||y||^2 / 2) times the Gaussian kernel: in attention the
    first factor cancels and ||y||^2 / 2 is a log-weight of the keys. Estimates may be negative, and so may a sum of
    them: check denominators. The error is small for close x and y, where that of `hyperbolic_log_features` is
    large. Source: Rahimi and Recht, NIPS 2007.
    Bounds: ``trigonometric_variance``, ``orthogonal_trigonometric_variance``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> x = np.asarray([[0.1, 0.2], [0.3, 0.1]])
    >>> phi = nlattn.sketch.trigonometric_features(x, nlattn.sketch.orthogonal_projection(4096, 2, rng=0))
    >>> bool(abs(phi[0] @ phi[1] - np.exp(-0.05 / 2)) < 1e-3)
    True
    """
    xp, x, projection = projected_points(x, projection, check_finite=check_finite)
    angles = x @ xp.matrix_transpose(projection)
    return xp.concat([xp.sin(angles), xp.cos(angles)], axis=-1) / math.sqrt(projection.shape[-2])
