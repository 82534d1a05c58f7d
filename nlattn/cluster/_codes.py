"""Locality-sensitive hash codes: near points get the same one more often."""

import math

from nlattn.arrays.arguments import check_integer, check_number, floating
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import concrete_or
from nlattn.arrays.typing import Array
from nlattn.kernels.hash_codes import hash_codes
from nlattn.sketch._points import projected_points

__all__ = ["cross_polytope_codes", "hyperplane_codes", "p_stable_codes"]


@on_numpy
def hyperplane_codes(x: Array, projection: Array, *, check_finite: bool = True) -> Array:
    """On which side of each of several hyperplanes points lie.

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real. Integers are taken as float64, float16 and bfloat16 as float32.
    projection : array, shape (..., r, d)
        Normals of the hyperplanes, standard normal rows, r <= 62; cast to the dtype of `x`. The leading axes
        broadcast: give several rounds of hashing an axis of their own.
    check_finite : bool, default True

    Returns
    -------
    array, shape (..., n)
        int64: bit t is 1 where the projection on row t is positive. A zero row of `x` has code 0: give
        padding a place of its own by `valid` of `sort_into_blocks`.

    Notes
    -----
    Codes depend on directions only. Costs 2 n r d flops. Source: Charikar, DOI 10.1145/509907.509965.
    Bounds: ``hyperplane_collision``; ``collision_count_variance`` and ``collision_union_variance`` for sums over the
    points of equal code.

    Examples
    --------
    >>> import numpy as np, nlattn.cluster
    >>> nlattn.cluster.hyperplane_codes(np.asarray([[1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]]), np.eye(2))
    array([3, 2, 0])
    """
    _, x, projection = projected_points(x, projection, check_finite=check_finite)
    if projection.shape[-2] > 62:
        raise ValueError(
            f"projection must have at most 62 rows, which fill an int64, got {projection.shape[-2]}; hash in rounds"
        )
    return hash_codes(x, projection)


@on_numpy
def cross_polytope_codes(
    x: Array, projection: Array, *, factors: tuple[int, ...] | None = None, check_finite: bool = True
) -> Array:
    """Which vertex of a randomly rotated cross-polytope is nearest to each point.

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real. Integers are taken as float64, float16 and bfloat16 as float32.
    projection : array, shape (..., m, d)
        Standard normal rows, or a rotation, e.g. from `orthogonal_projection`; cast to the dtype of `x`. The leading
        axes broadcast: give several rounds of hashing an axis of their own.
    factors : tuple of int, default (m,)
        Sizes of consecutive groups of rows, which add up to m. Each is a hash of its own, and the code a number with
        one digit for each. B buckets from one group cost n d B flops, which is quadratic in n for buckets of a fixed
        size; from two groups of B^(1/2) / 2 rows, 2 n d B^(1/2).
    check_finite : bool, default True

    Returns
    -------
    array, shape (..., n)
        int64, less than the product of 2 f over the groups, f the size of each. A digit is the place of the largest
        absolute value, plus f where that value is negative; the first group is the lowest digit. A zero row of `x` has
        code 0.

    Notes
    -----
    Codes depend on directions only. Source: arXiv 1509.02897. Bounds: ``cross_polytope_collision``.

    Examples
    --------
    >>> import numpy as np, nlattn.cluster
    >>> x = np.asarray([[2.0, 1.0, 0.5, 0.1], [0.0, -2.0, 0.5, -1.0]])
    >>> nlattn.cluster.cross_polytope_codes(x, np.eye(4))
    array([0, 5])
    >>> nlattn.cluster.cross_polytope_codes(x, np.eye(4), factors=(2, 2))
    array([ 0, 15])
    """
    _, x, projection = projected_points(x, projection, check_finite=check_finite)
    rows = int(projection.shape[-2])
    factors = (rows,) if factors is None else tuple(check_integer("factors", factor) for factor in factors)
    if sum(factors) != rows:
        raise ValueError(f"factors must add up to the {rows} rows of projection, got {factors}")
    if math.prod(2 * factor for factor in factors) > 2**62:
        raise ValueError(f"factors must not make more than 2^62 codes, got {factors}; hash in rounds")
    return hash_codes(x, projection, factors)


@on_numpy
def p_stable_codes(x: Array, projection: Array, offsets: Array, width: float, *, check_finite: bool = True) -> Array:
    """In which of the strips of equal width points lie, for each of several directions.

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real. Integers are taken as float64, float16 and bfloat16 as float32.
    projection : array, shape (..., m, d)
        Standard normal rows; cast to the dtype of `x`.
    offsets : array, shape (..., m)
        Uniform on [0, width).
    width : float
        Width of the strips; positive.
    check_finite : bool, default True

    Returns
    -------
    array, shape (..., n, m)
        int64: floor((w.x + offset) / width), one for each row w.

    Notes
    -----
    Costs 2 n m d flops. Source: Datar, Immorlica, Indyk and Mirrokni, DOI 10.1145/997817.997857.
    Bounds: ``p_stable_collision``.

    Examples
    --------
    >>> import numpy as np, nlattn.cluster
    >>> nlattn.cluster.p_stable_codes(np.asarray([[0.5, -3.0]]), np.eye(2), np.asarray([0.6, 0.0]), 1.0)
    array([[ 1, -3]])
    """
    xp, x, projection = projected_points(x, projection, check_finite=check_finite)
    width = check_number("width", width, above=0)
    offsets = xp.astype(floating("offsets", offsets, check_finite=check_finite), x.dtype)
    if offsets.ndim < 1 or offsets.shape[-1] != projection.shape[-2]:
        raise ValueError(
            f"offsets must hold one number for each of the {projection.shape[-2]} rows of projection, "
            f"got shape {tuple(offsets.shape)}"
        )
    strips = xp.floor((x @ xp.matrix_transpose(projection) + offsets[..., None, :]) / width)
    if check_finite and not concrete_or(xp.all(xp.abs(strips) < 2**62), otherwise=True):
        raise ValueError(f"width must be large enough for strip numbers to fit an int64, got {width:g}")
    return xp.astype(strips, xp.int64)
