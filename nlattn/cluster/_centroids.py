"""Sums over the points of each centre."""

from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import concrete_or
from nlattn.arrays.rows import take_rows, unit_rows
from nlattn.arrays.typing import Array, Namespace
from nlattn.kernels.segment_sum import segment_sum
from nlattn.kernels.top_k import top_k

__all__ = ["cluster_weights", "moved_centres", "squared_distances", "sum_of_squares"]


def cluster_weights(xp: Namespace, x: Array, labels: Array, weights: Array | None, k: int) -> Array:
    """The weight of the points of each centre."""
    ones = xp.ones((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)
    return _sums(ones, labels, k, weights)[..., 0]


def squared_distances(xp: Namespace, x: Array, centres: Array, labels: Array) -> Array:
    """The squared distances of points from their own centres, by differences, which do not cancel."""
    difference = x - take_rows(centres, labels)
    return xp.sum(difference * difference, axis=-1)


def sum_of_squares(xp: Namespace, x: Array, centres: Array, labels: Array, weights: Array | None) -> Array:
    """The inertia: the weighted sum of the squared distances of points from their centres."""
    squares = squared_distances(xp, x, centres, labels)
    return xp.sum(squares if weights is None else squares * weights, axis=-1)


def moved_centres(
    xp: Namespace,
    x: Array,
    centres: Array,
    labels: Array,
    weights: Array | None,
    *,
    reseed: bool,
    spherical: bool = False,
) -> Array:
    """The mean of the points of each centre, on the sphere its direction.

    Centres without points stay where they are, or with `reseed` move to the points that are farthest from theirs.
    """
    k = centres.shape[-2]
    sums = _sums(x, labels, k, weights)
    counts = cluster_weights(xp, x, labels, weights, k)
    if spherical:
        means, lost = unit_rows(sums)
    else:
        lost = counts == 0
        means = sums / nonzero(counts)[..., None]
    moved = xp.where(lost[..., None], centres, means)
    empty = counts == 0
    if not reseed or x.shape[-2] == 0 or not concrete_or(xp.any(empty), otherwise=True):
        return moved
    # The e-th empty centre gets the e-th farthest point, unless that lies on its centre already.
    distances = squared_distances(xp, x, centres, labels)
    if weights is not None:
        distances = xp.where(weights > 0, distances, xp.zeros_like(distances))
    most = min(k, x.shape[-2])
    farthest, index = top_k(distances, most)
    number = xp.clip(xp.cumulative_sum(xp.astype(empty, index.dtype), axis=-1) - 1, 0, most - 1)
    use = empty & (xp.take_along_axis(farthest, number, axis=-1) > 0)
    chosen = xp.take_along_axis(index, number, axis=-1)
    return xp.where(use[..., None], take_rows(x, chosen), moved)


def _sums(x: Array, labels: Array, k: int, weights: Array | None) -> Array:
    return segment_sum(x, labels[..., None], k, None if weights is None else weights[..., None])
