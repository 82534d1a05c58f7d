"""Online softmax over tiles of scores that hold one row for each key and one column for each query.

In this layout the maximum, the exponential and the sums run along the queries, without a reduction inside a vector.
Tiles of at most `PRODUCT` multiplications take the path that OpenBLAS has for small matrices: on a Zen 4 core at 113
instead of 75 to 90 GFLOP/s.
"""

import numpy as np
from numba import njit

from nlattn.backends.numba_cpu.vector.blas import gemm
from nlattn.backends.numba_cpu.vector.exponential import exp_columns

__all__ = ["absorb", "finish", "tile_keys", "tile_scores"]

PRODUCT = 530_000
FEW = 16


def tile_keys(rows: int, e: int, ev: int) -> int:
    """How many keys make a tile with `rows` queries."""
    return max(8, min(256, PRODUCT // (rows * max(e, ev, 1)) // 8 * 8))


@njit(nogil=True)
def tile_scores(address, queries, key_at, ldk, tile):  # type: ignore[no-untyped-def]
    """tile (keys, m) = K queries, for queries (e, m), scaled, and the rows of K at an address."""
    one, zero = queries.dtype.type(1), queries.dtype.type(0)
    (n, m), e = tile.shape, queries.shape[0]
    gemm(address, False, False, m, n, e, one, queries.ctypes.data, m, key_at, ldk, zero, tile.ctypes.data, m)


@njit(nogil=True)
def absorb(address, tile, value_at, ldv, top, total, highest, out):  # type: ignore[no-untyped-def]
    """Add a tile of scores (keys, m), which is overwritten, with its values to top, total (m,) and out (m, ev).

    -inf hides a pair. `highest` (m,) is a buffer.
    """
    number = top.dtype.type
    low, zero = number(-np.inf), number(0)
    n, m = tile.shape
    highest[:] = top
    for j in range(n):
        row = tile[j]
        for i in range(row.size):
            # This form passes over a NaN, which then shows in the sum.
            highest[i] = row[i] if row[i] > highest[i] else highest[i]
    for i in range(m):
        if highest[i] > top[i]:
            if total[i] != zero:
                decay = np.exp(top[i] - highest[i])
                total[i] *= decay
                for c in range(out.shape[1]):
                    out[i, c] *= decay
            top[i] = highest[i]
        if highest[i] == low:
            highest[i] = zero
    # Sums of a few, and sums of these: one running sum over all keys would lose digits.
    few, all_of_tile = np.zeros(m, top.dtype), np.zeros(m, top.dtype)
    for j0 in range(0, n, FEW):
        exp_columns(tile[j0 : j0 + FEW], highest, few)
        for i in range(m):
            all_of_tile[i] += few[i]
            few[i] = zero
    for i in range(m):
        total[i] += all_of_tile[i]
    one, ev = number(1), out.shape[1]
    gemm(address, False, True, ev, m, n, one, value_at, ldv, tile.ctypes.data, m, one, out.ctypes.data, ev)


@njit(nogil=True)
def finish(top, total, out, lse):  # type: ignore[no-untyped-def]
    """out <- out / total, lse <- top + log(total); 0 and -inf where nothing was seen."""
    for i in range(total.size):
        lse[i] = -np.inf
        if total[i] != 0:
            for c in range(out.shape[1]):
                out[i, c] /= total[i]
            lse[i] = top[i] + np.log(total[i])
