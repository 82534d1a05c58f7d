"""Attention over lists of keys: dot products with gathered rows, vectorised over features."""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled, inner
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, frozen, nothing
from nlattn.backends.numba_cpu.runtime.pool import run, scratch
from nlattn.backends.numba_cpu.runtime.signatures import group, integer, read, strided, write
from nlattn.backends.numba_cpu.vector.exponential import exp_sum, maximum
from nlattn.backends.numba_cpu.vector.score_rows import add_bias, all_hidden

__all__ = ["gather_attention"]

# Numbers that a task gathers.
GRAIN = 1 << 19


class Stack(NamedTuple):
    """All rows of an array (B, G, S, c), one after the other, and the first row of each batch element and head."""

    rows: Any
    first: Any


def gather_attention(
    query: NumpyArray,
    key: NumpyArray,
    value: NumpyArray,
    index: NumpyArray,
    *,
    scale: float,
    bias: NumpyArray | None = None,
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.gather_attention.gather_attention`."""
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    b, h, length, e = query.shape
    s, ev, m = key.shape[2], value.shape[3], index.shape[3]
    if 0 in (b, h, length, s, ev, m):
        return NotImplemented
    if np.min(index) < 0 or np.max(index) >= s:
        raise IndexError(f"index must lie between 0 and {s - 1}, got {np.min(index)} to {np.max(index)}")
    out, lse = np.empty((b, h, length, ev), dtype), np.empty((b, h, length), dtype)
    arguments = (
        np.require(query, dtype, "A"),
        tuple(_stacked(key, dtype)),
        tuple(_stacked(value, dtype)),
        np.require(index, np.int64, "A"),
        nothing(4, dtype) if bias is None else np.require(bias, dtype, "A"),
        dtype.type(scale),
    )
    compute = _rows[dtype]
    step, count = max(1, GRAIN // (m * (e + ev))), b * h * length

    def task(first: int) -> None:
        compute(*arguments, first, min(first + step, count), scratch(m + e, dtype), out, lse)

    run(task, [(i,) for i in range(0, count, step)])
    return out, lse


def _stacked(array: NumpyArray, dtype: Any) -> Stack:
    """The rows of heads that share memory are stacked once."""
    b, g, s, c = array.shape
    few = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides[:2])]
    first = s * np.arange(few.shape[0] * few.shape[1]).reshape(few.shape[:2])
    return Stack(frozen(few, dtype).reshape(-1, c), frozen(np.broadcast_to(first, (b, g)), np.int64))


def _signature(real: Any) -> Any:
    stack = group(read(real, 2), read(integer, 2))
    inputs = strided(real, 4), stack, stack, strided(integer, 4), strided(real, 4), real
    return types.void(*inputs, integer, integer, write(real, 1), write(real, 4), write(real, 3))


@compiled(_signature)
def _rows(query, keys, values, index, bias, scale, first, last, buffer, out, lse):  # type: ignore[no-untyped-def]
    """Compute the rows `first` to `last`, counted through all heads."""
    keys, values = Stack(*keys), Stack(*values)
    _, n_heads, length, e = query.shape
    m = index.shape[3]
    sharing = n_heads // keys.first.shape[1]
    real = query.dtype.type
    scores, scaled = buffer[:m], buffer[m : m + e]
    for at in range(first, last):
        b, h, i = at // (n_heads * length), at // length % n_heads, at % length
        listed, row = index[b, h, i], query[b, h, i]
        for c in range(e):
            scaled[c] = row[c] * scale
        _dots(keys.rows, keys.first[b, h // sharing], listed, scaled, scores)
        if bias.size:
            add_bias(scores, bias[b, h, i])
        top = maximum(scores)
        mean = out[b, h, i]
        mean[:] = real(0)
        if top == real(-np.inf):
            if all_hidden(scores):
                lse[b, h, i] = top
                continue
            top = real(np.nan)
        total = exp_sum(scores, top)
        _add_rows(values.rows, values.first[b, h // sharing], listed, scores, mean)
        for c in range(mean.size):
            mean[c] /= total
        lse[b, h, i] = top + np.log(total)


@inner(fastmath={"reassoc", "nsz", "contract"})
def _dots(keys, first, listed, q, scores):  # type: ignore[no-untyped-def]
    for j in range(listed.size):
        k = keys[first + listed[j]]
        total = q.dtype.type(0)
        for c in range(q.size):
            total += q[c] * k[c]
        scores[j] = total


@inner(fastmath={"contract"})
def _add_rows(values, first, listed, weights, out):  # type: ignore[no-untyped-def]
    """out <- the sum of weights[j] values[listed[j]]; four rows at a time, as each pass reads and writes `out`."""
    m = listed.size
    for j in range(0, m - m % 4, 4):
        w, x, y, z = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        a, b = values[first + listed[j]], values[first + listed[j + 1]]
        c, d = values[first + listed[j + 2]], values[first + listed[j + 3]]
        for i in range(out.size):
            out[i] += (w * a[i] + x * b[i]) + (y * c[i] + z * d[i])
    for j in range(m - m % 4, m):
        w, a = weights[j], values[first + listed[j]]
        for i in range(out.size):
            out[i] += w * a[i]
