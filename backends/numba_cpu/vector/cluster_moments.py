"""Tilted moments of clusters, and the choice of clusters by their share of the mass."""

from typing import Any, NamedTuple

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.blas import gemm
from nlattn.backends.numba_cpu.vector.exponential import exp_sum, maximum
from nlattn.backends.numba_cpu.vector.floats import add, order_of

__all__ = ["BINS", "Limits", "Members", "Moments", "add_key", "choose", "moments"]

# Shares are compared by the leading bits of their float32 value: sign, exponent and 3 bits of the fraction.
BINS, SHIFT = 1 << 11, 20


class Members(NamedTuple):
    """The keys of one head, sorted by cluster, with the arrays of `nlattn.kernels.cluster_attention.Clusters`.

    `weight` is empty where keys have no log-weights.
    """

    key: Any
    value: Any
    weight: Any
    position: Any
    edges: Any
    segments: Any
    label: Any
    deviation: Any


class Limits(NamedTuple):
    """Only keys at positions below `visible` count, and not those with low <= position < high."""

    visible: Any
    low: Any
    high: Any


class Moments(NamedTuple):
    """Moments of M clusters for R heads, each with an expansion point of its own.

    Attributes
    ----------
    points : shape (R, E)
    scores : shape (R, widest)
        A buffer for the scores of the keys of a cluster.
    log_mass, mean, mean_value : shapes (R, M), (R, M, E), (R, M, Ev)
    """

    points: Any
    scores: Any
    log_mass: Any
    mean: Any
    mean_value: Any


@inner()
def moments(c, members, limits, found):  # type: ignore[no-untyped-def]
    """Set the moments of cluster c to those of the keys that count; return their number."""
    first, last = members.edges[c], members.edges[c + 1]
    while last > first and members.position[last - 1] >= limits.visible:
        last -= 1
    count = last - first
    if limits.high > limits.low:
        for j in range(first, last):
            count -= members.position[j] >= limits.low and members.position[j] < limits.high
    if count == 0:
        for a in range(found.points.shape[0]):
            found.log_mass[a, c] = -np.inf
            found.mean[a, c] = 0
            found.mean_value[a, c] = 0
        return 0
    _shares(c, first, last - first, count, members, limits, found)
    _means(c, first, last - first, members.key, found.scores, found.mean)
    _means(c, first, last - first, members.value, found.scores, found.mean_value)
    return count


@inner()
def _shares(c, first, n, count, members, limits, found):  # type: ignore[no-untyped-def]
    """Each head's shares of the n keys from `first` on in the mass of cluster c, in `scores`; `count` of them count."""
    one, zero = found.points.dtype.type(1), found.points.dtype.type(0)
    (heads, e), ld = found.points.shape, found.scores.shape[1]
    key_at, point_at, score_at = members.key[first].ctypes.data, found.points.ctypes.data, found.scores.ctypes.data
    gemm(True, False, n, heads, e, one, key_at, e, point_at, e, zero, score_at, ld)
    for a in range(heads):
        row = found.scores[a, :n]
        if members.weight.size:
            for j in range(n):
                row[j] += members.weight[first + j]
        if count < n:
            for j in range(n):
                if members.position[first + j] >= limits.low and members.position[first + j] < limits.high:
                    row[j] = -np.inf
        top = maximum(row)
        total = exp_sum(row, top)
        found.log_mass[a, c] = top + np.log(total)
        factor = one / total
        for j in range(n):
            row[j] *= factor


@inner()
def _means(c, first, n, rows, shares, means):  # type: ignore[no-untyped-def]
    """means[:, c] = the n rows from `first` on, weighted by the shares of each head."""
    one, zero = shares.dtype.type(1), shares.dtype.type(0)
    heads, m, e = means.shape
    row_at, share_at, mean_at = rows[first].ctypes.data, shares.ctypes.data, means[0, c].ctypes.data
    gemm(False, False, e, heads, n, one, row_at, e, share_at, shares.shape[1], zero, mean_at, m * e)


@inner(fastmath={"contract"})
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for c in range(a.size):
        total = add(total, a[c] * b[c])
    return total


@inner(fastmath={"contract"})
def _move(mean, share, row):  # type: ignore[no-untyped-def]
    for c in range(mean.size):
        mean[c] += share * (row[c] - mean[c])


@inner()
def add_key(c, key, value, extra, found):  # type: ignore[no-untyped-def]
    """The moments of cluster c with one key more, of log-weight `extra`."""
    one = found.points.dtype.type(1)
    for a in range(found.points.shape[0]):
        score, before = _dot(found.points[a], key) + extra, found.log_mass[a, c]
        top = max(score, before)
        found.log_mass[a, c] = top + np.log(np.exp(score - top) + np.exp(before - top))
        share = min(one, np.exp(score - found.log_mass[a, c]))
        _move(found.mean[a, c], share, key)
        _move(found.mean_value[a, c], share, value)


@inner()
def choose(share, count, budget, histogram, taken):  # type: ignore[no-untyped-def]
    """taken[c]: whether c is among the largest shares, not negative, whose counts together are at most `budget`.

    They are taken in the order of the shares, of equal ones the first, up to the one that does not fit any more.
    """
    histogram[:] = 0
    for c in range(share.size):
        histogram[order_of(np.float32(share[c])) >> SHIFT] += count[c]
        taken[c] = False
    left, edge = budget, histogram.size - 1
    while edge >= 0 and histogram[edge] <= left:
        left -= histogram[edge]
        edge -= 1
    for c in range(share.size):
        taken[c] = order_of(np.float32(share[c])) >> SHIFT > edge
    while edge >= 0:
        best, most = -1, np.float32(-1)
        for c in range(share.size):
            own = np.float32(share[c])
            if order_of(own) >> SHIFT == edge and not taken[c] and own > most:
                best, most = c, own
        if best < 0 or count[best] > left:
            return
        taken[best] = True
        left -= count[best]
