"""Sums over the points of each centre."""

from typing import Any

from nlattn.arrays.host import concrete_or
from nlattn.arrays.rows import take_rows, unit_rows
from nlattn.kernels.segment_sum import segment_sum
from nlattn.kernels.top_k import top_k

__all__ = ["cluster_weights", "moved_centres", "squared_distances", "sum_of_squares"]


def cluster_weights(xp: Any, x: Any, labels: Any, weights: Any, k: int) -> Any:
    """The weight of the points of each centre."""
    ones = xp.ones((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)
    return _sums(ones, labels, k, weights)[..., 0]


def squared_distances(xp: Any, x: Any, centres: Any, labels: Any) -> Any:
    """Of each point from its own centre, by differences, which do not cancel."""
    difference = x - take_rows(centres, labels)
    return xp.sum(difference * difference, axis=-1)


def sum_of_squares(xp: Any, x: Any, centres: Any, labels: Any, weights: Any) -> Any:
    """The inertia."""
    squares = squared_distances(xp, x, centres, labels)
    return xp.sum(squares if weights is None else squares * weights, axis=-1)


def moved_centres(
    xp: Any, x: Any, centres: Any, labels: Any, weights: Any, *, reseed: bool, spherical: bool = False
) -> Any:
    """The mean of the points of each centre, on the sphere its direction; centres that have none stay, or are moved."""
    k = centres.shape[-2]
    sums = _sums(x, labels, k, weights)
    counts = cluster_weights(xp, x, labels, weights, k)
    if spherical:
        means, lost = unit_rows(sums)
    else:
        lost = counts == 0
        means = sums / xp.where(lost, xp.ones_like(counts), counts)[..., None]
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


def _sums(x: Any, labels: Any, k: int, weights: Any) -> Any:
    return segment_sum(x, labels[..., None], k, None if weights is None else weights[..., None])
