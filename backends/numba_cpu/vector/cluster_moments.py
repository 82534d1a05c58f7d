"""Tilted moments of clusters, and the choice of clusters by their share of the mass."""

import numpy as np
from numba import njit

from nlattn.backends.numba_cpu.vector.blas import gemm
from nlattn.backends.numba_cpu.vector.exponential import add, exp_sum, maximum

__all__ = ["BINS", "add_key", "choose", "moments"]

# Shares are compared by the leading bits of their float32 value: sign, exponent and 3 bits of the fraction.
BINS, SHIFT = 1 << 11, 20


@njit(nogil=True)
def moments(address, c, points, key, value, weight, position, edges, limits, scores, log_mass, mean, mean_value):  # type: ignore[no-untyped-def]
    """Moments of cluster c, with one expansion point for each head (R, E); returns the number of keys that count.

    `limits`: only keys at positions below limits[0] and not from limits[1] to limits[2] do. `scores` (R, widest) is a
    buffer; log_mass (R, M), mean (R, M, E) and mean_value (R, M, Ev) are set at c.
    """
    heads, e = points.shape
    ev, ld = value.shape[1], scores.shape[1]
    number = points.dtype.type
    one, zero = number(1), number(0)
    first, last = edges[c], edges[c + 1]
    while last > first and position[last - 1] >= limits[0]:
        last -= 1
    n = last - first
    count = n
    if limits[2] > limits[1]:
        for j in range(first, last):
            count -= position[j] >= limits[1] and position[j] < limits[2]
    if count == 0:
        for a in range(heads):
            log_mass[a, c] = -np.inf
            mean[a, c, :] = zero
            mean_value[a, c, :] = zero
        return 0
    keys, values = key[first].ctypes.data, value[first].ctypes.data
    gemm(address, True, False, n, heads, e, one, keys, e, points.ctypes.data, e, zero, scores.ctypes.data, ld)
    for a in range(heads):
        row = scores[a, :n]
        if weight.size:
            for j in range(n):
                row[j] += weight[first + j]
        if count < n:
            for j in range(n):
                if position[first + j] >= limits[1] and position[first + j] < limits[2]:
                    row[j] = -np.inf
        top = maximum(row)
        total = exp_sum(row, top)
        log_mass[a, c] = top + np.log(total)
        factor = one / total
        for j in range(n):
            row[j] *= factor
    at, to = scores.ctypes.data, mean.shape[1]
    gemm(address, False, False, e, heads, n, one, keys, e, at, ld, zero, mean[0, c].ctypes.data, to * e)
    gemm(address, False, False, ev, heads, n, one, values, ev, at, ld, zero, mean_value[0, c].ctypes.data, to * ev)
    return count


@njit(nogil=True, fastmath={"contract"})
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for c in range(a.size):
        total = add(total, a[c] * b[c])
    return total


@njit(nogil=True, fastmath={"contract"})
def _move(mean, share, row):  # type: ignore[no-untyped-def]
    for c in range(mean.size):
        mean[c] += share * (row[c] - mean[c])


@njit(nogil=True)
def add_key(c, points, key, value, extra, log_mass, mean, mean_value):  # type: ignore[no-untyped-def]
    """The moments of cluster c with one key more, of log-weight `extra`."""
    one = points.dtype.type(1)
    for a in range(points.shape[0]):
        score, before = _dot(points[a], key) + extra, log_mass[a, c]
        top = max(score, before)
        log_mass[a, c] = top + np.log(np.exp(score - top) + np.exp(before - top))
        share = min(one, np.exp(score - log_mass[a, c]))
        _move(mean[a, c], share, key)
        _move(mean_value[a, c], share, value)


@njit(nogil=True)
def choose(share, count, budget, histogram, taken):  # type: ignore[no-untyped-def]
    """taken[c]: whether c is among the largest shares whose counts together are at most `budget`.

    In the order of the shares, of equal ones the first, up to the one that does not fit any more.
    """
    histogram[:] = 0
    bits = share.view(np.int32)
    for c in range(share.size):
        histogram[bits[c] >> SHIFT] += count[c]
        taken[c] = False
    left, edge = budget, histogram.size - 1
    while edge >= 0 and histogram[edge] <= left:
        left -= histogram[edge]
        edge -= 1
    for c in range(share.size):
        taken[c] = bits[c] >> SHIFT > edge
    while edge >= 0:
        best, most = -1, np.float32(-1)
        for c in range(share.size):
            if bits[c] >> SHIFT == edge and not taken[c] and share[c] > most:
                best, most = c, share[c]
        if best < 0 or count[best] > left:
            return
        taken[best] = True
        left -= count[best]
