"""Keys divided into clusters, segment by segment, in the metric in which the queries see them."""

from typing import Literal, NamedTuple

from nlattn.arrays.rows import take_rows
from nlattn.arrays.typing import Array, Namespace
from nlattn.cluster._refinement import plain_refinement
from nlattn.kernels.cluster_attention import Clusters
from nlattn.kernels.segment_sum import segment_sum
from nlattn.problem.problem import Problem

__all__ = ["Clustering", "cluster_keys", "cluster_size"]

#: How many times the mean size a cluster may have; keys beyond that become clusters of their own. Clusters of real
#: heads are smaller; among many equal keys the limit keeps each cluster small enough to be met key by key.
LARGEST_OVER_MEAN = 4


class Clustering(NamedTuple):
    """How keys are divided.

    Attributes
    ----------
    kind : "kmeans" or "blocks"
        By similarity, or consecutive keys.
    size : int
        Mean number of keys of a cluster.
    segment : int
        Consecutive keys that are divided by themselves.
    iterations : int
        Lloyd steps of k-means.
    """

    kind: Literal["kmeans", "blocks"]
    size: int
    segment: int
    iterations: int = 2


def cluster_size(s: int) -> int:
    """The mean number of keys of a cluster at which near and far keys cost about the same, for s keys."""
    size = 8
    while size < 128 and 24 * size * size < s:
        size *= 2
    return size


def cluster_keys(
    problem: Problem, clustering: Clustering, used: Array, weight: Array | None, points: Array
) -> Clusters:
    """Divide the keys that are `used` (B, G, S) into clusters; `weight` holds their log-weights, or is None.

    k-means measures distances between the `points` (B, G, S, c) that stand for the keys.
    """
    xp = problem.xp
    b, _, g, _, s = problem.shape
    if clustering.kind == "kmeans":
        return _sorted(problem, _kmeans(xp, points, used, clustering), used, clustering, weight)
    # Nothing here may depend on keys that come later.
    position = xp.arange(s, dtype=xp.int64, device=problem.start.device)
    label = xp.broadcast_to(position % clustering.segment // clustering.size, (b, g, s))
    return _sorted(problem, label, used, clustering, weight)


def _kmeans(xp: Namespace, x: Array, used: Array, clustering: Clustering) -> Array:
    """The number of each key's cluster (B, G, S) inside its segment, by k-means."""
    b, g, s, e = x.shape
    segment, labels = clustering.segment, []
    whole = s // segment * segment
    for first, last in ((0, whole), (whole, s)):
        if first == last:
            continue
        n = min(segment, last - first)
        shape = (b, g, (last - first) // n, n)
        points = xp.reshape(x[:, :, first:last, :], (*shape, e))
        mine = xp.reshape(used[:, :, first:last], shape)
        k = max(1, n // clustering.size)
        # The first centres are evenly spaced among the keys that are used.
        order = xp.argsort(xp.astype(~mine, xp.int8), axis=-1, stable=True)
        total = xp.sum(xp.astype(mine, xp.int64), axis=-1, keepdims=True)
        place = xp.arange(k, dtype=xp.int64, device=total.device) * total // k + total // (2 * k)
        centres = take_rows(points, xp.take_along_axis(order, place, axis=-1))
        _, found, _ = plain_refinement(xp, points, centres, xp.astype(mine, x.dtype), False, clustering.iterations)
        labels.append(xp.reshape(found, (b, g, last - first)))
    return labels[0] if len(labels) == 1 else xp.concat(labels, axis=-1)


def _sorted(problem: Problem, label: Array, used: Array, clustering: Clustering, weight: Array | None) -> Clusters:
    """The clusters that follow from the number of each key's cluster inside its segment."""
    xp = problem.xp
    segment, most = clustering.segment, LARGEST_OVER_MEAN * clustering.size
    b, g, s = label.shape
    position = xp.arange(s, dtype=xp.int64, device=label.device)
    segments = -(-s // segment)
    code = xp.where(used, position // segment * segment + label, segments * segment)
    order = xp.argsort(code, axis=-1, stable=True)
    code = xp.take_along_axis(code, order, axis=-1)
    heads = [_head_clusters(xp, code[i, j, :], segment, segments, most) for i in range(b) for j in range(g)]
    m = max((head.starts.shape[0] for head in heads), default=0)

    def joined(arrays: list[Array], end: int) -> Array:
        if not arrays:
            return xp.zeros((b, g, end), dtype=xp.int64, device=label.device)
        return xp.reshape(xp.stack(arrays), (b, g, end))

    def padded(head: _HeadClusters) -> Array:
        starts = head.starts
        tail = xp.full((m + 1 - starts.shape[0],), head.end, dtype=starts.dtype, device=starts.device)
        return xp.concat([starts, tail])

    edges = joined([padded(head) for head in heads], m + 1)
    label_in_order = joined([xp.where(head.label < 0, m, head.label) for head in heads], s)
    label = xp.take_along_axis(label_in_order, xp.argsort(order, axis=-1), axis=-1)
    return Clusters(
        key=take_rows(problem.key, order),
        value=take_rows(problem.value, order),
        weight=None if weight is None else xp.take_along_axis(weight, order, axis=-1),
        position=order,
        edges=edges,
        segments=joined([head.segments for head in heads], segments + 1),
        label=label,
        deviation=_deviation(xp, xp.astype(problem.key, problem.accumulator, copy=False), label, m),
    )


class _HeadClusters(NamedTuple):
    """The clusters of one head, whose keys stand in the order of their codes.

    Attributes
    ----------
    label : integer array, shape (S,)
        The cluster of the key at each place; -1 for keys in no cluster, which come last.
    starts : integer array, shape (m,)
        The place where each cluster begins.
    end : int
        The place where the last cluster ends.
    segments : integer array, shape (N + 1,)
        The first cluster of each segment, and the number of clusters.
    """

    label: Array
    starts: Array
    end: int
    segments: Array


def _head_clusters(xp: Namespace, code: Array, segment: int, segments: int, most: int) -> _HeadClusters:
    """A cluster for each of the sorted codes (S,), or several where more than `most` keys have one code."""
    place = xp.arange(code.shape[0], dtype=xp.int64, device=code.device)
    bounds = xp.searchsorted(code, segment * xp.arange(segments + 1, dtype=code.dtype, device=code.device))
    end = int(bounds[-1]) if segments else 0
    rank = place - xp.searchsorted(code, code)
    fresh = (rank % most == 0) & (place < end)
    label = xp.where(place < end, xp.cumulative_sum(xp.astype(fresh, xp.int64)) - 1, -1)
    starts = xp.nonzero(fresh)[0]
    return _HeadClusters(label, starts, end, xp.searchsorted(starts, bounds))


def _deviation(xp: Namespace, key: Array, label: Array, m: int) -> Array:
    """The root of half the variance of the keys of each cluster, in the mean over the features."""
    wide = xp.float64  # in which squares of the largest float32 do not overflow

    def mean(array: Array) -> Array:
        return xp.astype(segment_sum(array, label[..., None], m + 1), wide) / count

    one = xp.ones((*label.shape, 1), dtype=wide, device=key.device)
    count = xp.clip(segment_sum(one, label[..., None], m + 1), 1, None)
    # A difference of mean squares would cancel where a cluster is far from 0 and narrow.
    difference = xp.astype(key - take_rows(xp.astype(mean(key), key.dtype), label), wide)
    square = xp.mean(difference * difference, axis=-1, keepdims=True)
    return xp.astype(xp.sqrt(mean(square) / 2)[:, :, :m, 0], key.dtype)
