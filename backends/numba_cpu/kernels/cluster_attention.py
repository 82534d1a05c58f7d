"""Near and far clusters: tiles of near keys by an online softmax, and far clusters as if they were keys."""

import functools
from typing import Any

import numpy as np
from numba import njit, types

from nlattn.backends.numba_cpu.runtime.compilation import compiled
from nlattn.backends.numba_cpu.runtime.pool import run
from nlattn.backends.numba_cpu.vector import blas, cluster_moments, exponential, online_softmax
from nlattn.backends.numba_cpu.vector.blas import GEMM_ADDRESS, gemm
from nlattn.backends.numba_cpu.vector.cluster_moments import BINS, add_key, choose, moments
from nlattn.backends.numba_cpu.vector.exponential import add, exp_columns
from nlattn.backends.numba_cpu.vector.online_softmax import absorb, finish, tile_keys, tile_scores
from nlattn.kernels.cluster_attention import MOST, Clusters, RowBlocks

__all__ = ["cluster_attention"]


def cluster_attention(
    query: Any,
    key: Any,
    value: Any,
    clusters: Clusters,
    blocks: RowBlocks,
    centre: Any,
    near: Any,
    *,
    scale: float,
    weight: Any = None,
    overhead: int = 16,
) -> tuple[Any, Any]:
    """See :func:`nlattn.kernels.cluster_attention.cluster_attention`."""
    dtype = np.dtype(np.float64 if query.dtype.itemsize == 8 else np.float32)
    b, h, length, e = query.shape
    g, s, ev = key.shape[1], key.shape[2], value.shape[3]
    if 0 in (b, length, s, ev):
        return NotImplemented
    out, lse = np.zeros((b, h, length, ev), dtype), np.full((b, h, length), -np.inf, dtype)
    r = h // g

    def numbers(array: Any) -> Any:
        return np.ascontiguousarray(array, dtype)

    def integers(array: Any) -> Any:
        return np.ascontiguousarray(array, np.int64)

    def grouped(array: Any) -> Any:
        return array.reshape(b, g, r, *array.shape[2:])

    nothing = np.zeros((b, g, 0), dtype)
    # Of each group of heads, and of all.
    own = (
        grouped(numbers(query)),
        *(numbers(x) for x in (key, value, nothing if weight is None else weight)),
        *(numbers(x) for x in (clusters.key, clusters.value, nothing if weight is None else clusters.weight)),
        *(integers(x) for x in (clusters.position, clusters.edges, clusters.segments, clusters.label)),
        numbers(clusters.spread),
        grouped(numbers(centre)),
        grouped(integers(near)),
    )
    plan = tuple(integers(x) for x in blocks[:-1])
    rows = int(np.max(np.diff(blocks.rows)))
    options = blocks.sinks, overhead, dtype.type(scale), GEMM_ADDRESS[dtype.name], tile_keys(rows, e, ev)
    row_blocks = _compiled(dtype.name)
    results = grouped(out), grouped(lse)

    def task(i: int, j: int, first: int, last: int) -> None:
        row_blocks(*(x[i, j] for x in own), *plan, *options, first, last, *(x[i, j] for x in results))

    # Blocks with one expansion point share the moments; the longest go first.
    starts = np.flatnonzero(np.diff(blocks.centre, prepend=-1)).tolist()
    runs = sorted(zip(starts, [*starts[1:], len(blocks.centre)], strict=True), key=lambda x: -int(blocks.visible[x[0]]))
    run(task, [(i, j, first, last) for first, last in runs for i in range(b) for j in range(g)])
    return out, lse


@functools.cache
def _compiled(dtype: str) -> Any:
    number, integer = types.float32 if dtype == "float32" else types.float64, types.int64

    def array(kind: Any, ndim: int, readonly: bool = True) -> Any:
        return types.Array(kind, ndim, "C", readonly=readonly)

    own = *(array(number, n) for n in (3, 2, 2, 1, 2, 2, 1)), *(array(integer, 1),) * 4
    own = *own, array(number, 1), array(number, 3), array(integer, 1)
    plan = array(integer, 1), array(integer, 1), array(integer, 2), *(array(integer, 1),) * 3
    options = integer, integer, number, *(integer,) * 4
    signature = types.void(*own, *plan, *options, array(number, 3, readonly=False), array(number, 2, readonly=False))
    return compiled(_row_blocks, signature, blas, exponential, online_softmax, cluster_moments)


def _row_blocks(  # type: ignore[no-untyped-def]
    query,
    key,
    value,
    weight,
    sorted_key,
    sorted_value,
    sorted_weight,
    position,
    edges,
    segments,
    label,
    spread,
    centre,
    near,
    rows,
    centre_of,
    window,
    visible,
    segment,
    stop,
    sinks,
    overhead,
    scale,
    address,
    keys,
    first,
    last,
    out,
    lse,
):
    """The blocks `first` to `last`, which share the expansion point, for the heads of one group."""
    e = query.shape[2]
    ev, n_segments = value.shape[1], segments.size - 1
    number = query.dtype.type
    zero, low = number(0), number(-np.inf)
    most = number(MOST)
    n_clusters = segments[min(segment[last - 1] + 1, n_segments)]
    widest = 1
    for c in range(n_clusters):
        widest = max(widest, edges[c + 1] - edges[c])
    active = np.flatnonzero(near >= 0)
    if active.size == 0:
        return
    points = np.empty((active.size, e), query.dtype)
    for place, a in enumerate(active):
        points[place] = centre[a, centre_of[first]]
    heads = active.size
    log_mass = np.empty((heads, n_clusters), query.dtype)
    mean, mean_value = np.empty((heads, n_clusters, e), query.dtype), np.empty((heads, n_clusters, ev), query.dtype)
    count, settled = np.zeros(n_clusters, np.int64), np.zeros(n_clusters, np.bool_)
    partial, taken = np.zeros(n_clusters, np.bool_), np.zeros(n_clusters, np.bool_)
    share, histogram = np.empty(n_clusters, np.float32), np.empty(BINS, np.int64)
    scores = np.empty((heads, widest), query.dtype)
    whole = np.array([1 << 62, 0, 0])
    for block in range(first, last):
        i0, m = rows[block], rows[block + 1] - rows[block]
        limits = np.array([visible[block], window[block, 0], window[block, 1]])
        begin, end = segments[segment[block]], segments[min(segment[block] + 1, n_segments)]
        for c in range(begin):
            partial[c] = False
        for p in range(limits[1], min(limits[2], limits[0])):
            if label[p] < begin:
                partial[label[p]] = True
        # Block after block, an open segment only gains keys.
        grows = block > first and segment[block] == segment[block - 1] and visible[block] >= visible[block - 1]
        if grows and begin < end:
            for p in range(visible[block - 1], visible[block]):
                c = label[p]
                if c < n_clusters:
                    extra = weight[p] if weight.size else zero
                    add_key(c, points, key[p], value[p], extra, log_mass, mean, mean_value)
                    count[c] += 1
        for c in range(begin if grows else end):
            cut = c >= begin or partial[c]
            partial[c] = cut
            if cut or not settled[c]:
                count[c] = moments(
                    address, c, points, sorted_key, sorted_value, sorted_weight, position, edges,
                    limits if cut else whole, scores, log_mass, mean, mean_value,
                )  # fmt: skip
                settled[c] = not cut
        soonest = stop[i0]
        for i in range(i0, i0 + m):
            soonest = min(soonest, stop[i])
        first_keys, common = min(sinks, limits[1]), min(max(soonest, limits[1]), limits[2])
        budget = first_keys + limits[2] - limits[1]
        queries, turn = np.empty((e, m), query.dtype), np.empty((e, m), query.dtype)
        top, total, highest = np.empty(m, query.dtype), np.empty(m, query.dtype), np.empty(m, query.dtype)
        square, beside = np.empty(m, query.dtype), np.empty(m, query.dtype)
        peak, unit = np.empty(m, query.dtype), np.empty(m, query.dtype)
        tiles, far = np.empty((keys, m), query.dtype), np.empty((max(end, 1), m), query.dtype)
        for place, a in enumerate(active):
            result = out[a, i0 : i0 + m]
            for i in range(m):
                for c in range(e):
                    # Before the product, which could overflow.
                    queries[c, i] = query[a, i0 + i, c] * scale
                    turn[c, i] = queries[c, i] - points[place, c]
                top[i], total[i] = low, zero
            online = top, total, highest, result
            _meet(address, queries, key, value, weight, 0, first_keys, stop[i0 : i0 + m], soonest, tiles, *online)
            _meet(address, queries, key, value, weight, limits[1], common, stop[i0 : i0 + m], soonest, tiles, *online)
            if end > 0:
                # Far clusters.
                for i in range(m):
                    square[i] = zero
                    highest[i] = top[i]
                    beside[i] = zero
                    peak[i] = zero
                for d in range(e):
                    row = turn[d]
                    for i in range(row.size):
                        peak[i] = max(peak[i], abs(row[i]))
                # In units of the largest, of which no square overflows.
                for i in range(m):
                    unit[i] = number(1) / peak[i] if peak[i] != zero else zero
                for d in range(e):
                    row = turn[d]
                    for i in range(row.size):
                        x = row[i] * unit[i]
                        square[i] += x * x
                for c0 in range(0, end, keys):
                    n = min(keys, end - c0)
                    tile_scores(address, turn, mean[place, c0].ctypes.data, e, far[c0 : c0 + n])
                    for c in range(c0, c0 + n):
                        row, mass, wide = far[c], log_mass[place, c], spread[c]
                        for i in range(row.size):
                            second = peak[i] * wide
                            second = second * second * square[i]
                            x = row[i] + mass + (second if second < most else most)
                            row[i] = x
                            highest[i] = x if x > highest[i] else highest[i]
                for i in range(m):
                    if highest[i] > top[i]:
                        if total[i] != zero:
                            decay = np.exp(top[i] - highest[i])
                            total[i] *= decay
                            for c in range(ev):
                                result[i, c] *= decay
                        top[i] = highest[i]
                    if highest[i] == low:
                        highest[i] = zero
                exp_columns(far[:end], highest, beside)
                for i in range(m):
                    beside[i] += total[i]
                    beside[i] = number(1) / beside[i] if beside[i] != zero else zero
                for c in range(end):
                    row = far[c]
                    mass = zero
                    for i in range(row.size):
                        mass = add(mass, row[i] * beside[i])
                    share[c] = mass / number(max(1, count[c] + overhead))
                choose(share[:end], count[:end], near[a] - budget, histogram, taken[:end])
                for c in range(end):
                    row = far[c]
                    if taken[c]:
                        row[:] = zero
                    else:
                        for i in range(row.size):
                            total[i] += row[i]
                one = number(1)
                for c0 in range(0, end, keys):
                    n = min(keys, end - c0)
                    values_at, far_at = mean_value[place, c0].ctypes.data, far[c0].ctypes.data
                    to = result.ctypes.data
                    gemm(address, False, True, ev, m, n, one, values_at, ev, far_at, m, one, to, ev)
                # Near clusters.
                for c in range(end):
                    if not taken[c] or count[c] == 0:
                        continue
                    stop_at = edges[c] + count[c] if c >= begin else edges[c + 1]
                    for j0 in range(edges[c], stop_at, keys):
                        n = min(keys, stop_at - j0)
                        tile = tiles[:n]
                        tile_scores(address, queries, sorted_key[j0].ctypes.data, e, tile)
                        if weight.size or partial[c]:
                            for j in range(n):
                                row, p = tile[j], position[j0 + j]
                                hidden = partial[c] and (p >= limits[0] or (p >= limits[1] and p < limits[2]))
                                extra = low if hidden else sorted_weight[j0 + j] if weight.size else zero
                                for i in range(row.size):
                                    row[i] += extra
                        absorb(address, tile, sorted_value[j0].ctypes.data, ev, *online)
            # Keys that only later rows see had no part in what earlier ones meet.
            _meet(address, queries, key, value, weight, common, limits[2], stop[i0 : i0 + m], soonest, tiles, *online)
            finish(top, total, result, lse[a, i0 : i0 + m])


@njit(nogil=True)
def _meet(  # type: ignore[no-untyped-def]
    address, queries, key, value, weight, begin, end, stop, soonest, tiles, top, total, highest, out
):
    """Add the keys from `begin` to `end`, of which row i sees those below stop[i], all rows those below `soonest`."""
    low, keys = queries.dtype.type(-np.inf), tiles.shape[0]
    for j0 in range(begin, end, keys):
        n = min(keys, end - j0)
        tile = tiles[:n]
        tile_scores(address, queries, key[j0].ctypes.data, queries.shape[0], tile)
        for j in range(n):
            row = tile[j]
            if weight.size:
                for i in range(row.size):
                    row[i] += weight[j0 + j]
            if j0 + j >= soonest:
                for i in range(row.size):
                    row[i] = row[i] if j0 + j < stop[i] else low
        absorb(address, tile, value[j0].ctypes.data, value.shape[1], top, total, highest, out)
