"""Attention over lists of keys: dot products with gathered rows, vectorised over features."""

import functools
from typing import Any

import numpy as np
from numba import njit, types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.pool import run, scratch
from nlattn.backends.numba_cpu.vector import exponential
from nlattn.backends.numba_cpu.vector.exponential import exp_sum, maximum

__all__ = ["gather_attention"]

# Numbers that a task gathers.
GRAIN = 1 << 19


def gather_attention(
    query: Any, key: Any, value: Any, index: Any, *, scale: float, bias: Any = None
) -> tuple[Any, Any]:
    """See :func:`nlattn.kernels.gather_attention.gather_attention`."""
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    b, h, length, e = query.shape
    s, ev, m = key.shape[2], value.shape[3], index.shape[3]
    if 0 in (b, h, length, s, ev, m):
        return NotImplemented
    if np.min(index) < 0 or np.max(index) >= s:
        raise IndexError(f"index must lie between 0 and {s - 1}, got {np.min(index)} to {np.max(index)}")
    keys, key_first = _stacked(key, dtype)
    values, value_first = _stacked(value, dtype)
    out = np.empty((b, h, length, ev), dtype)
    lse = np.empty((b, h, length), dtype)
    arrays = (
        np.require(query, dtype, "A"),
        keys,
        values,
        key_first,
        value_first,
        np.require(index, np.int64, "A"),
        np.zeros((1, 1, 1, 1), dtype) if bias is None else np.require(bias, dtype, "A"),
        bias is not None,
        dtype.type(scale),
    )
    rows = _compiled(dtype.name)
    step = max(1, GRAIN // (m * (e + ev)))
    count = b * h * length
    run(
        lambda i: rows(*arrays, i, min(i + step, count), scratch(m + e, dtype), out, lse),
        [(i,) for i in range(0, count, step)],
    )
    return out, lse


def _stacked(array: Any, dtype: Any) -> tuple[Any, Any]:
    """All rows one after the other (n, c), those of shared heads once; and the first row of each (batch, head)."""
    b, g, s, c = array.shape
    few = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides[:2])]
    first = s * np.arange(few.shape[0] * few.shape[1]).reshape(few.shape[:2])
    return np.require(few, dtype, ["C", "A"]).reshape(-1, c), np.ascontiguousarray(np.broadcast_to(first, (b, g)))


@functools.cache
def _compiled(dtype: str) -> Any:
    number = types.float32 if dtype == "float32" else types.float64

    def strided(kind: Any, ndim: int) -> Any:
        return types.Array(kind, ndim, "A", readonly=True)

    signature = types.void(
        strided(number, 4),
        *(types.Array(number, 2, "C", readonly=True),) * 2,
        *(types.Array(types.int64, 2, "C", readonly=True),) * 2,
        strided(types.int64, 4),
        strided(number, 4),
        types.boolean,
        number,
        types.int64,
        types.int64,
        types.Array(number, 1, "C"),
        types.Array(number, 4, "C"),
        types.Array(number, 3, "C"),
    )
    return compiled(_rows, signature, exponential)


def _rows(  # type: ignore[no-untyped-def]
    query, keys, values, key_first, value_first, index, bias, has_bias, scale, first, last, buffer, out, lse
):
    """Compute the rows `first` to `last`, counted through all heads."""
    _, n_heads, length, e = query.shape
    m = index.shape[3]
    group = n_heads // key_first.shape[1]
    number = query.dtype.type
    zero, low, least = number(0), number(-np.inf), number(np.finfo(query.dtype).min)
    scores, scaled = buffer[:m], buffer[m : m + e]
    for at in range(first, last):
        b, h, i = at // (n_heads * length), at // length % n_heads, at % length
        named = index[b, h, i]
        for c in range(e):
            scaled[c] = query[b, h, i, c] * scale
        _dots(keys, key_first[b, h // group], named, scaled, scores)
        if has_bias:
            weights = bias[b, h, i]
            for j in range(m):
                # A finite weight never hides, however large.
                x = scores[j] + min(max(weights[j], least), -least)
                x = least if x < least else x
                scores[j] = low if weights[j] == low else x
        top = maximum(scores)
        mean = out[b, h, i]
        mean[:] = zero
        if top == low:
            if not np.isnan(scores).any():  # `maximum` passes over a NaN whose sign is set
                lse[b, h, i] = low
                continue
            top = number(np.nan)
        total = exp_sum(scores, top)
        _add_rows(values, value_first[b, h // group], named, scores, mean)
        for c in range(mean.size):
            mean[c] /= total
        lse[b, h, i] = top + np.log(total)


@njit(nogil=True, fastmath={"reassoc", "nsz", "contract"})
def _dots(keys, first, named, q, scores):  # type: ignore[no-untyped-def]
    for j in range(named.size):
        k = keys[first + named[j]]
        total = q.dtype.type(0)
        for c in range(q.size):
            total += q[c] * k[c]
        scores[j] = total


@njit(nogil=True, fastmath={"contract"})
def _add_rows(values, first, named, weights, out):  # type: ignore[no-untyped-def]
    """out <- the sum of weights[j] values[named[j]]; four rows at a time, as each pass reads and writes `out`."""
    m = named.size
    for j in range(0, m - m % 4, 4):
        w, x, y, z = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        a, b = values[first + named[j]], values[first + named[j + 1]]
        c, d = values[first + named[j + 2]], values[first + named[j + 3]]
        for i in range(out.size):
            out[i] += (w * a[i] + x * b[i]) + (y * c[i] + z * d[i])
    for j in range(m - m % 4, m):
        w, a = weights[j], values[first + named[j]]
        for i in range(out.size):
            out[i] += w * a[i]
