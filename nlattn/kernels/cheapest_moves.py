"""What it costs least to move a point from one cluster to another."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["cheapest_moves"]


@kernel
def cheapest_moves(costs: Array, labels: Array, most: int) -> tuple[Array, Array]:
    """For each pair of clusters a, b the point i of a with the least costs[i, b] - costs[i, a].

    Parameters
    ----------
    costs : array, shape (..., n, k)
        Real floating and finite; n >= 1.
    labels : integer array, shape (..., n)
        From 0 to k - 1, or k for points that stay out.
    most : int
        At least the number of points with one label below k.

    Returns
    -------
    least : array, shape (..., k, k)
        That difference; inf where a has no point.
    mover : array, shape (..., k, k)
        That point, of equal ones the first; of the default integer dtype, and 0 where a has none.
    """
    xp = array_namespace(costs, labels)
    n, k = costs.shape[-2:]
    clusters = xp.arange(k, dtype=labels.dtype, device=labels.device)
    counts = xp.sum(xp.astype(labels[..., None] == clusters, xp.int64), axis=-2)
    first = xp.cumulative_sum(counts, axis=-1) - counts
    # The points of each cluster in a row of `most` places, n for none; row n of `extra` is inf.
    place = xp.arange(most, dtype=xp.int64, device=labels.device)
    at = xp.clip(first[..., None] + place, None, n - 1)
    order = xp.argsort(labels, axis=-1, stable=True)
    flat = (*labels.shape[:-1], k * most)
    points = xp.take_along_axis(order, xp.reshape(at, flat), axis=-1)
    used = xp.reshape(place < counts[..., None], flat)
    own = xp.take_along_axis(costs, labels[..., None] * xp.astype(labels < k, labels.dtype)[..., None], axis=-1)
    change = xp.take_along_axis(costs - own, points[..., None], axis=-2)
    change = xp.reshape(xp.where(used[..., None], change, xp.inf), (*labels.shape[:-1], k, most, k))
    best = xp.argmin(change, axis=-2)
    mover = xp.take_along_axis(xp.reshape(points, (*labels.shape[:-1], k, most)), best, axis=-1)
    return xp.min(change, axis=-2), xp.where(counts[..., None] > 0, mover, xp.zeros_like(mover))
