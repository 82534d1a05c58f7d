"""Nearest centres: tiles of products by GEMM, centres by points, and a running minimum for each point."""

import math
from typing import Any

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, contiguous
from nlattn.backends.numba_cpu.runtime.pool import run
from nlattn.backends.numba_cpu.runtime.signatures import integer, read, write
from nlattn.backends.numba_cpu.vector.projected_tiles import projected_tile, tile_points, too_few

__all__ = ["nearest_centre"]

# Centres of a tile.
CENTRES = 256


def nearest_centre(x: NumpyArray, centres: NumpyArray, offset: NumpyArray) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.nearest_centre.nearest_centre`."""
    lead, (n, d), k = x.shape[:-2], x.shape[-2:], centres.shape[-2]
    count = math.prod(lead)
    if x.dtype not in (np.float32, np.float64) or d == 0 or too_few(count, n, k):
        return NotImplemented
    points = contiguous(x).reshape(count, n, d)
    # Doubling is exact: the sum is rounded as in the specification.
    doubled = -2 * contiguous(centres).reshape(count, k, d)
    offsets = contiguous(offset).reshape(count, k)
    labels, least = np.empty((count, n), np.int64), np.empty((count, n), x.dtype)
    step, minimum = tile_points(count, n, min(k, CENTRES)), _minimum[x.dtype]

    def task(b: int, first: int) -> None:
        some = slice(first, first + step)
        for j in range(0, k, CENTRES):
            tile = projected_tile(doubled[b, j : j + CENTRES], points[b, some])
            minimum(tile, offsets[b], j, labels[b, some], least[b, some])

    run(task, [(b, i) for b in range(count) for i in range(0, n, step)])
    return labels.reshape(*lead, n), least.reshape(*lead, n)


def _signature(real: Any) -> Any:
    return types.void(read(real, 2), read(real, 1), integer, write(integer, 1), write(real, 1))


@compiled(_signature)
def _minimum(tile, offset, begin, labels, least):  # type: ignore[no-untyped-def]
    if begin == 0:
        labels[:] = 0
        least[:] = np.inf
    for j in range(tile.shape[0]):
        row, shift = tile[j], offset[begin + j]
        for i in range(row.size):
            value = row[i] + shift
            better = value < least[i]
            least[i] = value if better else least[i]
            labels[i] = begin + j if better else labels[i]
