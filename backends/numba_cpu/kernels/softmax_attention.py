"""Streaming softmax attention: tiles of scores by GEMM, a running maximum and sum, exponentials by polynomials."""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.kernels.block_attention import block_attention
from nlattn.backends.numba_cpu.runtime.compilation import compiled, inner
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, frozen, nothing, rows_contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch, threads
from nlattn.backends.numba_cpu.runtime.signatures import flag, group, integer, read, strided, write
from nlattn.backends.numba_cpu.vector.blas import gemm
from nlattn.backends.numba_cpu.vector.exponential import exp_sum, maximum
from nlattn.backends.numba_cpu.vector.online_softmax import finish
from nlattn.backends.numba_cpu.vector.operands import OPERANDS, Operands, head_addresses, load_scaled, operands
from nlattn.backends.numba_cpu.vector.score_rows import add_bias, all_hidden

__all__ = ["softmax_attention"]

# A tile of ROWS x KEYS scores and its operands fit a megabyte of second-level cache. Measured on two Zen 4 cores.
ROWS = 512
KEYS = 256
# Neither is made smaller than this.
LEAST = 64


class Interval(NamedTuple):
    """The keys start <= j < stop of each row, (B H, L)."""

    start: Any
    stop: Any


class Cut(NamedTuple):
    """Rows and keys of a tile."""

    rows: int
    keys: int


def softmax_attention(
    query: NumpyArray,
    key: NumpyArray,
    value: NumpyArray,
    start: NumpyArray,
    stop: NumpyArray,
    *,
    scale: float,
    mask: NumpyArray | None = None,
    bias: NumpyArray | None = None,
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.softmax_attention.softmax_attention`."""
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    b, h, length, e = query.shape
    s, ev = key.shape[2], value.shape[3]
    if min(b, h, length, s, ev) == 0:
        return NotImplemented
    if mask is None and bias is None:
        found = _without_masks(query, key, value, start, stop, scale)
        if found is not None:
            return found
    out, lse = np.empty((b, h, length, ev), dtype), np.empty((b, h, length), dtype)
    query, key, value = (rows_contiguous(array, dtype) for array in (query, key, value))
    interval = Interval(*(frozen(edge, np.int64).reshape(b * h, length) for edge in (start, stop)))
    masks = _expanded(mask, np.dtype(np.bool_), (b, h, length, s)), _expanded(bias, dtype, (b, h, length, s))
    cut = _cut(b * h, length, int(np.max(interval.stop - interval.start)))
    arguments = tuple(operands(query, key, value)), tuple(interval), *masks, tuple(cut), dtype.type(scale)
    blocks = b * h * -(-length // cut.rows)
    compute, results = _row_blocks[dtype], (out.reshape(b * h, length, ev), lse.reshape(b * h, length))

    def task(first: int, last: int) -> None:
        compute(*arguments, first, last, scratch(cut.rows * (cut.keys + e + 2), dtype), *results)

    chunk = max(1, blocks // (32 * threads()))
    run(task, [(i, min(i + chunk, blocks)) for i in range(0, blocks, chunk)])
    return out, lse


def _without_masks(
    query: NumpyArray, key: NumpyArray, value: NumpyArray, start: NumpyArray, stop: NumpyArray, scale: float
) -> tuple[NumpyArray, NumpyArray] | None:
    """The result by blocks of rows over the range of keys that they see between them, a tenth to a fourth faster.

    None where rows side by side see keys too far from each other.
    """
    b, h, length, _ = query.shape
    g, s = key.shape[1:3]
    # Enough blocks to share out.
    size = 64 if b * h * -(-length // 64) >= 16 else 32
    edges = np.arange(0, length, size)
    blind = start >= stop
    begin = np.minimum.reduceat(np.where(blind, s, start), edges, axis=2)[..., None]
    end = np.maximum.reduceat(np.where(blind, 0, stop), edges, axis=2)[..., None]
    rows = np.diff(edges, append=length)[:, None]
    if np.sum(rows * np.maximum(end - begin, 0)) > 2 * np.sum(np.maximum(stop - start, 0)) + size * size * begin.size:
        return None
    position = np.broadcast_to(np.arange(s), (b, g, s))
    return block_attention(
        query, key, value, begin, end, scale=scale, size=size, start=start, stop=stop, position=position
    )


def _cut(heads: int, length: int, width: int) -> Cut:
    """Enough tiles to share out, and none much wider than the intervals.

    The number of threads has no part in it: results must not depend on it.
    """
    rows, keys = ROWS, KEYS
    while rows > LEAST and (heads * -(-length // rows) < 16 or rows > width // 2):
        rows //= 2
    while keys > LEAST and keys > width // 4:
        keys //= 2
    return Cut(rows, keys)


def _expanded(array: NumpyArray | None, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A mask or bias for each pair of row and key, as a view; empty for None."""
    return nothing(4, dtype) if array is None else np.broadcast_to(np.asarray(array, dtype), shape)


def _signature(real: Any) -> Any:
    interval, cut = group(*(read(integer, 2),) * 2), group(integer, integer)
    masks = strided(flag, 4), strided(real, 4)
    outputs = write(real, 1), write(real, 3), write(real, 2)
    return types.void(OPERANDS, interval, *masks, cut, real, integer, integer, *outputs)


@compiled(_signature)
def _row_blocks(operands, interval, mask, bias, cut, scale, first, last, buffer, out, lse):  # type: ignore[no-untyped-def]
    """Compute the row blocks `first` to `last`, which count down from the last rows, the longest of a causal call."""
    operands, interval, cut = Operands(*operands), Interval(*interval), Cut(*cut)
    n_heads, length = lse.shape
    e, rows = operands.features, cut.rows
    n_blocks = -(-length // rows)
    scaled, tile = buffer[: rows * e], buffer[rows * (e + 2) :]
    tops, totals = buffer[rows * e : rows * (e + 1)], buffer[rows * (e + 1) : rows * (e + 2)]
    for block in range(first, last):
        h = block % n_heads
        i0 = (n_blocks - 1 - block // n_heads) * rows
        n = min(rows, length - i0)
        query_at, key_at, value_at = head_addresses(operands, h)
        start, stop = interval.start[h, i0 : i0 + n], interval.stop[h, i0 : i0 + n]
        sums, top, total = out[h, i0 : i0 + n], tops[:n], totals[:n]
        for r in range(n):
            top[r], total[r] = -np.inf, 0
            sums[r] = 0
            load_scaled(query_at + (i0 + r) * operands.query_row, scale, scaled[r * e : (r + 1) * e])
        lowest, highest = _range_of_keys(start, stop)
        for j0 in range(lowest, highest, cut.keys):
            n_keys = min(cut.keys, highest - j0)
            r0, r1 = _rows_that_see(start, stop, j0, j0 + n_keys)
            if r0 >= r1:
                continue
            keys = key_at + j0 * operands.key_row
            _scores(scaled[r0 * e : r1 * e], r1 - r0, e, keys, operands.key_width, n_keys, tile)
            for r in range(r0, r1):
                row = tile[(r - r0) * n_keys : (r - r0 + 1) * n_keys]
                left = min(max(start[r] - j0, 0), n_keys)
                right = max(min(stop[r] - j0, n_keys), left)
                row[:left] = 0
                row[right:] = 0
                if right > left:
                    seen = row[left:right]
                    b, own = h // operands.heads, h % operands.heads
                    if bias.size:
                        add_bias(seen, bias[b, own, i0 + r, j0 + left :])
                    if mask.size:
                        _hide(seen, mask[b, own, i0 + r, j0 + left :])
                    _weigh(seen, r, top, total, sums)
            values = value_at + j0 * operands.value_row
            _add_values(tile, r1 - r0, n_keys, values, operands.value_width, sums[r0:r1])
        finish(top, total, sums, lse[h, i0 : i0 + n])


@inner()
def _range_of_keys(start, stop):  # type: ignore[no-untyped-def]
    """The first key, and the key after the last, that some row sees; a reversed range where none sees any."""
    lowest, highest = 1 << 62, 0
    for r in range(start.size):
        if start[r] < stop[r]:
            lowest, highest = min(lowest, start[r]), max(highest, stop[r])
    return lowest, highest


@inner()
def _rows_that_see(start, stop, begin, end):  # type: ignore[no-untyped-def]
    """The first row, and the row after the last, that sees one of the keys from `begin` to `end`."""
    r0, r1 = start.size, 0
    for r in range(start.size):
        if start[r] < end and stop[r] > max(begin, start[r]):
            r0, r1 = min(r0, r), r + 1
    return r0, r1


@inner()
def _scores(queries, m, e, key_at, ldk, n_keys, tile):  # type: ignore[no-untyped-def]
    """tile (m, n_keys) = queries (m, e) K^T, for rows of K at an address."""
    zero, one = queries.dtype.type(0), queries.dtype.type(1)
    gemm(True, False, n_keys, m, e, one, key_at, ldk, queries.ctypes.data, e, zero, tile.ctypes.data, n_keys)


@inner()
def _add_values(tile, m, n_keys, value_at, ldv, sums):  # type: ignore[no-untyped-def]
    """sums (m, ev) += tile (m, n_keys) V, for rows of V at an address."""
    one, ev = tile.dtype.type(1), sums.shape[1]
    gemm(False, False, ev, m, n_keys, one, value_at, ldv, tile.ctypes.data, n_keys, one, sums.ctypes.data, ev)


@inner()
def _hide(scores, mask):  # type: ignore[no-untyped-def]
    low = scores.dtype.type(-np.inf)
    for j in range(scores.size):
        scores[j] = scores[j] if mask[j] else low


@inner()
def _weigh(scores, r, top, total, sums):  # type: ignore[no-untyped-def]
    """Turn the scores of row r into weights, and rescale what it has where they exceed its maximum."""
    zero, low = scores.dtype.type(0), scores.dtype.type(-np.inf)
    highest = maximum(scores)
    if highest == low:
        if all_hidden(scores):
            scores[:] = zero
            return
        highest = scores[0] * zero
    if not (highest <= top[r]):  # also for NaN
        if total[r] != zero:
            decay = np.exp(top[r] - highest)
            total[r] *= decay
            row = sums[r]
            for c in range(row.size):
                row[c] *= decay
        top[r] = highest
    total[r] += exp_sum(scores, top[r])
