"""Sums over the points of each centre."""

import math
from typing import Any

from nlattn.kernels.segment_sum import segment_sum
from nlattn.kernels.top_k import top_k
from nlattn.validation import decided

__all__ = ["cluster_weights", "moved_centres", "rows_at", "squared_distances", "sum_of_squares", "unit_rows"]


def rows_at(xp: Any, x: Any, index: Any) -> Any:
    """x[..., index, :] for each leading index, as one `take` of whole rows."""
    lead, n, d = x.shape[:-2], x.shape[-2], x.shape[-1]
    count = math.prod(lead)
    first = xp.reshape(n * xp.arange(count, dtype=index.dtype, device=index.device), (*lead, 1))
    rows = xp.take(xp.reshape(x, (count * n, d)), xp.reshape(index + first, (count * index.shape[-1],)), axis=0)
    return xp.reshape(rows, (*index.shape, d))


def unit_rows(xp: Any, x: Any) -> tuple[Any, Any]:
    """Rows scaled to length 1, and which are 0 and stay so."""
    norm = xp.sqrt(xp.sum(x * x, axis=-1, keepdims=True))
    zero = norm == 0
    return x / xp.where(zero, xp.ones_like(norm), norm), zero[..., 0]


def cluster_weights(xp: Any, x: Any, labels: Any, weights: Any, k: int) -> Any:
    """The weight of the points of each centre."""
    ones = xp.ones((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)
    return _sums(ones, labels, k, weights)[..., 0]


def squared_distances(xp: Any, x: Any, centres: Any, labels: Any) -> Any:
    """Of each point from its own centre, by differences, which do not cancel."""
    difference = x - rows_at(xp, centres, labels)
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
        means, lost = unit_rows(xp, sums)
    else:
        lost = counts == 0
        means = sums / xp.where(lost, xp.ones_like(counts), counts)[..., None]
    moved = xp.where(lost[..., None], centres, means)
    empty = counts == 0
    if not reseed or x.shape[-2] == 0 or not decided(xp.any(empty), otherwise=True):
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
    return xp.where(use[..., None], rows_at(xp, x, chosen), moved)


def _sums(x: Any, labels: Any, k: int, weights: Any) -> Any:
    return segment_sum(x, labels[..., None], k, None if weights is None else weights[..., None])
