"""Lloyd's iteration: points to centres, centres to the means of their points."""

from nlattn.arrays.host import concrete_or
from nlattn.arrays.typing import Array, Namespace
from nlattn.cluster._capacities import exchanged, filled
from nlattn.cluster._centroids import moved_centres
from nlattn.kernels.nearest_centre import nearest_centre

__all__ = ["balanced_refinement", "plain_refinement"]


def plain_refinement(
    xp: Namespace,
    x: Array,
    centres: Array,
    weights: Array | None,
    reseed: bool,
    iterations: int,
    *,
    tol: float = 0.0,
    spherical: bool = False,
) -> tuple[Array, Array, int]:
    """Centres, labels and how often the centres were moved."""
    limit = _limit(xp, x, tol)

    def nearest(centres: Array) -> Array:
        # On the sphere all centres have length 1 but for rounding, which must not decide for a point that is 0.
        squares = xp.zeros_like(centres[..., 0]) if spherical else xp.sum(centres * centres, axis=-1)
        return nearest_centre(x, centres, squares)[0]

    labels, step = nearest(centres), 0
    while step < iterations:
        step += 1
        before, labels_before = centres, labels
        centres = moved_centres(xp, x, centres, labels, weights, reseed=reseed, spherical=spherical)
        labels = nearest(centres)
        if concrete_or(xp.all(labels == labels_before), otherwise=False):
            break
        if limit is not None:
            moved = xp.max(xp.sum((centres - before) ** 2, axis=-1), axis=-1)
            if concrete_or(xp.all(moved <= limit), otherwise=False):
                break
    return centres, labels, step


def balanced_refinement(
    xp: Namespace, x: Array, centres: Array, weights: Array | None, reseed: bool, iterations: int
) -> tuple[Array, Array, int]:
    """Centres, labels and how often the centres were moved, with room for equal numbers of points in each cluster.

    Exchanges of points between clusters take the place of nearest centres.
    """
    k = centres.shape[-2]
    seats = xp.ones(x.shape[:-1], dtype=xp.bool, device=x.device) if weights is None else weights > 0
    capacity = (xp.sum(xp.astype(seats, xp.int64), axis=-1) + k - 1) // k
    squares = xp.sum(x * x, axis=-1)[..., None]

    def costs(centres: Array) -> Array:
        return squares - 2 * (x @ xp.matrix_transpose(centres)) + xp.sum(centres * centres, axis=-1)[..., None, :]

    if x.shape[-2] == 0:
        return centres, xp.zeros(x.shape[:-1], dtype=xp.int64, device=x.device), 0
    # Points that take no seat have the label k for a while.
    labels, step = exchanged(xp, costs(centres), filled(xp, costs(centres), seats, capacity), capacity), 0
    while step < iterations:
        step += 1
        seated = xp.where(seats, labels, xp.zeros_like(labels))
        centres = moved_centres(xp, x, centres, seated, weights, reseed=reseed)
        before, labels = labels, exchanged(xp, costs(centres), labels, capacity)
        if not concrete_or(xp.any(labels != before), otherwise=True):
            break
    if weights is not None:
        labels = xp.where(seats, labels, xp.argmin(costs(centres), axis=-1))
    return centres, labels, step


def _limit(xp: Namespace, x: Array, tol: float) -> Array | None:
    """The squared distance up to which centres may move when the iteration stops, if it has a tolerance."""
    if tol == 0 or x.shape[-2] == 0:
        return None
    difference = x - xp.mean(x, axis=-2, keepdims=True)
    return tol**2 * xp.mean(xp.sum(difference * difference, axis=-1), axis=-1)
