"""Attention of the queries and keys of each cluster, and the partials of one query from several clusters."""

from typing import Any, NamedTuple

from nlattn.arrays.rows import repeat_heads, take_for_heads
from nlattn.kernels.block_attention import block_attention
from nlattn.kernels.segment_sum import segment_sum
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.shared_centres import Memberships, memberships
from nlattn.select.usable_keys import log_weights, valid_keys

__all__ = ["Routes", "SortedKeys", "in_clusters", "in_nearest", "joined", "sorted_keys"]

# Numbers gathered at a time, and rows of a block of those that no centre took.
NUMBERS = 1 << 21
BLOCK = 32
# A pair of tokens that an earlier cluster has joined gets this score: no weight, in any dtype.
MET = -1e30


class Routes(NamedTuple):
    """Queries (B, H, C, m) and keys (B, G, C, window) of each centre; which keys are there; a cluster for each query.

    labels (B, H, L) or None: where queries that no centre took go. mean: whether the clusters of a query are averaged.
    """

    queries: Any
    keys: Any
    there: Any
    labels: Any
    mean: bool


class SortedKeys(NamedTuple):
    """Cluster by cluster: key (B, X, C window, E), value, weight or None, position; X groups, or heads."""

    key: Any
    value: Any
    weight: Any
    position: Any


def sorted_keys(problem: Problem, state: Routes) -> SortedKeys:
    b, _, g, _, _ = problem.shape
    c, window = state.keys.shape[2:]
    keys = valid_keys(problem)
    # Masks may differ between the heads of a group: each has its keys then.
    position = repeat_heads(problem.xp.reshape(state.keys, (b, g, c * window)), keys.heads)
    weight = log_weights(problem, keys)
    weight = None if weight is None else take_for_heads(weight, position)
    return SortedKeys(take_for_heads(problem.key, position), take_for_heads(problem.value, position), weight, position)


def in_clusters(problem: Problem, state: Routes, keys: SortedKeys, routed: Memberships) -> Partial:
    """The queries that each centre took with its keys, (B, H, C m): a few clusters at a time."""
    xp = problem.xp
    b, h, g, _, s = problem.shape
    c, m = state.queries.shape[2:]
    e, ev = problem.query.shape[3], problem.value.shape[3]
    window = state.keys.shape[3]
    of_query = of_key = None
    if not state.mean and routed.most > 1:
        known = memberships(xp, state.keys, state.there, s)
        if known.most > 1:
            of_query, of_key = routed.clusters(xp, m), known.clusters(xp, window)
    step = max(1, NUMBERS // (b * h * max(m, window) * (e + ev + (0 if of_query is None else c))))
    outs, lses = [], []
    for i in range(0, c, step):
        j = min(i + step, c)
        index = xp.reshape(state.queries[:, :, i:j, :], (b, h, (j - i) * m))
        query = xp.astype(take_for_heads(problem.query, index), problem.accumulator, copy=False) * problem.scale
        few = slice(i * window, j * window)
        own = SortedKeys(*(None if x is None else x[:, :, few, ...] for x in keys))
        key = own.key
        if of_query is not None and j > 1:
            # Clusters before its own that a query is in, times those that a key is in: what has been met.
            number = xp.arange(j - 1, dtype=xp.int32, device=index.device)
            cluster = xp.arange((j - i) * m, dtype=xp.int32, device=index.device) // m + i
            ours = _indicator(xp, take_for_heads(of_query, index), number) & (number < cluster[:, None])
            theirs = _indicator(xp, take_for_heads(of_key, xp.reshape(state.keys[:, :, i:j, :], (b, g, -1))), number)
            theirs = xp.astype(theirs, query.dtype)
            theirs = repeat_heads(theirs, key.shape[1])
            query = xp.concat([query, MET * xp.astype(ours, query.dtype)], axis=-1)
            key = xp.concat([xp.astype(key, query.dtype, copy=False), theirs], axis=-1)
        begin = xp.arange(0, (j - i) * window, window, dtype=index.dtype, device=index.device)
        begin = xp.broadcast_to(begin[:, None], (b, h, j - i, 1))
        part = _blocks(problem, query, own._replace(key=key), index, begin, window, m)
        outs.append(part.out)
        lses.append(part.lse)
    return Partial(xp.concat(outs, axis=2), xp.concat(lses, axis=2))


def _indicator(xp: Any, clusters: Any, number: Any) -> Any:
    """Whether each number is among the clusters (..., most)."""
    result = clusters[..., :1] == number
    for a in range(1, clusters.shape[-1]):
        result = result | (clusters[..., a : a + 1] == number)
    return result


def _blocks(problem: Problem, query: Any, keys: SortedKeys, index: Any, begin: Any, window: int, size: int) -> Partial:
    """Scaled query rows of the numbers `index` in blocks of `size`, each with the `window` keys from `begin` on."""
    xp = problem.xp
    seen = {}
    if problem.is_causal:
        edges = (xp.take_along_axis(x, index, axis=-1) for x in (problem.start, problem.stop))
        seen = dict(zip(("start", "stop"), edges, strict=True), position=keys.position)
    return Partial(
        *block_attention(
            query, keys.key, keys.value, begin, begin + window, scale=1.0, size=size, weight=keys.weight, **seen
        )
    )


def in_nearest(problem: Problem, labels: Any, keys: SortedKeys, c: int, window: int) -> tuple[Partial, Any] | None:
    """Queries with a label below c meet the keys of that cluster: partials of rows in blocks, and which rows."""
    xp = problem.xp
    b, h, _, length, _ = problem.shape
    order = xp.argsort(labels, axis=-1, stable=True)
    head = xp.reshape(xp.arange(b * h, dtype=order.dtype, device=order.device), (b, h, 1)) * (c + 1)
    ends = xp.searchsorted(
        xp.reshape(xp.take_along_axis(labels, order, axis=-1) + head, (-1,)),
        xp.reshape(head + xp.arange(c + 1, dtype=order.dtype, device=order.device), (-1,)),
    )
    ends = xp.reshape(xp.astype(ends, order.dtype), (b, h, c + 1)) - head // (c + 1) * length
    count = ends[..., 1:] - ends[..., :-1]
    blocks = xp.cumulative_sum((count + BLOCK - 1) // BLOCK, axis=-1)
    most = int(xp.max(blocks))
    if most == 0:
        return None
    block = xp.arange(most, dtype=order.dtype, device=order.device)
    cluster = xp.sum(xp.astype(blocks[..., None, :] <= block[:, None], order.dtype), axis=-1)
    used = cluster < c
    cluster = xp.clip(cluster, None, c - 1)
    before = xp.take_along_axis(blocks - (count + BLOCK - 1) // BLOCK, cluster, axis=-1)
    place = ((block - before) * BLOCK)[..., None] + xp.arange(BLOCK, dtype=order.dtype, device=order.device)
    used = used[..., None] & (place < xp.take_along_axis(count, cluster, axis=-1)[..., None])
    place = xp.clip(place + xp.take_along_axis(ends[..., :-1], cluster, axis=-1)[..., None], 0, length - 1)
    index = xp.take_along_axis(order, xp.reshape(place, (b, h, most * BLOCK)), axis=-1)
    query = xp.astype(take_for_heads(problem.query, index), problem.accumulator, copy=False) * problem.scale
    part = _blocks(problem, query, keys, index, (cluster * window)[..., None], window, BLOCK)
    return Partial(part.out, xp.where(xp.reshape(used, index.shape), part.lse, -xp.inf)), index


def joined(xp: Any, parts: list[Partial], index: Any, length: int, mean: bool) -> Partial:
    """The partials of one query, wherever they stand, merged; or the mean of their outputs."""
    out = parts[0].out if len(parts) == 1 else xp.concat([part.out for part in parts], axis=2)
    lse = parts[0].lse if len(parts) == 1 else xp.concat([part.lse for part in parts], axis=2)
    empty = lse == -xp.inf
    if mean:
        top = xp.zeros((*lse.shape[:2], length), dtype=lse.dtype, device=lse.device)
        weights = xp.where(empty, xp.zeros_like(lse), xp.ones_like(lse))
    else:
        top = _highest(xp, lse, index, length)
        safe = xp.where(empty, xp.zeros_like(lse), lse - xp.take_along_axis(top, index, axis=-1))
        weights = xp.where(empty, xp.zeros_like(lse), xp.exp(safe))
    total = segment_sum(weights[..., None], index[..., None], length)[..., 0]
    none = total == 0
    total = xp.where(none, xp.ones_like(total), total)
    sums = segment_sum(out, index[..., None], length, weights[..., None])
    return Partial(sums / total[..., None], xp.where(none, -xp.inf, top + xp.log(total)))


def _highest(xp: Any, lse: Any, index: Any, length: int) -> Any:
    """The largest log-sum-exp of each query, 0 where it has none."""
    found = memberships(xp, index[:, :, None, :], (lse > -xp.inf)[:, :, None, :], length)
    ordered = xp.take_along_axis(lse, found.order, axis=-1)
    top = xp.full((*lse.shape[:2], length), -xp.inf, dtype=lse.dtype, device=lse.device)
    for a in range(found.most):
        at = xp.clip(found.first + a, None, ordered.shape[-1] - 1)
        top = xp.maximum(top, xp.where(found.count > a, xp.take_along_axis(ordered, at, axis=-1), -xp.inf))
    return xp.where(top == -xp.inf, xp.zeros_like(top), top)
