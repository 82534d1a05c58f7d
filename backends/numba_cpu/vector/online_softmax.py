"""Online softmax over tiles of scores that hold one row for each key and one column for each query.

In this layout the maximum, the exponential and the sums run along the queries, without a reduction inside a vector.
"""

from typing import Any, NamedTuple

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.blas import gemm
from nlattn.backends.numba_cpu.vector.exponential import exp_columns

__all__ = ["BUFFERS", "Online", "absorb", "finish", "raise_top", "tile_keys", "tile_scores"]

# Multiplications of a tile, at most: so many take the path that OpenBLAS has for small matrices, which ran at 113
# instead of 75 to 90 GFLOP/s on a Zen 4 core.
PRODUCT = 530_000
# Keys, at most and at least, of a tile.
MOST_KEYS, FEWEST_KEYS = 256, 8
# Keys whose exponentials are added up one after the other, before the sum joins the others.
FEW = 16
# Rows of the buffer that an online softmax works with.
BUFFERS = 3


class Online(NamedTuple):
    """The state of an online softmax over m rows; its arrays may be longer.

    Attributes
    ----------
    top : shape (m,)
        The largest score of each row so far, -inf where there was none.
    total : shape (m,)
        The sum of exp(score - top).
    buffer : shape (BUFFERS, m)
        What the scores of a tile are lowered by, and two kinds of partial sums.
    out : shape (m, ev), no longer
        The sum of exp(score - top) times the values.
    """

    top: Any
    total: Any
    buffer: Any
    out: Any


def tile_keys(rows: int, e: int, ev: int) -> int:
    """How many keys make a tile with `rows` queries."""
    most = PRODUCT // (rows * max(e, ev, 1))
    return max(FEWEST_KEYS, min(MOST_KEYS, most // FEWEST_KEYS * FEWEST_KEYS))


@inner()
def tile_scores(queries, m, key_at, ldk, tile):  # type: ignore[no-untyped-def]
    """tile[:, :m] = K queries[:, :m], for scaled queries (e, at least m), and as many rows of K at an address."""
    one, zero = queries.dtype.type(1), queries.dtype.type(0)
    (e, ldq), (n, ldt) = queries.shape, tile.shape
    gemm(False, False, m, n, e, one, queries.ctypes.data, ldq, key_at, ldk, zero, tile.ctypes.data, ldt)


@inner()
def raise_top(online):  # type: ignore[no-untyped-def]
    """Raise `top` to the larger of itself and the first buffer, and make that what exponentials may be lowered by."""
    low, zero = online.top.dtype.type(-np.inf), online.top.dtype.type(0)
    top, total, shift = online.top, online.total, online.buffer[0]
    for i in range(online.out.shape[0]):
        if shift[i] > top[i]:
            if total[i] != zero:
                decay = np.exp(top[i] - shift[i])
                total[i] *= decay
                row = online.out[i]
                for c in range(row.size):
                    row[c] *= decay
            top[i] = shift[i]
        if shift[i] == low:
            shift[i] = zero


@inner()
def absorb(tile, value_at, ldv, online):  # type: ignore[no-untyped-def]
    """Add a tile of scores (keys, at least m), which is overwritten, with its values. -inf hides a pair."""
    zero, one = online.top.dtype.type(0), online.top.dtype.type(1)
    shift, few, tile_total = online.buffer[0], online.buffer[1], online.buffer[2]
    (n, ldt), (m, ev) = tile.shape, online.out.shape
    for i in range(m):
        shift[i], few[i], tile_total[i] = online.top[i], zero, zero
    for j in range(n):
        row = tile[j]
        for i in range(m):
            # This form passes over a NaN, which then shows in the sum.
            shift[i] = row[i] if row[i] > shift[i] else shift[i]
    raise_top(online)
    # Sums of a few keys, and sums of these: one running sum over all keys would lose digits.
    for j0 in range(0, n, FEW):
        exp_columns(tile, j0, min(j0 + FEW, n), m, shift, few)
        for i in range(m):
            tile_total[i] += few[i]
            few[i] = zero
    for i in range(m):
        online.total[i] += tile_total[i]
    out_at = online.out.ctypes.data
    gemm(False, True, ev, m, n, one, value_at, ldv, tile.ctypes.data, ldt, one, out_at, ev)


@inner()
def finish(top, total, out, lse):  # type: ignore[no-untyped-def]
    """out <- out / total, lse <- top + log(total); 0 and -inf where nothing was seen."""
    for i in range(lse.size):
        lse[i] = -np.inf
        if total[i] != 0:
            row = out[i]
            for c in range(row.size):
                row[c] /= total[i]
            lse[i] = top[i] + np.log(total[i])
