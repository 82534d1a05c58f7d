"""The fast Walsh-Hadamard transform: a few passes over the array, of many small transforms in first-level cache."""

import math
from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled, inner
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.pool import run, scratch
from nlattn.backends.numba_cpu.runtime.signatures import integer, read, write

__all__ = ["fwht"]

# A transform of 2^LEVELS rows of LINE bytes fits first-level cache; shorter rows leave vector units idle.
LEVELS = 7
LINE = 256
# Elements that one task transforms, at least.
GRAIN = 1 << 15


def fwht(x: NumpyArray, axis: int = -1) -> NumpyArray:
    """See :func:`nlattn.kernels.fwht.fwht`."""
    n = x.shape[axis]
    if x.dtype not in (np.float32, np.float64) or x.size == 0 or n & (n - 1):
        return NotImplemented
    out: Any = np.empty(x.shape, x.dtype)
    source, target = contiguous(x).reshape(-1), out.reshape(-1)
    after = math.prod(x.shape[axis % x.ndim + 1 :])
    levels = n.bit_length() - 1
    passes = max(1, -(-levels // LEVELS))
    for k in range(passes):
        factor = 1 << (levels * (k + 1) // passes - levels * k // passes)
        _transform_axis(source, target, factor, after)
        source = target
        after *= factor
    return out


def _transform_axis(source: Any, target: Any, n: int, after: int) -> None:
    """Transform the middle axis of (..., n, after)."""
    width = LINE // source.itemsize
    if after < width:
        compute, size, units = _short[source.dtype], n * after, source.size // (n * after)
    else:
        compute, size, units = _long[source.dtype], n * width, source.size // (n * after) * -(-after // width)
    step = max(1, -(-GRAIN // size))

    def task(first: int) -> None:
        buffer = scratch(n * width, source.dtype)
        compute(source, target, n, after, width, buffer, first, min(first + step, units))

    run(task, [(i,) for i in range(0, units, step)])


def _signature(real: Any) -> Any:
    return types.void(read(real, 1), write(real, 1), *(integer,) * 3, write(real, 1), integer, integer)


@compiled(_signature)
def _long(source, target, g, after, width, buffer, first, last):  # type: ignore[no-untyped-def]
    """Transform the middle axis of (..., g, after), `width` columns at a time."""
    tiles = -(-after // width)
    for unit in range(first, last):
        at = unit // tiles * g * after + unit % tiles * width
        w = min(width, after - unit % tiles * width)
        for i in range(g):
            a, b = source[at + i * after : at + i * after + w], buffer[i * w : i * w + w]
            for j in range(a.size):
                b[j] = a[j]
        _transform(buffer[: g * w], w)
        for i in range(g):
            a, b = target[at + i * after : at + i * after + w], buffer[i * w : i * w + w]
            for j in range(a.size):
                a[j] = b[j]


@compiled(_signature)
def _short(source, target, g, after, width, buffer, first, last):  # type: ignore[no-untyped-def]
    """The same for short rows: several transforms side by side, transposed in the buffer."""
    most = width // after
    for unit in range(first, last, most):
        count = min(most, last - unit)
        w = count * after
        for u in range(count):
            block = source[(unit + u) * g * after : (unit + u + 1) * g * after]
            for j in range(after):
                a, b = block[j::after], buffer[u * after + j : g * w : w]
                for i in range(a.size):
                    b[i] = a[i]
        _transform(buffer[: g * w], w)
        for u in range(count):
            block = target[(unit + u) * g * after : (unit + u + 1) * g * after]
            for j in range(after):
                a, b = block[j::after], buffer[u * after + j : g * w : w]
                for i in range(a.size):
                    a[i] = b[i]


@inner()
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
