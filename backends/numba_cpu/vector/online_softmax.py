"""Online softmax over tiles of scores that hold one row for each key and one column for each query.

In this layout the maximum, the exponential and the sums run along the queries, without a reduction inside a vector.
Buffers are as wide as a multiple of the lanes of a vector; what becomes of columns beyond the last query is not used.
"""

from typing import Any, NamedTuple

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.columns import column_exponentials, column_maxima
from nlattn.backends.numba_cpu.vector.host import HOST
from nlattn.backends.numba_cpu.vector.products import Left, Right, lanes, product

__all__ = [
    "BUFFERS",
    "TILE_KEYS",
    "Online",
    "absorb",
    "finish",
    "raise_top",
    "start_online",
    "tile_scores",
    "whole",
    "whole_vectors",
]

#: Keys of a tile: a multiple of the rows of all register blocks. The sums of a column have a quarter of as many terms,
#: one after the other; the scores of 96 queries, their operands and the output fit the second-level cache many times.
TILE_KEYS = 48
#: Rows of the buffer that an online softmax works with.
BUFFERS = 1


class Online(NamedTuple):
    """The state of an online softmax over m rows; its arrays but the last may be longer.

    They are buffers that begin at a cache line: products would take a twentieth more time to sum up into an output that
    does not.

    Attributes
    ----------
    top : shape (m,)
        The largest score of each row so far, -inf where there was none.
    total : shape (m,)
        The sum of exp(score - top).
    buffer : shape (BUFFERS, m)
        What the scores of a tile are lowered by.
    sums : shape (m, ev), no longer
        The sum of exp(score - top) times the values.
    """

    top: Any
    total: Any
    buffer: Any
    sums: Any


def whole_vectors(columns: int, itemsize: int) -> int:
    """The least multiple of the lanes of a vector that is not below `columns`."""
    width = HOST.lanes(itemsize)
    return -(-columns // width) * width


@inner()
def whole(columns, like):  # type: ignore[no-untyped-def]
    """`whole_vectors` in compiled code, for numbers of the type of `like`."""
    return -(-columns // lanes(like)) * lanes(like)


@inner()
def start_online(online, queries, m):  # type: ignore[no-untyped-def]
    """Nothing is seen by any row yet; the columns of `queries` beyond the m-th are 0."""
    zero, low = online.top.dtype.type(0), online.top.dtype.type(-np.inf)
    for i in range(online.top.size):
        online.top[i], online.total[i] = low, zero
    online.sums[:] = zero
    for c in range(queries.shape[0]):
        queries[c, m:] = zero


@inner()
def tile_scores(queries, first, m, key_at, key_row, tile):  # type: ignore[no-untyped-def]
    """tile[:, first:m] = K queries[:, first:m], for scaled queries (e, at least m) and as many rows of K.

    `first` is a multiple of the lanes; of K the address, and the bytes to its next row, are given.
    """
    like, size = queries.dtype.type(0), queries.itemsize
    left, skip = Left(key_at, key_row, size), first * size
    right = Right(queries.ctypes.data + skip, queries.shape[1] * size)
    result = Right(tile.ctypes.data + skip, tile.shape[1] * size)
    product(tile.shape[0], whole(m - first, like), queries.shape[0], left, right, result, 0, like)


@inner()
def raise_top(online, first):  # type: ignore[no-untyped-def]
    """Raise `top` to the larger of itself and the buffer, and make that what exponentials may be lowered by."""
    low, zero = online.top.dtype.type(-np.inf), online.top.dtype.type(0)
    m = online.sums.shape[0]
    top, total, shift = online.top[first:m], online.total[first:m], online.buffer[0, first:m]
    for i in range(m - first):
        if shift[i] > top[i]:
            if total[i] != zero:
                decay = np.exp(top[i] - shift[i])
                total[i] *= decay
                row = online.sums[first + i]
                for c in range(row.size):
                    row[c] *= decay
            top[i] = shift[i]
        if shift[i] == low:
            shift[i] = zero


@inner()
def absorb(tile, first, value_at, value_row, online):  # type: ignore[no-untyped-def]
    """Add a tile of scores, which is overwritten, with its values. -inf hides a pair.

    The rows before `first`, a multiple of the lanes, have no part in it.
    """
    like, size = online.top.dtype.type(0), tile.itemsize
    (n, width), (m, ev), skip = tile.shape, online.sums.shape, first * tile.itemsize
    columns, row = whole(m - first, like), width * size
    top, shift = online.top[first : first + columns], online.buffer[0, first : first + columns]
    tile_at, shift_at = tile.ctypes.data + skip, shift.ctypes.data
    for i in range(columns):
        shift[i] = top[i]
    column_maxima(n, columns, tile_at, row, shift_at, like)
    raise_top(online, first)
    column_exponentials(n, columns, tile_at, row, shift_at, online.total.ctypes.data + skip, like)
    out_row = ev * size
    result = Right(online.sums.ctypes.data + first * out_row, out_row)
    product(m - first, ev, n, Left(tile_at, size, row), Right(value_at, value_row), result, 1, like)


@inner()
def finish(online, out, lse):  # type: ignore[no-untyped-def]
    """out <- sums / total, lse <- top + log(total); 0 and -inf where nothing was seen."""
    zero, low = online.top.dtype.type(0), online.top.dtype.type(-np.inf)
    for i in range(lse.size):
        row, sums, total = out[i], online.sums[i], online.total[i]
        if total == zero:
            lse[i] = low
            row[:] = zero
        else:
            lse[i] = online.top[i] + np.log(total)
            for c in range(row.size):
                row[c] = sums[c] / total
