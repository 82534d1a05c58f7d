"""Hash codes: tiles of projections by GEMM, and the bits or digits of each point made of them at once."""

import math
from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, frozen
from nlattn.backends.numba_cpu.runtime.pool import run
from nlattn.backends.numba_cpu.runtime.signatures import integer, read, write
from nlattn.backends.numba_cpu.vector.projected_tiles import NUMBERS, projected_tile, tile_points, too_few

__all__ = ["hash_codes"]


def hash_codes(x: NumpyArray, projection: NumpyArray, factors: tuple[int, ...] | None = None) -> NumpyArray:
    """See :func:`nlattn.kernels.hash_codes.hash_codes`."""
    (n, d), m = x.shape[-2:], projection.shape[-2]
    lead = np.broadcast_shapes(x.shape[:-2], projection.shape[:-2])
    count = math.prod(lead)
    if x.dtype not in (np.float32, np.float64) or d == 0 or too_few(count, n, m) or m > NUMBERS // 64:
        return NotImplemented
    codes = np.empty((count, n), np.int64)
    points: Any = np.broadcast_to(np.asarray(x), (*lead, n, d))
    rows: Any = np.broadcast_to(np.asarray(projection), (*lead, m, d))
    step = tile_points(count, n, m)
    groups = frozen(factors or (), np.int64)

    def task(b: int, first: int) -> None:
        at = np.unravel_index(b, lead)
        some = points[at][first : first + step]
        tile, out = projected_tile(rows[at], some), codes[b, first : first + step]
        if factors is None:
            _signs[x.dtype](tile, out)
        else:
            _digits[x.dtype](tile, groups, np.empty(len(some), x.dtype), np.empty(len(some), np.int64), out)

    run(task, [(b, i) for b in range(count) for i in range(0, n, step)])
    return codes.reshape(*lead, n)


@compiled(lambda real: types.void(read(real, 2), write(integer, 1)))
def _signs(tile, codes):  # type: ignore[no-untyped-def]
    codes[:] = 0
    for t in range(tile.shape[0]):
        row, bit = tile[t], 1 << t
        for i in range(row.size):
            codes[i] |= bit if row[i] > 0 else 0


@compiled(lambda real: types.void(read(real, 2), read(integer, 1), write(real, 1), *(write(integer, 1),) * 2))
def _digits(tile, factors, largest, digits, codes):  # type: ignore[no-untyped-def]
    codes[:] = 0
    begin, base = 0, 1
    for f in range(factors.size):
        size = factors[f]
        largest[:] = -1
        digits[:] = 0
        for t in range(size):
            row = tile[begin + t]
            for i in range(row.size):
                magnitude = abs(row[i])
                digit = t if row[i] >= 0 else t + size
                better = magnitude > largest[i]
                largest[i] = magnitude if better else largest[i]
                digits[i] = digit if better else digits[i]
        for i in range(codes.size):
            codes[i] += base * digits[i]
        begin += size
        base *= 2 * size
