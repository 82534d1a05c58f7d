"""Far clusters: scored as if each were a key, their shares of the mass of a block, and their part of the output."""

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.columns import column_exponentials
from nlattn.backends.numba_cpu.vector.floats import add
from nlattn.backends.numba_cpu.vector.online_softmax import raise_top, tile_scores, whole
from nlattn.backends.numba_cpu.vector.products import Left, Right, product
from nlattn.kernels.cluster_attention import MOST

__all__ = ["meet_far", "score_far", "share_out"]

# A plain 0 would be compiled for as a literal, once more than needed.
ZERO = np.int64(0)


@inner()
def score_far(end, place, found, deviation, tiles, online):  # type: ignore[no-untyped-def]
    """The scores of all clusters, as if they were keys, and their maxima in the first buffer of `online`."""
    most, m = tiles.far.dtype.type(MOST), online.sums.shape[0]
    peak, square, shift = tiles.column[0], tiles.column[2], online.buffer[0]
    _lengths(tiles.turn, m, peak, tiles.column[1], square)
    for i in range(m):
        shift[i] = online.top[i]
    mean_row = found.mean.shape[2] * found.mean.itemsize
    tile_scores(tiles.turn, ZERO, m, found.mean[place].ctypes.data, mean_row, tiles.far[:end])
    for c in range(end):
        row, mass, wide = tiles.far[c], found.log_mass[place, c], deviation[c]
        for i in range(m):
            second = peak[i] * wide
            second = second * second * square[i]
            x = row[i] + mass + (second if second < most else most)
            row[i] = x
            shift[i] = x if x > shift[i] else shift[i]


@inner()
def _lengths(turn, m, peak, unit, square):  # type: ignore[no-untyped-def]
    """The squared length of each column in units of its largest entry, whose own square may overflow."""
    zero, one = turn.dtype.type(0), turn.dtype.type(1)
    for i in range(m):
        peak[i], square[i] = zero, zero
    for d in range(turn.shape[0]):
        row = turn[d]
        for i in range(m):
            peak[i] = max(peak[i], abs(row[i]))
    for i in range(m):
        unit[i] = one / peak[i] if peak[i] != zero else zero
    for d in range(turn.shape[0]):
        row = turn[d]
        for i in range(m):
            x = row[i] * unit[i]
            square[i] += x * x


@inner()
def share_out(end, overhead, division, tiles, online):  # type: ignore[no-untyped-def]
    """The share of each cluster in the mass of the block; the scores of the clusters become weights."""
    zero, one, m = tiles.far.dtype.type(0), tiles.far.dtype.type(1), online.sums.shape[0]
    mass, shift, far = tiles.column[3], online.buffer[0], tiles.far
    raise_top(online, ZERO)
    mass[:] = zero
    row = far.shape[1] * far.itemsize
    column_exponentials(end, whole(m, zero), far.ctypes.data, row, shift.ctypes.data, mass.ctypes.data, zero)
    for i in range(m):
        mass[i] += online.total[i]
        mass[i] = one / mass[i] if mass[i] != zero else zero
    for c in range(end):
        row, total = tiles.far[c], zero
        for i in range(m):
            total = add(total, row[i] * mass[i])
        division.share[c] = total / tiles.far.dtype.type(max(1, division.n_keys[c] + overhead))


@inner()
def meet_far(end, place, mean_value, taken, tiles, online):  # type: ignore[no-untyped-def]
    """Add the clusters that are not taken, by their weights and mean values."""
    zero, (m, ev), size = tiles.far.dtype.type(0), online.sums.shape, tiles.far.itemsize
    for c in range(end):
        row = tiles.far[c]
        if taken[c]:
            for i in range(m):
                row[i] = zero
        else:
            for i in range(m):
                online.total[i] += row[i]
    left = Left(tiles.far.ctypes.data, size, tiles.far.shape[1] * size)
    right = Right(mean_value[place].ctypes.data, ev * size)
    product(m, ev, end, left, right, Right(online.sums.ctypes.data, ev * size), 1, zero)
