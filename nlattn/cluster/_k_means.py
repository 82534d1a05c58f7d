"""k-means: plain, on the sphere, and with clusters of equal size."""

from typing import Literal, NamedTuple, SupportsIndex, cast, get_args

from nlattn.arrays.arguments import check_choice, check_integer, check_number, floating
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import concrete_or
from nlattn.arrays.namespaces import is_array, namespace
from nlattn.arrays.rows import unit_rows
from nlattn.arrays.typing import Array, Namespace, RngLike
from nlattn.cluster._centroids import cluster_weights, sum_of_squares
from nlattn.cluster._refinement import balanced_refinement, plain_refinement
from nlattn.cluster._seeding import Init, first_centres
from nlattn.sketch._points import points

__all__ = ["KMeans", "kmeans"]

Kind = Literal["plain", "spherical", "balanced"]
Empty = Literal["reseed", "keep"]


class KMeans(NamedTuple):
    """Clusters of points.

    Attributes
    ----------
    centres : array, shape (..., k, d)
    labels : integer array, shape (..., n)
        The centre of each point.
    counts : array, shape (..., k)
        The weight of the points of each centre.
    inertia : array, shape (...)
        Weighted sum of the squared distances of the points from their centres.
    steps : int
        How often the centres were moved.
    """

    centres: Array
    labels: Array
    counts: Array
    inertia: Array
    steps: int


@on_numpy
def kmeans(
    x: Array,
    centres: int | Array,
    weights: Array | None = None,
    *,
    kind: Kind = "plain",
    init: Init = "++",
    empty: Empty = "reseed",
    iterations: int = 100,
    tol: float = 0.0,
    rng: RngLike = None,
    check_finite: bool = True,
) -> KMeans:
    """Divide points among centres such that the sum of squared distances is small.

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real. Integers are taken as float64, float16 and bfloat16 as float32. Each leading index is a problem of its
        own.
    centres : int, or array, shape (..., k, d)
        How many, at most n, or where to begin.
    weights : array, shape (..., n), default all 1
        Not negative; 0 leaves a point out, which gets a label all the same.
    kind : {"plain", "spherical", "balanced"}, default "plain"
        "spherical" clusters directions: points and centres are scaled to length 1, and points that are 0 left out.
        "balanced": no cluster gets more than ceil(n / k) points, n those of positive weight. Pairs of clusters exchange
        points as long as that makes the sum smaller: a local optimum.
    init : {"++", "sample"}, default "++"
        How a number of centres is drawn. "++": one after the other, with probability proportional to the squared
        distance from those drawn before. "sample": distinct points.
    empty : {"reseed", "keep"}, default "reseed"
        What to do with a centre without points: move it to a point that is farthest from its own centre, or leave it.
    iterations : int, default 100
        How often the centres are moved at most; less often if no label changes any more.
    tol : float, default 0
        Also stop when no centre moves farther than `tol` times the root mean square distance of the points from their
        mean.
    rng : None, int, SeedSequence or Generator, default None
        For a number of centres. A batch draws what a loop over its problems would that shares one Generator.
    check_finite : bool, default True

    Returns
    -------
    KMeans
        Labels, counts and inertia belong to the centres returned.

    Raises
    ------
    ValueError
        If there are more centres than points of positive weight.

    Notes
    -----
    The inertia never rises from one iteration to the next. Costs 2 n k d flops an iteration, and for "balanced" up to
    hundreds of rounds of exchanges of n k operations each. On other libraries than NumPy, and for "balanced", an array
    of n x k is made. Sources: Lloyd, DOI 10.1109/TIT.1982.1056489; Arthur and Vassilvitskii, SODA 2007 (++); Dhillon
    and Modha, DOI 10.1023/A:1007612920971 (spherical).

    Examples
    --------
    >>> import numpy as np, nlattn.cluster
    >>> x = np.asarray([[0.0], [1.0], [10.0], [11.0], [12.0]])
    >>> found = nlattn.cluster.kmeans(x, 2, rng=0)
    >>> np.sort(found.centres[:, 0]), float(found.inertia)
    (array([ 0.5, 11. ]), 2.5)
    """
    start = centres if is_array(centres) and centres.ndim > 0 else None
    arrays = {"centres": start, "weights": weights}
    xp = namespace(x=x, **{name: array for name, array in arrays.items() if array is not None})
    x = points("x", x, check_finite=check_finite)
    check_choice("kind", kind, get_args(Kind))
    check_choice("init", init, get_args(Init))
    reseed = check_choice("empty", empty, get_args(Empty)) == "reseed"
    iterations = check_integer("iterations", iterations, least=0)
    tol = check_number("tol", tol, least=0)
    weights = _weights(xp, x, weights, check_finite)
    if kind == "spherical":
        x, zero = unit_rows(x)
        if concrete_or(xp.any(zero), otherwise=True):
            weights = xp.where(zero, xp.zeros_like(x[..., 0]), 1.0 if weights is None else weights)
    middle = _middle(xp, x, weights) if kind != "spherical" else 0.0
    # Squared distances are formed by products, which lose digits to the distance from the origin.
    x = x - middle
    if start is None:
        first = first_centres(xp, x, cast("SupportsIndex", centres), weights, init, rng)
    else:
        first = _begin(xp, x, start, check_finite) - middle
        first = unit_rows(first)[0] if kind == "spherical" else first
    if kind == "balanced":
        last, labels, steps = balanced_refinement(xp, x, first, weights, reseed, iterations)
    else:
        last, labels, steps = plain_refinement(
            xp, x, first, weights, reseed, iterations, tol=tol, spherical=kind == "spherical"
        )
    counts = cluster_weights(xp, x, labels, weights, last.shape[-2])
    inertia = sum_of_squares(xp, x, last, labels, weights)
    return KMeans(last + middle, labels, counts, inertia, steps)


def _middle(xp: Namespace, x: Array, weights: Array | None) -> Array | float:
    """The weighted mean of the points."""
    if weights is None:
        return xp.mean(x, axis=-2, keepdims=True) if x.shape[-2] else 0.0
    total = xp.sum(weights, axis=-1)[..., None, None]
    return weights[..., None, :] @ x / nonzero(total)


def _weights(xp: Namespace, x: Array, weights: Array | None, check_finite: bool) -> Array | None:
    """The weights, checked, in the dtype of the points."""
    if weights is None:
        return None
    weights = floating("weights", weights, check_finite=check_finite)
    if tuple(weights.shape) != tuple(x.shape[:-1]):
        raise ValueError(
            f"weights must have shape {tuple(x.shape[:-1])}, one for each point, got {tuple(weights.shape)}"
        )
    if not concrete_or(xp.all(weights >= 0), otherwise=True):
        raise ValueError("weights must not be negative; 0 leaves a point out")
    return xp.astype(weights, x.dtype, copy=False)


def _begin(xp: Namespace, x: Array, centres: Array, check_finite: bool) -> Array:
    """Given centres, checked, in the dtype of the points."""
    centres = xp.astype(points("centres", centres, check_finite=check_finite), x.dtype, copy=False)
    shape = tuple(centres.shape)
    if shape[:-2] != tuple(x.shape[:-2]) or shape[-1] != x.shape[-1] or shape[-2] == 0:
        raise ValueError(
            f"centres must be a number or have shape (..., k, d) to x of shape {tuple(x.shape)}, got {shape}"
        )
    return centres
