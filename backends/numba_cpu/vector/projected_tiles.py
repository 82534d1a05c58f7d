"""Products of tiles of points with a few rows, the points along the last axis, where loops over them vectorise."""

from typing import Any

import numpy as np

from nlattn.backends.numba_cpu.runtime.pool import scratch

__all__ = ["NUMBERS", "projected_tile", "tile_points", "too_few"]

# Numbers in a tile, which stays in the second-level cache.
NUMBERS = 1 << 17
# Up to so many rows, BLAS is slower at the product in this order than at the other and a transposition.
FEW = 64


def too_few(count: int, n: int, rows: int) -> bool:
    """Whether `count` products of n points with some rows are done faster as one than shared out."""
    return n * rows < 1 << 12 or count * n * rows < 1 << 16


def tile_points(count: int, n: int, rows: int) -> int:
    """How many points make a tile, of `count` sets of n: by sizes only, never by the number of threads."""
    share = -(-n // max(1, 16 // count))
    return max(64, min(NUMBERS // min(rows, NUMBERS // 64), share))


def projected_tile(rows: Any, points: Any) -> Any:
    """rows @ points.T in a buffer of this thread."""
    m, n = len(rows), len(points)
    buffer = scratch(2 * NUMBERS, points.dtype)
    tile = buffer[: m * n].reshape(m, n)
    if m > FEW:
        return np.matmul(rows, points.T, out=tile)
    other = buffer[NUMBERS : NUMBERS + m * n].reshape(n, m)
    tile[...] = np.matmul(points, rows.T, out=other).T
    return tile
