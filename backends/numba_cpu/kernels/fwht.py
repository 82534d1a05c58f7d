"""The fast Walsh-Hadamard transform: a few passes over the array, of many small transforms in first-level cache."""

import math
from typing import Any

import numpy as np
from numba import njit

from nlattn.backends.numba_cpu.runtime.pool import run

__all__ = ["fwht"]

# A transform of 2^LEVELS rows of LINE bytes fits first-level cache; shorter rows leave vector units idle.
LEVELS = 7
LINE = 256
# Elements that one task transforms, at least.
GRAIN = 1 << 15


def fwht(x: Any, axis: int = -1) -> Any:
    """See :func:`nlattn.kernels.fwht.fwht`."""
    n = x.shape[axis]
    if x.dtype not in (np.float32, np.float64) or x.size == 0 or n & (n - 1):
        return NotImplemented
    x = np.ascontiguousarray(x)
    out = np.empty_like(x)
    source, target = x.reshape(-1), out.reshape(-1)
    inner = math.prod(x.shape[axis % x.ndim + 1 :])
    levels = n.bit_length() - 1
    passes = max(1, -(-levels // LEVELS))
    width = LINE // x.itemsize
    for k in range(passes):
        g = 1 << (levels * (k + 1) // passes - levels * k // passes)
        if inner < width:
            units, kernel = x.size // (g * inner), _short
            size = g * inner
        else:
            units, kernel = x.size // (g * inner) * -(-inner // width), _long
            size = g * width
        step = max(1, -(-GRAIN // size))
        args = (source, target, g, inner, width)
        run(
            lambda first, last, kernel=kernel, args=args: kernel(*args, first, last),
            [(i, min(i + step, units)) for i in range(0, units, step)],
        )
        source = target
        inner *= g
    return out


@njit(nogil=True, cache=True)
def _long(source, target, g, inner, width, first, last):  # type: ignore[no-untyped-def]
    """Transform the middle axis of (..., g, inner), `width` columns at a time."""
    tiles = -(-inner // width)
    buffer = np.empty(g * width, source.dtype)
    for unit in range(first, last):
        at = unit // tiles * g * inner + unit % tiles * width
        w = min(width, inner - unit % tiles * width)
        for i in range(g):
            a, b = source[at + i * inner : at + i * inner + w], buffer[i * w : i * w + w]
            for j in range(a.size):
                b[j] = a[j]
        _transform(buffer[: g * w], w)
        for i in range(g):
            a, b = target[at + i * inner : at + i * inner + w], buffer[i * w : i * w + w]
            for j in range(a.size):
                a[j] = b[j]


@njit(nogil=True, cache=True)
def _short(source, target, g, inner, width, first, last):  # type: ignore[no-untyped-def]
    """The same for short rows: several transforms side by side, transposed in the buffer."""
    most = width // inner
    buffer = np.empty(g * most * inner, source.dtype)
    for unit in range(first, last, most):
        count = min(most, last - unit)
        w = count * inner
        for u in range(count):
            block = source[(unit + u) * g * inner : (unit + u + 1) * g * inner]
            for j in range(inner):
                a, b = block[j::inner], buffer[u * inner + j : g * w : w]
                for i in range(a.size):
                    b[i] = a[i]
        _transform(buffer[: g * w], w)
        for u in range(count):
            block = target[(unit + u) * g * inner : (unit + u + 1) * g * inner]
            for j in range(inner):
                a, b = block[j::inner], buffer[u * inner + j : g * w : w]
                for i in range(a.size):
                    a[i] = b[i]


@njit(nogil=True, cache=True)
def _transform(x, width):  # type: ignore[no-untyped-def]
    """Transform the first axis of (power of two, width), flattened, two levels in a pass."""
    levels = 0
    while width << levels < x.size:
        levels += 1
    h = width
    if levels & 1:
        for i in range(0, x.size, 2 * h):
            a, b = x[i : i + h], x[i + h : i + 2 * h]
            for j in range(a.size):
                s, t = a[j], b[j]
                a[j] = s + t
                b[j] = s - t
        h *= 2
    while h < x.size:
        for i in range(0, x.size, 4 * h):
            a, b, c, d = x[i : i + h], x[i + h : i + 2 * h], x[i + 2 * h : i + 3 * h], x[i + 3 * h : i + 4 * h]
            for j in range(a.size):
                s, t = a[j] + b[j], a[j] - b[j]
                u, v = c[j] + d[j], c[j] - d[j]
                a[j] = s + u
                b[j] = t + v
                c[j] = s - u
                d[j] = t - v
        h *= 4
