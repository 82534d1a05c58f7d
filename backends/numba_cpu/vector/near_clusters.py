"""Near clusters: their keys one by one."""

import numpy as np

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.vector.online_softmax import absorb, tile_scores

__all__ = ["meet_near"]

# A plain 0 would be compiled for as a literal, once more than needed.
ZERO = np.int64(0)


@inner()
def meet_near(begin, end, limits, members, division, tiles, online):  # type: ignore[no-untyped-def]
    """Add the keys of the clusters up to `end` that are taken; those from `begin` on are in an open segment.

    The keys that count are copied side by side into tiles: one tile for the few keys of each cluster took a tenth more.
    """
    filled, most = 0, tiles.near.shape[0]
    for c in range(end):
        if not division.taken[c] or division.n_keys[c] == 0:
            continue
        cut = division.cut[c] != 0
        stop_at = members.edges[c] + division.n_keys[c] if c >= begin else members.edges[c + 1]
        for j in range(members.edges[c], stop_at):
            p = members.position[j]
            if cut and (p >= limits.visible or (p >= limits.low and p < limits.high)):
                continue
            _copy(members.key[j], tiles.key[filled])
            _copy(members.value[j], tiles.value[filled])
            if members.weight.size:
                tiles.weight[0, filled] = members.weight[j]
            filled += 1
            if filled == most:
                _meet(filled, members.weight.size > 0, tiles, online)
                filled = 0
    if filled:
        _meet(filled, members.weight.size > 0, tiles, online)


@inner()
def _copy(row, place):  # type: ignore[no-untyped-def]
    for c in range(row.size):
        place[c] = row[c]


@inner()
def _meet(filled, weighted, tiles, online):  # type: ignore[no-untyped-def]
    m, size, tile = online.sums.shape[0], tiles.near.itemsize, tiles.near[:filled]
    tile_scores(tiles.query, ZERO, m, tiles.key.ctypes.data, tiles.key.shape[1] * size, tile)
    if weighted:
        for j in range(filled):
            row, extra = tile[j], tiles.weight[0, j]
            for i in range(m):
                row[i] += extra
    absorb(tile, ZERO, tiles.value.ctypes.data, tiles.value.shape[1] * size, online)
