"""Attention of the queries and keys of each cluster, and the partials of one query from several clusters."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import finite_or_zero, log_mass, nonzero
from nlattn.arrays.rows import repeat_heads, take_for_heads
from nlattn.arrays.typing import Array
from nlattn.kernels.block_attention import block_attention
from nlattn.kernels.segment_sum import segment_sum
from nlattn.problem.partials import Partial, SignedPartial
from nlattn.problem.problem import Problem
from nlattn.select.shared_centres import Memberships, memberships
from nlattn.select.usable_keys import log_weights, valid_keys

__all__ = ["Members", "SortedKeys", "averaged", "in_clusters", "in_nearest", "joined", "sorted_keys"]

#: Numbers gathered at a time: 8 MB in float32.
NUMBERS = 1 << 21
#: Rows of a block of those that no centre took.
BLOCK = 32
#: The score of a pair of tokens that an earlier cluster has joined: no weight, in any dtype.
MET = -1e30


class Members(NamedTuple):
    """The queries and keys that each centre took.

    Attributes
    ----------
    queries : integer array, shape (B, H, C, m)
    keys : integer array, shape (B, G, C, n)
    there : boolean array, shape (B, G, C, n)
        Whether a centre took that key: it may have had fewer to take.
    routed : Memberships
        The clusters of each query.
    labels : integer array, shape (B, H, L), or None
        The nearest centre of each query, for those that no centre took; None leaves these without keys.
    """

    queries: Array
    keys: Array
    there: Array
    routed: Memberships
    labels: Array | None


class SortedKeys(NamedTuple):
    """Keys cluster by cluster, `most` places for each: (B, X, C most, E), X groups or heads."""

    key: Array
    value: Array
    weight: Array | None
    position: Array
    clusters: int
    most: int


def sorted_keys(problem: Problem, members: Members) -> SortedKeys:
    """The keys of a problem in the order of their clusters."""
    b, _, g, _, _ = problem.shape
    clusters, most = members.keys.shape[2:]
    keys = valid_keys(problem)
    # Masks may differ between the heads of a group: each has its keys then.
    position = repeat_heads(problem.xp.reshape(members.keys, (b, g, clusters * most)), keys.heads)
    weight = log_weights(problem, keys)
    weight = None if weight is None else take_for_heads(weight, position)
    key, value = (take_for_heads(x, position) for x in (problem.key, problem.value))
    return SortedKeys(key, value, weight, position, clusters, most)


def in_clusters(problem: Problem, members: Members, keys: SortedKeys, *, once: bool) -> Partial:
    """The queries that each centre took with its keys, (B, H, C m): a few clusters at a time.

    With `once`, a pair that several clusters join has weight in the first of them alone.
    """
    xp = problem.xp
    b, h, _, _, _ = problem.shape
    c, m = members.queries.shape[2:]
    pairs = _Pairs.find(members, problem.key.shape[2]) if once else None
    width = problem.query.shape[3] + problem.value.shape[3] + (0 if pairs is None else c)
    step = max(1, NUMBERS // (b * h * max(m, keys.most) * width))
    outs, lses = [], []
    for i in range(0, c, step):
        j = min(i + step, c)
        index = xp.reshape(members.queries[:, :, i:j, :], (b, h, (j - i) * m))
        query = xp.astype(take_for_heads(problem.query, index), problem.accumulator, copy=False) * problem.scale
        own = _some_clusters(keys, i, j)
        if pairs is not None and j > 1:
            query, key = pairs.barred(query, own.key, index, own.position, i, j, m)
            own = own._replace(key=key)
        begin = xp.arange(0, (j - i) * keys.most, keys.most, dtype=index.dtype, device=index.device)
        begin = xp.broadcast_to(begin[:, None], (b, h, j - i, 1))
        part = _blocks(problem, query, own, index, begin, keys.most, m)
        outs.append(part.out)
        lses.append(part.lse)
    return Partial(xp.concat(outs, axis=2), xp.concat(lses, axis=2))


def _some_clusters(keys: SortedKeys, first: int, last: int) -> SortedKeys:
    few = slice(first * keys.most, last * keys.most)
    weight = None if keys.weight is None else keys.weight[:, :, few]
    position = keys.position[:, :, few]
    return SortedKeys(keys.key[:, :, few, :], keys.value[:, :, few, :], weight, position, last - first, keys.most)


class _Pairs(NamedTuple):
    """The clusters of each query (B, H, L, a) and of each key (B, G, S, a): a pair meets in those that both have."""

    of_query: Array
    of_key: Array

    @classmethod
    def find(cls, members: Members, s: int) -> "_Pairs | None":
        """None where no pair meets twice."""
        if members.routed.most < 2:
            return None
        known = memberships(members.keys, s, members.there)
        if known.most < 2:
            return None
        return cls(members.routed.clusters(members.queries.shape[3]), known.clusters(members.keys.shape[3]))

    def barred(
        self, query: Array, key: Array, index: Array, position: Array, first: int, last: int, m: int
    ) -> tuple[Array, Array]:
        """Queries and keys of clusters `first` to `last` with features whose product bars what met before.

        These are the clusters before its own that a query is in, and those that a key is in.
        """
        xp = array_namespace(query)
        earlier = xp.arange(last - 1, dtype=xp.int32, device=index.device)
        cluster = xp.arange((last - first) * m, dtype=xp.int32, device=index.device) // m + first
        ours = _indicator(take_for_heads(self.of_query, index), earlier) & (earlier < cluster[:, None])
        theirs = xp.astype(_indicator(take_for_heads(self.of_key, position), earlier), query.dtype)
        query = xp.concat([query, MET * xp.astype(ours, query.dtype)], axis=-1)
        return query, xp.concat([xp.astype(key, query.dtype, copy=False), theirs], axis=-1)


def _indicator(clusters: Array, sought: Array) -> Array:
    """Whether each of the sought numbers is among the clusters (..., most)."""
    result = clusters[..., :1] == sought
    for a in range(1, clusters.shape[-1]):
        result = result | (clusters[..., a : a + 1] == sought)
    return result


def _blocks(
    problem: Problem, query: Array, keys: SortedKeys, index: Array, begin: Array, most: int, size: int
) -> Partial:
    """Blocks of `size` scaled query rows, numbers `index`, each with the `most` keys from `begin` on."""
    xp = problem.xp
    seen = {}
    if problem.is_causal:
        edges = (xp.take_along_axis(x, index, axis=-1) for x in (problem.start, problem.stop))
        seen = dict(zip(("start", "stop"), edges, strict=True), position=keys.position)
    return Partial(
        *block_attention(
            query, keys.key, keys.value, begin, begin + most, scale=1.0, size=size, weight=keys.weight, **seen
        )
    )


def in_nearest(problem: Problem, labels: Array, keys: SortedKeys) -> tuple[Partial, Array] | None:
    """Queries whose label is a cluster meet its keys: partials of rows in blocks, and which rows these are."""
    xp = problem.xp
    b, h, _, length, _ = problem.shape
    c, most_keys = keys.clusters, keys.most
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
    part = _blocks(problem, query, keys, index, (cluster * most_keys)[..., None], most_keys, BLOCK)
    return Partial(part.out, xp.where(xp.reshape(used, index.shape), part.lse, -xp.inf)), index


def joined(parts: list[Partial], index: Array, length: int) -> Partial:
    """The partials of one query, wherever they stand in rows `index` (B, H, m), merged."""
    out, lse = _stacked(parts)
    xp = array_namespace(lse)
    top = _highest(lse, index, length)
    weights = xp.where(lse == -xp.inf, xp.zeros_like(lse), xp.exp(finite_or_zero(lse) - _at(top, index, lse)))
    total, sums = _sums(out, weights, index, length)
    return Partial(sums / nonzero(total)[..., None], log_mass(top, total))


def averaged(parts: list[Partial], index: Array, length: int) -> SignedPartial:
    """The sum of the outputs of one query over how many there are."""
    out, lse = _stacked(parts)
    xp = array_namespace(lse)
    weights = xp.where(lse == -xp.inf, xp.zeros_like(lse), xp.ones_like(lse))
    total, sums = _sums(out, weights, index, length)
    return SignedPartial(sums, total, xp.zeros_like(total))


def _stacked(parts: list[Partial]) -> Partial:
    if len(parts) == 1:
        return parts[0]
    xp = array_namespace(parts[0].lse)
    return Partial(xp.concat([part.out for part in parts], axis=2), xp.concat([part.lse for part in parts], axis=2))


def _at(top: Array, index: Array, lse: Array) -> Array:
    """The shift of each row's query, 0 for rows that met nothing."""
    xp = array_namespace(lse)
    return xp.where(lse == -xp.inf, xp.zeros_like(lse), xp.take_along_axis(top, index, axis=-1))


def _sums(out: Array, weights: Array, index: Array, length: int) -> tuple[Array, Array]:
    total = segment_sum(weights[..., None], index[..., None], length)[..., 0]
    return total, segment_sum(out, index[..., None], length, weights[..., None])


def _highest(lse: Array, index: Array, length: int) -> Array:
    """The largest log-sum-exp of each query, 0 where it has none."""
    xp = array_namespace(lse)
    found = memberships(index[:, :, None, :], length, (lse > -xp.inf)[:, :, None, :])
    ordered = xp.take_along_axis(lse, found.order, axis=-1)
    top = xp.full((*lse.shape[:2], length), -xp.inf, dtype=lse.dtype, device=lse.device)
    for a in range(found.most):
        at = xp.clip(found.first + a, None, ordered.shape[-1] - 1)
        top = xp.maximum(top, xp.where(found.counts > a, xp.take_along_axis(ordered, at, axis=-1), -xp.inf))
    return finite_or_zero(top)
