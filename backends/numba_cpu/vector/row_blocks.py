"""Blocks of query rows over ranges of keys: an online softmax over tiles that lie in one range each."""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import Compiled, compiled, inner
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, frozen, rows_contiguous
from nlattn.backends.numba_cpu.runtime.pool import scratch_arrays, share
from nlattn.backends.numba_cpu.runtime.signatures import group, integer, write
from nlattn.backends.numba_cpu.vector.counter import take
from nlattn.backends.numba_cpu.vector.few_rows import FEW, few_scores, sum_of_keys
from nlattn.backends.numba_cpu.vector.hidden import (
    HIDDEN,
    WORD,
    ZERO,
    Hidden,
    Masks,
    by_intervals,
    hidden,
    hide,
    hide_edges,
    rows_that_see,
)
from nlattn.backends.numba_cpu.vector.lines import line
from nlattn.backends.numba_cpu.vector.online_softmax import (
    BUFFERS,
    TILE_KEYS,
    Online,
    absorb,
    finish,
    start_online,
    tile_scores,
    whole_vectors,
)
from nlattn.backends.numba_cpu.vector.operands import OPERANDS, Operands, head_addresses, load_scaled, operands
from nlattn.backends.numba_cpu.vector.products import lanes

__all__ = ["ROWS", "attend_blocks"]

#: Rows of a tile, at most: a multiple of the rows and columns of all register blocks.
ROWS = 96


class Ranges(NamedTuple):
    """The keys that blocks of rows meet, as integers.

    Attributes
    ----------
    begin, end : address of integers, shape (B H, T, W)
        Each block meets the keys begin <= j < end.
    blocks, each : int
        T and W.
    size, rows : int
        Rows of a block, and of a tile.
    """

    begin: int
    end: int
    blocks: int
    each: int
    size: int
    rows: int


class Task(NamedTuple):
    """How many tiles there are, whether rows begin with what `out` and `lse` hold, and whether keys must be finite."""

    tiles: int
    resumed: int
    strict: int


def attend_blocks(
    arrays: tuple[NumpyArray, NumpyArray, NumpyArray],
    ranges: tuple[NumpyArray, NumpyArray],
    masks: Masks,
    *,
    scale: float,
    size: int,
    initial: tuple[NumpyArray, NumpyArray] | None = None,
    strict: bool = False,
) -> tuple[NumpyArray, NumpyArray]:
    """The result of `nlattn.kernels.block_attention.block_attention` for query, key and value, none of them empty.

    With `strict`, rows are NaN where a key that their tiles read is not finite.
    """
    query, key, value = arrays
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    (b, h, length, e), ev = query.shape, value.shape[3]
    if initial is None:
        out, lse = np.empty((b, h, length, ev), dtype), np.empty((b, h, length), dtype)
    else:
        out, lse = (np.array(x, dtype=dtype, order="C") for x in initial)
    query, key, value = (rows_contiguous(array, dtype) for array in arrays)
    size = min(size, length)
    rows = min(size, ROWS)
    (begin, end), (blocks, each) = (frozen(x, np.int64) for x in ranges), ranges[0].shape[2:]
    hides, kept = hidden(masks, length, key.shape[2], dtype)
    tiles = b * h * blocks * -(-size // rows)
    what = Ranges(begin.ctypes.data, end.ctypes.data, blocks, each, size, rows)
    inputs = tuple(operands(query, key, value)), tuple(what), tuple(hides), dtype.type(scale)
    plain = initial is None and not strict and rows > FEW and by_intervals(masks)
    compute = (_plain_tiles if plain else _tiles)[dtype]
    results = (out.reshape(b * h, length, ev), lse.reshape(b * h, length))
    width, task = whole_vectors(rows, dtype.itemsize), tuple(Task(tiles, initial is not None, strict))

    def work(counter: NumpyArray) -> None:
        room = scratch_arrays(dtype, (e, width), (2 + BUFFERS, width), (TILE_KEYS, width), (rows, ev), (FEW, e))
        compute(*inputs, task, counter, tuple(room), *results)

    share(work, tiles)
    del kept  # The compiled function knows these arrays by their addresses alone.
    return out, lse


def _signature(real: Any) -> Any:
    ranges, task = (group(*(integer,) * len(kind._fields)) for kind in (Ranges, Task))
    room = group(*(write(real, 2),) * 5)
    return types.void(OPERANDS, ranges, HIDDEN, real, task, write(integer, 1), room, write(real, 3), write(real, 2))


def _tiles_of(hiding: bool) -> Compiled:
    """The compiled function for plain calls, of many rows from which intervals alone hide keys, or for all others.

    A first call is mostly plain, and its function is compiled in less time.
    """

    @compiled(_signature)
    def tiles(operands, ranges, hidden, scale, task, counter, room, out, lse):  # type: ignore[no-untyped-def]
        """Compute tiles of rows as long as the counter gives their numbers.

        Those of a head follow each other, since they read the same keys, from the last rows on, which see most where it
        is causal.
        """
        operands, ranges, hidden, task = Operands(*operands), Ranges(*ranges), Hidden(*hidden), Task(*task)
        (queries, state, scores, sums, few), width = room, lanes(scale)
        per_block = -(-ranges.size // ranges.rows)
        n_tiles = ranges.blocks * per_block
        number = take(counter.ctypes.data)
        while number < task.tiles:
            h, t = number // n_tiles, n_tiles - 1 - number % n_tiles
            number = take(counter.ctypes.data)
            block = t // per_block
            i0 = block * ranges.size + t % per_block * ranges.rows
            m = min(ranges.rows, min((block + 1) * ranges.size, hidden.length) - i0)
            if m <= 0:
                continue
            online = Online(state[0], state[1], state[2:], sums[:m])
            start_online(online, queries, m)
            if hiding and task.resumed:
                _resume(online, out[h, i0 : i0 + m], lse[h, i0 : i0 + m])
            query_at, key_at, value_at = head_addresses(operands, h)
            for i in range(m):
                load_scaled(query_at + (i0 + i) * operands.query_row, scale, queries[:, i])
                if hiding and m <= FEW:
                    load_scaled(query_at + (i0 + i) * operands.query_row, scale, few[i])
            at = (h * ranges.blocks + block) * ranges.each * WORD
            begin, end = line(ranges.begin + at, ranges.each, ZERO), line(ranges.end + at, ranges.each, ZERO)
            found = lse.dtype.type(0)
            for w in range(ranges.each):
                for j0 in range(begin[w], end[w], TILE_KEYS):
                    tile = scores[: min(TILE_KEYS, end[w] - j0)]
                    first, last, simple = 0, m, hidden.start == 0
                    if hidden.start and not hidden.position:
                        row = h * hidden.length + i0
                        first, last, simple = rows_that_see(hidden, row, m, j0, j0 + tile.shape[0])
                        if first >= last:
                            continue
                        # Whole vectors of rows, which then have their part in all that follows.
                        first, last = first // width * width, min(m, -(-last // width) * width)
                    keys_at = key_at + j0 * operands.key_row
                    if hiding and m <= FEW:
                        few_scores(few, m, keys_at, operands.key_row, tile)
                    else:
                        tile_scores(queries, first, last, keys_at, operands.key_row, tile)
                    if hiding and task.strict:
                        found = sum_of_keys(keys_at, operands.key_row, tile.shape[0], operands.features, found)
                    if hiding:
                        head = h, h // operands.sharing, operands.heads
                        hide(hidden, head, i0, (first, last, simple), j0, tile)
                    elif not simple:
                        hide_edges(hidden, h * hidden.length + i0 + first, last - first, first, j0, tile)
                    some = Online(online.top, online.total, online.buffer, online.sums[:last])
                    absorb(tile, first, value_at + j0 * operands.value_row, operands.value_row, some)
            finish(online, out[h, i0 : i0 + m], lse[h, i0 : i0 + m])
            if hiding and found - found != 0:
                out[h, i0 : i0 + m] = found - found

    return tiles


_plain_tiles, _tiles = _tiles_of(False), _tiles_of(True)


@inner()
def _resume(online, out, lse):  # type: ignore[no-untyped-def]
    """Begin with the partial that the rows already have."""
    one, low = lse.dtype.type(1), lse.dtype.type(-np.inf)
    for i in range(lse.size):
        if lse[i] != low:
            online.top[i], online.total[i] = lse[i], one
            sums, row = online.sums[i], out[i]
            for c in range(row.size):
                sums[c] = row[c]
