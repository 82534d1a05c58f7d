"""Attention of blocks of rows over ranges of keys: an online softmax over tiles that lie in one range each."""

import functools
from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import rows_contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch, threads
from nlattn.backends.numba_cpu.vector import blas, exponential, online_softmax
from nlattn.backends.numba_cpu.vector.blas import GEMM_ADDRESS
from nlattn.backends.numba_cpu.vector.online_softmax import absorb, finish, tile_keys, tile_scores

__all__ = ["block_attention"]

# Rows of a tile, at most.
ROWS = 64


def block_attention(
    query: Any,
    key: Any,
    value: Any,
    begin: Any,
    end: Any,
    *,
    scale: float,
    size: int,
    start: Any = None,
    stop: Any = None,
    position: Any = None,
    weight: Any = None,
    met: tuple[Any, Any] | None = None,
    initial: tuple[Any, Any] | None = None,
) -> tuple[Any, Any]:
    """See :func:`nlattn.kernels.block_attention.block_attention`."""
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    b, h, length, e = query.shape
    s, ev = key.shape[2], value.shape[3]
    if 0 in (b, h, length, s, ev, begin.shape[3]):
        return NotImplemented
    size = min(size, length)
    if initial is None:
        out = np.empty((b, h, length, ev), dtype)
        lse = np.full((b, h, length), -np.inf, dtype)
    else:
        out, lse = (np.array(x, dtype=dtype, order="C") for x in initial)
    whole, none = np.dtype(np.int64), np.zeros((1, 1, 1), np.int64)
    codes = (none[..., None], none[..., None]) if met is None else met
    arrays = (
        *(rows_contiguous(array, dtype) for array in (query, key, value)),
        *(np.ascontiguousarray(x, whole) for x in (begin, end)),
        *(none if x is None else np.ascontiguousarray(x, whole) for x in (start, stop, position)),
        np.zeros((1, 1, 1), dtype) if weight is None else np.ascontiguousarray(weight, dtype),
        *(np.ascontiguousarray(x, whole) for x in codes),
    )
    rows = min(size, ROWS)
    keys = tile_keys(rows, e, ev)
    per_block = -(-size // rows)
    blocks = b * h * begin.shape[2] * per_block
    has = position is not None, weight is not None, met is not None, initial is not None
    options = (*has, dtype.type(scale), GEMM_ADDRESS[dtype.name], size, rows, keys)
    row_blocks = _compiled(dtype.name)

    def task(first: int, last: int) -> None:
        row_blocks(*arrays, *options, first, last, scratch(rows * (keys + e + 3), dtype), out, lse)

    chunk = max(1, blocks // (32 * threads()))
    run(task, [(i, min(i + chunk, blocks)) for i in range(0, blocks, chunk)])
    return out, lse


@functools.cache
def _compiled(dtype: str) -> Any:
    number = types.float32 if dtype == "float32" else types.float64

    def array(kind: Any, ndim: int, layout: Any = "C", readonly: bool = True) -> Any:
        return types.Array(kind, ndim, layout, readonly=readonly)

    signature = types.void(
        *(array(number, 4, "A"),) * 3,
        *(array(types.int64, 4),) * 2,
        *(array(types.int64, 3),) * 3,
        array(number, 3),
        *(array(types.int64, 4),) * 2,
        *(types.boolean,) * 4,
        number,
        *(types.int64,) * 6,
        array(number, 1, readonly=False),
        array(number, 4, readonly=False),
        array(number, 3, readonly=False),
    )
    return compiled(_row_blocks, signature, blas, exponential, online_softmax)


def _row_blocks(  # type: ignore[no-untyped-def]
    query,
    key,
    value,
    begin,
    end,
    start,
    stop,
    position,
    weight,
    codes,
    key_codes,
    has_position,
    has_weight,
    has_codes,
    has_initial,
    scale,
    address,
    size,
    rows,
    keys,
    first,
    last,
    buffer,
    out,
    lse,
):
    """Compute the tiles of rows `first` to `last`, counted from the last rows, the longest of a causal call."""
    n_batch, n_heads, length, e = query.shape
    group = n_heads // key.shape[1]
    item = query.itemsize
    ldk, ldv = key.strides[2] // item, value.strides[2] // item
    number = query.dtype.type
    zero, one, low = number(0), number(1), number(-np.inf)
    per_block = -(-size // rows)
    n_tiles = begin.shape[2] * per_block
    n_codes = codes.shape[3]
    from_row, to_row = np.empty(rows, np.int64), np.empty(rows, np.int64)
    own = np.empty((n_codes, rows), np.int64)
    for number_of_tile in range(first, last):
        h = number_of_tile % n_heads
        b = number_of_tile // n_heads % n_batch
        t = n_tiles - 1 - number_of_tile // (n_batch * n_heads)
        block = t // per_block
        i0 = block * size + t % per_block * rows
        m = min(rows, min((block + 1) * size, length) - i0)
        if m <= 0:
            continue
        g = h // group
        queries = buffer[: e * m].reshape(e, m)
        at = e * rows
        top, total, highest = buffer[at : at + m], buffer[at + m : at + 2 * m], buffer[at + 2 * m : at + 3 * m]
        tiles = buffer[(e + 3) * rows : (e + 3) * rows + keys * m].reshape(keys, m)
        result = out[b, h, i0 : i0 + m]
        for i in range(m):
            for c in range(e):
                # Before the product, which could overflow.
                queries[c, i] = query[b, h, i0 + i, c] * scale
            top[i] = lse[b, h, i0 + i]
            total[i] = zero if top[i] == low else one
            if total[i] == zero:
                result[i] = zero
        latest, soonest = -(1 << 62), 1 << 62
        if has_position:
            for i in range(m):
                from_row[i], to_row[i] = start[b, h, i0 + i], stop[b, h, i0 + i]
                latest, soonest = max(latest, start[b, h, i0 + i]), min(soonest, stop[b, h, i0 + i])
        if has_codes:
            for c in range(n_codes):
                for i in range(m):
                    own[c, i] = codes[b, h, i0 + i, c]
        for w in range(begin.shape[3]):
            stop_at = end[b, h, block, w]
            for j0 in range(begin[b, h, block, w], stop_at, keys):
                n = min(keys, stop_at - j0)
                tile = tiles[:n]
                tile_scores(address, queries, key[b, g, j0].ctypes.data, ldk, tile)
                for j in range(n):
                    row = tile[j]
                    if has_weight:
                        extra = weight[b, g, j0 + j]
                        for i in range(row.size):
                            row[i] = low if extra == low else row[i] + extra
                    if has_position:
                        p = position[b, g, j0 + j]
                        if p < latest or p >= soonest:
                            for i in range(row.size):
                                row[i] = row[i] if from_row[i] <= p and p < to_row[i] else low
                    if has_codes:
                        for c in range(n_codes):
                            mine, code = own[c], key_codes[b, g, j0 + j, c]
                            for i in range(row.size):
                                row[i] = low if mine[i] == code else row[i]
                absorb(address, tile, value[b, g, j0].ctypes.data, ldv, top, total, highest, result)
        finish(top, total, result, lse[b, h, i0 : i0 + m])
