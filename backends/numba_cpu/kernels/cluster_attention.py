"""Near and far clusters: tiles of near keys by an online softmax, and far clusters as if they were keys."""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from nlattn.backends.numba_cpu.runtime.compilation import compiled, inner
from nlattn.backends.numba_cpu.runtime.layout import NumpyArray, frozen
from nlattn.backends.numba_cpu.runtime.pool import run, scratch_arrays
from nlattn.backends.numba_cpu.runtime.signatures import group, integer, read, write
from nlattn.backends.numba_cpu.vector.cluster_moments import (
    BINS,
    Limits,
    Members,
    Moments,
    add_key,
    choose,
    moments,
)
from nlattn.backends.numba_cpu.vector.far_clusters import meet_far, score_far, share_out
from nlattn.backends.numba_cpu.vector.near_clusters import meet_near
from nlattn.backends.numba_cpu.vector.online_softmax import (
    BUFFERS,
    TILE_KEYS,
    Online,
    absorb,
    finish,
    start_online,
    tile_scores,
    whole_vectors,
)
from nlattn.kernels.cluster_attention import Clusters, RowBlocks

__all__ = ["cluster_attention"]

# A position after all others, and the first. Plain integers would be compiled for as literals, once more than needed.
LAST, ZERO = np.int64(1 << 62), np.int64(0)


class Keys(NamedTuple):
    """The keys of one head by position; `weight` is empty where they have no log-weights."""

    key: Any
    value: Any
    weight: Any


class Heads(NamedTuple):
    """The query heads of one key head: queries (R, L, E), `near` (R,), and the numbers of those not left out."""

    query: Any
    near: Any
    active: Any


class Plan(NamedTuple):
    """The arrays of `nlattn.kernels.cluster_attention.RowBlocks`, without the sinks."""

    rows: Any
    centre: Any
    window: Any
    visible: Any
    segment: Any
    stop: Any


class Options(NamedTuple):
    """Sinks, and the overhead of a cluster."""

    sinks: int
    overhead: int


class Division(NamedTuple):
    """What is known of each cluster at one block of rows; all integers but the shares.

    Attributes
    ----------
    n_keys
        Its number of keys that count.
    settled
        Whether its moments are those of all its keys.
    cut
        Whether some of its keys do not count.
    taken
        Whether it is near.
    share
        Its share of the mass of the block, for each key and unit of overhead.
    histogram : shape (BINS,)
        A buffer of the choice.
    """

    n_keys: Any
    settled: Any
    cut: Any
    taken: Any
    share: Any
    histogram: Any


class Tiles(NamedTuple):
    """Buffers with a column for each row of a block.

    Attributes
    ----------
    query, turn : shape (E, m)
        Scaled queries, and the same less the expansion point.
    near, far : shapes (keys, m), (clusters, m)
        Scores of near keys, and of the clusters.
    state : shape (2 + BUFFERS, m)
        That of the online softmax.
    column : shape (4, m)
        For each column of `turn` its largest entry, the reciprocal of that, and its sum of squares in this unit; the
        reciprocal of the mass of all clusters and of the near keys that all rows see.
    sums : shape (m, Ev)
        That of the online softmax.
    key, value, weight : shapes (keys, E), (keys, Ev), (1, keys)
        The near keys of a tile, side by side.
    """

    query: Any
    turn: Any
    near: Any
    far: Any
    state: Any
    column: Any
    sums: Any
    key: Any
    value: Any
    weight: Any


def cluster_attention(
    query: NumpyArray,
    key: NumpyArray,
    value: NumpyArray,
    clusters: Clusters,
    blocks: RowBlocks,
    centre: NumpyArray,
    near: NumpyArray,
    *,
    scale: float,
    weight: NumpyArray | None = None,
    overhead: int = 16,
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.cluster_attention.cluster_attention`."""
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    b, h, length, _ = query.shape
    g, s, ev = key.shape[1], key.shape[2], value.shape[3]
    if 0 in (b, length, s, ev):
        return NotImplemented
    out, lse = np.zeros((b, h, length, ev), dtype), np.full((b, h, length), -np.inf, dtype)
    nothing = np.empty((b, g, 0))
    keys = [frozen(x, dtype) for x in (key, value, nothing if weight is None else weight)]
    members = [frozen(x, dtype) for x in (clusters.key, clusters.value, nothing if weight is None else clusters.weight)]
    members += [frozen(x, np.int64) for x in (clusters.position, clusters.edges, clusters.segments, clusters.label)]
    members += [frozen(clusters.deviation, dtype)]

    def grouped(array: Any) -> Any:
        return array.reshape(b, g, h // g, *array.shape[2:])

    queries, points, budgets = grouped(frozen(query, dtype)), grouped(centre), grouped(frozen(near, np.int64))
    plan = Plan(*(frozen(x, np.int64) for x in blocks[:-1]))
    options = Options(blocks.sinks, overhead)
    out_of, lse_of = grouped(out), grouped(lse)
    compute = _row_blocks[dtype]

    def task(i: int, j: int, first: int, last: int) -> None:
        active = np.flatnonzero(budgets[i, j] >= 0)
        if active.size == 0:
            return
        own = Members(*(x[i, j] for x in members))
        found, division, tiles = _room(own, active.size, plan, first, last)
        found.points[...] = points[i, j, active, plan.centre[first]]
        heads = queries[i, j], budgets[i, j], frozen(active, np.int64)
        inputs = heads, tuple(x[i, j] for x in keys), tuple(own), tuple(plan), tuple(options), dtype.type(scale)
        compute(*inputs, first, last, tuple(found), tuple(division), tuple(tiles), out_of[i, j], lse_of[i, j])

    # Blocks with one expansion point share the moments; the longest go first.
    starts = np.flatnonzero(np.diff(plan.centre, prepend=-1)).tolist()
    runs = sorted(zip(starts, [*starts[1:], len(plan.centre)], strict=True), key=lambda x: -int(plan.visible[x[0]]))
    run(task, [(i, j, first, last) for first, last in runs for i in range(b) for j in range(g)])
    return out, lse


def _room(members: Members, heads: int, plan: Plan, first: int, last: int) -> tuple[Moments, Division, Tiles]:
    """Room for what is computed of the clusters and rows of a run of blocks."""
    dtype, e, ev = members.key.dtype, members.key.shape[1], members.value.shape[1]
    n = int(members.segments[min(plan.segment[last - 1] + 1, members.segments.size - 1)])
    widest = int(np.max(np.diff(members.edges[: n + 1]), initial=1))
    rows = whole_vectors(int(np.max(np.diff(plan.rows[first : last + 1]))), dtype.itemsize)
    sizes = (heads, e), (heads, widest), (heads, n), (heads, n, e), (heads, n, ev)
    division = Division(*np.zeros((4, n), np.int64), np.empty(n, dtype), np.empty(BINS, np.int64))
    lines = e, e, TILE_KEYS, n, 2 + BUFFERS, 4
    shapes = *((height, rows) for height in lines), (rows, ev), (TILE_KEYS, e), (TILE_KEYS, ev), (1, TILE_KEYS)
    tiles = Tiles(*scratch_arrays(dtype, *shapes))
    return Moments(*(np.empty(size, dtype) for size in sizes)), division, tiles


def _signature(real: Any) -> Any:
    heads = group(read(real, 3), read(integer, 1), read(integer, 1))
    keys = group(read(real, 2), read(real, 2), read(real, 1))
    by_cluster = (read(integer, 1),) * 4
    members = group(read(real, 2), read(real, 2), read(real, 1), *by_cluster, read(real, 1))
    plan = group(read(integer, 1), read(integer, 1), read(integer, 2), *(read(integer, 1),) * 3)
    options = group(*(integer,) * 2)
    found = group(*(write(real, n) for n in (2, 2, 2, 3, 3)))
    division = group(*(write(integer, 1),) * 4, write(real, 1), write(integer, 1))
    tiles = group(*(write(real, 2),) * 10)
    work = found, division, tiles, write(real, 3), write(real, 2)
    return types.void(heads, keys, members, plan, options, real, integer, integer, *work)


@compiled(_signature)
def _row_blocks(  # type: ignore[no-untyped-def]
    heads, keys, members, plan, options, scale, first, last, found, division, tiles, out, lse
):
    """The blocks `first` to `last`, which share the expansion point, for the heads of one group."""
    heads, keys, members = Heads(*heads), Keys(*keys), Members(*members)
    plan, options = Plan(*plan), Options(*options)
    found, division, tiles = Moments(*found), Division(*division), Tiles(*tiles)
    n_segments = members.segments.size - 1
    for block in range(first, last):
        i0, m = plan.rows[block], plan.rows[block + 1] - plan.rows[block]
        limits = Limits(plan.visible[block], plan.window[block, 0], plan.window[block, 1])
        begin = members.segments[plan.segment[block]]
        end = members.segments[min(plan.segment[block] + 1, n_segments)]
        grows = (
            block > first
            and plan.segment[block] == plan.segment[block - 1]
            and plan.visible[block] >= plan.visible[block - 1]
        )
        if grows and begin < end:
            _add_keys(plan.visible[block - 1], limits.visible, keys, members.label, division, found)
        _divide(begin, end, grows, limits, members, division, found)
        stop = plan.stop[i0 : i0 + m]
        soonest = LAST
        for i in range(m):
            soonest = min(soonest, stop[i])
        sinks, common = min(options.sinks, limits.low), min(max(soonest, limits.low), limits.high)
        for place in range(heads.active.size):
            a = heads.active[place]
            online = Online(tiles.state[0], tiles.state[1], tiles.state[2:], tiles.sums[:m])
            _start(heads.query[a], i0, scale, found.points[place], tiles, online)
            _meet(ZERO, sinks, stop, soonest, keys, tiles, online)
            _meet(limits.low, common, stop, soonest, keys, tiles, online)
            if end > 0:
                score_far(end, place, found, members.deviation, tiles, online)
                share_out(end, options.overhead, division, tiles, online)
                budget = heads.near[a] - sinks - (limits.high - limits.low)
                choose(division.share[:end], division.n_keys, budget, division.histogram, division.taken)
                meet_far(end, place, found.mean_value, division.taken, tiles, online)
                meet_near(begin, end, limits, members, division, tiles, online)
            # Keys that only later rows see had no part in what earlier ones meet.
            _meet(common, limits.high, stop, soonest, keys, tiles, online)
            finish(online, out[a, i0 : i0 + m], lse[a, i0 : i0 + m])


@inner()
def _add_keys(begin, end, keys, label, division, found):  # type: ignore[no-untyped-def]
    """Block after block, an open segment only gains keys: those at positions from `begin` to `end`."""
    for p in range(begin, end):
        c = label[p]
        if c < division.n_keys.size:
            extra = keys.weight[p] if keys.weight.size else found.points.dtype.type(0)
            add_key(c, keys.key[p], keys.value[p], extra, found)
            division.n_keys[c] += 1


@inner()
def _divide(begin, end, grows, limits, members, division, found):  # type: ignore[no-untyped-def]
    """The moments of the clusters up to `end` at one block of rows; those from `begin` on are in an open segment."""
    for c in range(begin):
        division.cut[c] = 0
    for p in range(limits.low, min(limits.high, limits.visible)):
        if members.label[p] < begin:
            division.cut[members.label[p]] = 1
    whole = Limits(LAST, ZERO, ZERO)
    for c in range(begin if grows else end):
        cut = c >= begin or division.cut[c] != 0
        division.cut[c] = cut
        if cut or not division.settled[c]:
            division.n_keys[c] = moments(c, members, limits if cut else whole, found)
            division.settled[c] = not cut


@inner()
def _start(query, i0, scale, point, tiles, online):  # type: ignore[no-untyped-def]
    """Scale the queries from row i0 on into columns, also relative to the expansion point; nothing is seen yet."""
    m = online.sums.shape[0]
    for i in range(m):
        row = query[i0 + i]
        for c in range(row.size):
            # Before the product, which could overflow.
            tiles.query[c, i] = row[c] * scale
            tiles.turn[c, i] = tiles.query[c, i] - point[c]
    start_online(online, tiles.query, m)
    tiles.turn[:, m:] = tiles.turn.dtype.type(0)


@inner()
def _meet(begin, end, stop, soonest, keys, tiles, online):  # type: ignore[no-untyped-def]
    """Add the keys from `begin` to `end`, of which row i sees those below stop[i], all rows those below `soonest`."""
    low, m, most, size = tiles.near.dtype.type(-np.inf), stop.size, tiles.near.shape[0], tiles.near.itemsize
    for j0 in range(begin, end, most):
        tile = tiles.near[: min(most, end - j0)]
        tile_scores(tiles.query, ZERO, m, keys.key[j0].ctypes.data, keys.key.shape[1] * size, tile)
        for j in range(tile.shape[0]):
            row = tile[j]
            if keys.weight.size:
                extra = keys.weight[j0 + j]
                for i in range(m):
                    row[i] += extra
            if j0 + j >= soonest:
                for i in range(m):
                    row[i] = row[i] if j0 + j < stop[i] else low
        absorb(tile, ZERO, keys.value[j0].ctypes.data, keys.value.shape[1] * size, online)
