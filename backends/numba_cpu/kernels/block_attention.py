"""Attention of blocks of rows over ranges of keys: an online softmax over tiles that lie in one range each."""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled, inner
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, frozen, nothing, rows_contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch, threads
from nlattn.backends.numba_cpu.runtime.signatures import group, integer, read, write
from nlattn.backends.numba_cpu.vector.online_softmax import (
    BUFFERS,
    Online,
    absorb,
    finish,
    tile_keys,
    tile_scores,
)
from nlattn.backends.numba_cpu.vector.operands import OPERANDS, Operands, head_addresses, load_scaled, operands

__all__ = ["block_attention"]

# Rows of a tile, at most.
ROWS = 64
# A position before and after all others.
FIRST, LAST = np.int64(-(1 << 62)), np.int64(1 << 62)


class Ranges(NamedTuple):
    """The keys begin <= j < end of each block, (B H, T, W)."""

    begin: Any
    end: Any


class Hidden(NamedTuple):
    """What hides keys from rows, as in the specification, with one axis for all heads of a batch.

    Each array is empty where nothing is hidden by it. The codes have the axis of rows or keys last.
    """

    start: Any
    stop: Any
    position: Any
    weight: Any
    code: Any
    key_code: Any


class Cut(NamedTuple):
    """Rows of a block, and rows and keys of a tile."""

    size: int
    rows: int
    keys: int


def block_attention(
    query: NumpyArray,
    key: NumpyArray,
    value: NumpyArray,
    begin: NumpyArray,
    end: NumpyArray,
    *,
    scale: float,
    size: int,
    start: NumpyArray | None = None,
    stop: NumpyArray | None = None,
    position: NumpyArray | None = None,
    weight: NumpyArray | None = None,
    met: tuple[NumpyArray, NumpyArray] | None = None,
    initial: tuple[NumpyArray, NumpyArray] | None = None,
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.block_attention.block_attention`."""
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    b, h, length, e = query.shape
    s, ev = key.shape[2], value.shape[3]
    if 0 in (b, h, length, s, ev, begin.shape[3]):
        return NotImplemented
    size = min(size, length)
    if initial is None:
        out: Any = np.empty((b, h, length, ev), dtype)
        lse: Any = np.full((b, h, length), -np.inf, dtype)
    else:
        out, lse = (np.array(x, dtype=dtype, order="C") for x in initial)
    query, key, value = (rows_contiguous(array, dtype) for array in (query, key, value))
    ranges = Ranges(_heads(begin, np.int64), _heads(end, np.int64))
    hidden = Hidden(
        *(_heads(x, np.int64) for x in (start, stop, position)),
        _heads(weight, dtype),
        *(_heads(None if met is None else np.moveaxis(met[i], -1, -2), np.int64, 3) for i in (0, 1)),
    )
    rows = min(size, ROWS)
    cut = Cut(size, rows, tile_keys(rows, e, ev))
    tiles = b * h * begin.shape[2] * -(-size // rows)
    arguments = (*map(tuple, (operands(query, key, value), ranges, hidden, cut)), dtype.type(scale))
    compute, results = _tiles[dtype], (out.reshape(b * h, length, ev), lse.reshape(b * h, length))

    def task(first: int, last: int) -> None:
        lines = cut.keys + e + 2 + BUFFERS
        compute(*arguments, first, last, scratch(lines * rows, dtype)[: lines * rows].reshape(lines, rows), *results)

    chunk = max(1, tiles // (32 * threads()))
    run(task, [(i, min(i + chunk, tiles)) for i in range(0, tiles, chunk)])
    return out, lse


def _heads(array: NumpyArray | None, dtype: Any, ndim: int = 2) -> Any:
    """An array (B, H, ...) with one axis for all heads of the batch; an empty one for None."""
    return nothing(ndim, dtype) if array is None else frozen(array.reshape(-1, *array.shape[2:]), dtype)


def _signature(real: Any) -> Any:
    ranges = group(*(read(integer, 3),) * 2)
    by_position, by_code = (read(integer, 2),) * 3, (read(integer, 3),) * 2
    hidden = group(*by_position, read(real, 2), *by_code)
    cut = group(*(integer,) * 3)
    outputs = write(real, 2), write(real, 3), write(real, 2)
    return types.void(OPERANDS, ranges, hidden, cut, real, integer, integer, *outputs)


@compiled(_signature)
def _tiles(operands, ranges, hidden, cut, scale, first, last, buffer, out, lse):  # type: ignore[no-untyped-def]
    """Compute the tiles of rows `first` to `last`, counted from the last rows, the longest of a causal call."""
    operands, ranges, hidden, cut = Operands(*operands), Ranges(*ranges), Hidden(*hidden), Cut(*cut)
    n_heads, length = lse.shape
    e = operands.features
    per_block = -(-cut.size // cut.rows)
    n_tiles = ranges.begin.shape[1] * per_block
    queries, scores = buffer[:e], buffer[e + 2 + BUFFERS :]
    for tile in range(first, last):
        h, t = tile % n_heads, n_tiles - 1 - tile // n_heads
        block = t // per_block
        i0 = block * cut.size + t % per_block * cut.rows
        m = min(cut.rows, min((block + 1) * cut.size, length) - i0)
        if m <= 0:
            continue
        query_at, key_at, value_at = head_addresses(operands, h)
        for i in range(m):
            load_scaled(query_at + (i0 + i) * operands.query_row, scale, queries[:, i])
        online = Online(buffer[e], buffer[e + 1], buffer[e + 2 : e + 2 + BUFFERS], out[h, i0 : i0 + m])
        _resume(online, lse[h], i0)
        edges = _edges(hidden, h, i0, m)
        for w in range(ranges.begin.shape[2]):
            stop_at = ranges.end[h, block, w]
            for j0 in range(ranges.begin[h, block, w], stop_at, cut.keys):
                some = scores[: min(cut.keys, stop_at - j0)]
                tile_scores(queries, m, key_at + j0 * operands.key_row, operands.key_width, some)
                _hide(hidden, edges, h, i0, h // operands.sharing, j0, m, some)
                absorb(some, value_at + j0 * operands.value_row, operands.value_width, online)
        finish(online.top, online.total, online.out, lse[h, i0 : i0 + m])


@inner()
def _resume(online, lse, i0):  # type: ignore[no-untyped-def]
    """Begin with the partial that the rows from i0 on already have in `out` and `lse`."""
    zero, one, low = lse.dtype.type(0), lse.dtype.type(1), lse.dtype.type(-np.inf)
    for i in range(online.out.shape[0]):
        online.top[i] = lse[i0 + i]
        online.total[i] = zero if online.top[i] == low else one
        if online.total[i] == zero:
            online.out[i] = zero


@inner()
def _edges(hidden, h, i0, m):  # type: ignore[no-untyped-def]
    """From which position on all of the rows see keys, and from which on some do not any more."""
    latest, soonest = FIRST, LAST
    if hidden.position.size:
        for i in range(i0, i0 + m):
            latest, soonest = max(latest, hidden.start[h, i]), min(soonest, hidden.stop[h, i])
    return latest, soonest


@inner()
def _hide(hidden, edges, h, i0, g, j0, m, tile):  # type: ignore[no-untyped-def]
    """Add the weights of the keys from j0 on to a tile of scores, and set to -inf what the rows from i0 do not see."""
    low, n = tile.dtype.type(-np.inf), tile.shape[0]
    if hidden.weight.size:
        for j in range(n):
            row, extra = tile[j], hidden.weight[g, j0 + j]
            for i in range(m):
                row[i] = low if extra == low else row[i] + extra
    # Parts of arrays that begin with the first row, since an index i0 + i would keep the loops from being vectorised.
    if hidden.position.size:
        latest, soonest = edges
        start, stop = hidden.start[h, i0 : i0 + m], hidden.stop[h, i0 : i0 + m]
        for j in range(n):
            p = hidden.position[g, j0 + j]
            if p < latest or p >= soonest:
                row = tile[j]
                for i in range(m):
                    row[i] = row[i] if start[i] <= p and p < stop[i] else low
    if hidden.code.size:
        for c in range(hidden.code.shape[1]):
            code, key_code = hidden.code[h, c, i0 : i0 + m], hidden.key_code[g, c, j0 : j0 + n]
            for j in range(n):
                row, other = tile[j], key_code[j]
                for i in range(m):
                    row[i] = low if code[i] == other else row[i]
