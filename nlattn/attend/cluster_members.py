"""Attention of the queries and keys of each cluster, and what the clusters of one query give together."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import finite_or_zero, log_mass, nonzero
from nlattn.arrays.rows import repeat_heads, take_for_heads
from nlattn.arrays.typing import Array
from nlattn.kernels.block_attention import block_attention
from nlattn.kernels.segment_sum import segment_sum
from nlattn.problem.partials import Partial, SignedPartial, concat_rows
from nlattn.problem.problem import Problem
from nlattn.select.shared_centres import Memberships, memberships
from nlattn.select.usable_keys import log_weights, valid_keys

__all__ = ["Members", "SortedKeys", "averaged", "in_clusters", "in_nearest", "joined", "sorted_keys"]

#: Numbers gathered or scored at a time, over all heads, so that memory is linear in the length: 8 MB in float32.
TILE_NUMBERS = 1 << 21
#: Rows of a block of queries that no centre took. All have one nearest centre, and as few queries share it, larger
#: blocks would mostly be padding.
REST_BLOCK = 32
#: The score of a pair that an earlier cluster has joined. It has no weight, and float32 holds it.
BARRED_SCORE = -1e30


class Members(NamedTuple):
    """The queries and keys that each centre took.

    Attributes
    ----------
    queries : integer array, shape (B, H, C, m)
    keys : integer array, shape (B, G, C, n)
    there : boolean array, shape (B, G, C, n)
        Whether a centre took that key. There may have been fewer than n keys that it could take.
    routed : Memberships
        The clusters of each query.
    labels : integer array, shape (B, H, L), or None
        The nearest centre of each query, whose keys it meets if no centre took it. None: such queries meet no keys.
    """

    queries: Array
    keys: Array
    there: Array
    routed: Memberships
    labels: Array | None


class SortedKeys(NamedTuple):
    """The keys of a problem cluster by cluster, for X groups or heads.

    Attributes
    ----------
    key, value : array, shapes (B, X, C most, E) and (B, X, C most, Ev)
    weight : array, shape (B, X, C most), or None
        Log-weights.
    position : integer array, shape (B, X, C most)
        Which key of the problem stands at each place.
    clusters : int
        The number of clusters C.
    most : int
        How many places each cluster has.
    """

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
    # Where masks differ between the heads of a group, each head has keys of its own.
    position = repeat_heads(problem.xp.reshape(members.keys, (b, g, clusters * most)), keys.heads)
    weight = log_weights(problem, keys)
    weight = None if weight is None else take_for_heads(weight, position)
    key, value = (take_for_heads(x, position) for x in (problem.key, problem.value))
    return SortedKeys(key, value, weight, position, clusters, most)


def in_clusters(problem: Problem, members: Members, keys: SortedKeys, *, once: bool) -> Partial:
    """Attention of the m queries that each centre took to its keys: a partial of rows (B, H, C m).

    With `once`, a pair of a query and a key that several clusters join has weight in the first of them alone.
    """
    xp = problem.xp
    b, h, _, _, _ = problem.shape
    c, m = members.queries.shape[2:]
    pairs = _Pairs.find(members, problem.key.shape[2]) if once else None
    width = problem.query.shape[3] + problem.value.shape[3] + (0 if pairs is None else c)
    step = max(1, TILE_NUMBERS // (b * h * max(m, keys.most) * width))
    parts = []
    for i in range(0, c, step):
        j = min(i + step, c)
        index = xp.reshape(members.queries[:, :, i:j, :], (b, h, (j - i) * m))
        query = xp.astype(take_for_heads(problem.query, index), problem.accumulator, copy=False) * problem.scale
        own = _some_clusters(keys, i, j)
        if pairs is not None and j > 1:
            query, own = pairs.barred(query, own, index, i)
        begin = xp.arange(0, (j - i) * keys.most, keys.most, dtype=index.dtype, device=index.device)
        begin = xp.broadcast_to(begin[:, None], (b, h, j - i, 1))
        parts.append(_attend_in_blocks(problem, query, own, index, begin, m))
    return concat_rows(parts)


def _some_clusters(keys: SortedKeys, first: int, last: int) -> SortedKeys:
    """The keys of the clusters from `first` to before `last`."""
    few = slice(first * keys.most, last * keys.most)
    weight = None if keys.weight is None else keys.weight[:, :, few]
    position = keys.position[:, :, few]
    return SortedKeys(keys.key[:, :, few, :], keys.value[:, :, few, :], weight, position, last - first, keys.most)


class _Pairs(NamedTuple):
    """The clusters of each query (B, H, L, a) and of each key (B, G, S, a). A pair meets in all that both have."""

    of_query: Array
    of_key: Array

    @classmethod
    def find(cls, members: Members, s: int) -> "_Pairs | None":
        """The clusters of all tokens, or None where no pair can meet twice."""
        if members.routed.most < 2:
            return None
        known = memberships(members.keys, s, members.there)
        if known.most < 2:
            return None
        return cls(members.routed.clusters(members.queries.shape[3]), known.clusters(members.keys.shape[3]))

    def barred(self, query: Array, keys: SortedKeys, index: Array, first: int) -> tuple[Array, SortedKeys]:
        """Queries and keys of the clusters from `first` on, with more features that bar the pairs that met before.

        There is one feature for each earlier cluster. In a query it is `BARRED_SCORE` if the query is in that cluster,
        in a key it is 1 if the key is. `index` (B, H, C m) says which queries these are.
        """
        xp = array_namespace(query)
        m = index.shape[2] // keys.clusters
        earlier = xp.arange(first + keys.clusters - 1, dtype=xp.int32, device=index.device)
        own = xp.arange(index.shape[2], dtype=xp.int32, device=index.device) // m + first
        of_query = _is_among(earlier, take_for_heads(self.of_query, index)) & (earlier < own[:, None])
        of_key = xp.astype(_is_among(earlier, take_for_heads(self.of_key, keys.position)), query.dtype)
        query = xp.concat([query, BARRED_SCORE * xp.astype(of_query, query.dtype)], axis=-1)
        key = xp.concat([xp.astype(keys.key, query.dtype, copy=False), of_key], axis=-1)
        return query, keys._replace(key=key)


def _is_among(sought: Array, clusters: Array) -> Array:
    """Whether each of the sought clusters (n,) is among the clusters (..., most) of a token, (..., n)."""
    result = clusters[..., :1] == sought
    for a in range(1, clusters.shape[-1]):
        result = result | (clusters[..., a : a + 1] == sought)
    return result


def _attend_in_blocks(
    problem: Problem, query: Array, keys: SortedKeys, index: Array, begin: Array, size: int
) -> Partial:
    """Attention of blocks of `size` scaled queries to the keys of one cluster each, which stand from `begin` on.

    `index` says which rows of the problem the queries are.
    """
    xp = problem.xp
    seen = {}
    if problem.is_causal:
        edges = (xp.take_along_axis(x, index, axis=-1) for x in (problem.start, problem.stop))
        seen = dict(zip(("start", "stop"), edges, strict=True), position=keys.position)
    return Partial(
        *block_attention(
            query, keys.key, keys.value, begin, begin + keys.most, scale=1.0, size=size, weight=keys.weight, **seen
        )
    )


def in_nearest(problem: Problem, labels: Array, keys: SortedKeys) -> tuple[Partial, Array] | None:
    """Attention of the queries whose label is a cluster to its keys, in blocks; None where there are no such queries.

    Returns the partials of the rows of all blocks (B, H, m), and which queries these are (B, H, m). Rows that only fill
    up a block have no mass.
    """
    xp = problem.xp
    blocks = _blocks_of_labels(labels, keys.clusters)
    if blocks is None:
        return None
    index = blocks.rows
    query = xp.astype(take_for_heads(problem.query, index), problem.accumulator, copy=False) * problem.scale
    part = _attend_in_blocks(problem, query, keys, index, (blocks.label * keys.most)[..., None], REST_BLOCK)
    return Partial(part.out, xp.where(blocks.used, part.lse, -xp.inf)), index


class _LabelBlocks(NamedTuple):
    """Rows in T blocks of `REST_BLOCK`, all rows of a block with one label.

    Attributes
    ----------
    rows : integer array, shape (B, H, T REST_BLOCK)
    used : boolean array, shape (B, H, T REST_BLOCK)
        False for rows that only fill up their block.
    label : integer array, shape (B, H, T)
    """

    rows: Array
    used: Array
    label: Array


def _blocks_of_labels(labels: Array, c: int) -> _LabelBlocks | None:
    """The rows whose label (B, H, L) is below c, in blocks; None where there are no such rows."""
    xp = array_namespace(labels)
    b, h, length = labels.shape
    order, first, count, _ = memberships(labels[:, :, None, :], c)
    # How many blocks the rows of each label fill, and those of all labels up to it.
    own = (count + REST_BLOCK - 1) // REST_BLOCK
    ends = xp.cumulative_sum(own, axis=-1)
    most = int(xp.max(ends))
    if most == 0:
        return None
    block = xp.arange(most, dtype=order.dtype, device=order.device)
    label = xp.sum(xp.astype(ends[..., None, :] <= block[:, None], order.dtype), axis=-1)
    used = label < c
    label = xp.clip(label, None, c - 1)
    before = xp.take_along_axis(ends - own, label, axis=-1)
    place = ((block - before) * REST_BLOCK)[..., None] + xp.arange(REST_BLOCK, dtype=order.dtype, device=order.device)
    used = used[..., None] & (place < xp.take_along_axis(count, label, axis=-1)[..., None])
    place = xp.clip(place + xp.take_along_axis(first, label, axis=-1)[..., None], 0, length - 1)
    rows = xp.take_along_axis(order, xp.reshape(place, (b, h, most * REST_BLOCK)), axis=-1)
    return _LabelBlocks(rows, xp.reshape(used, rows.shape), label)


def joined(parts: list[Partial], index: Array, length: int) -> Partial:
    """The merged partials of each of `length` queries; `index` (B, H, m) says which query each row of `parts` is of."""
    out, lse = concat_rows(parts)
    xp = array_namespace(lse)
    top = _highest(lse, index, length)
    weights = xp.where(lse == -xp.inf, xp.zeros_like(lse), xp.exp(finite_or_zero(lse) - _at(top, index, lse)))
    total, sums = _sums(out, weights, index, length)
    return Partial(sums / nonzero(total)[..., None], log_mass(top, total))


def averaged(parts: list[Partial], index: Array, length: int) -> SignedPartial:
    """The mean of the outputs of each of `length` queries, with `index` as for `joined`."""
    out, lse = concat_rows(parts)
    xp = array_namespace(lse)
    weights = xp.where(lse == -xp.inf, xp.zeros_like(lse), xp.ones_like(lse))
    total, sums = _sums(out, weights, index, length)
    return SignedPartial(sums, total, xp.zeros_like(total))


def _at(top: Array, index: Array, lse: Array) -> Array:
    """The shift of the query that each row belongs to, and 0 for rows that met nothing."""
    xp = array_namespace(lse)
    return xp.where(lse == -xp.inf, xp.zeros_like(lse), xp.take_along_axis(top, index, axis=-1))


def _sums(out: Array, weights: Array, index: Array, length: int) -> tuple[Array, Array]:
    """For each query the sum of the weights of its rows, and the weighted sum of their outputs."""
    total = segment_sum(weights[..., None], index[..., None], length)[..., 0]
    return total, segment_sum(out, index[..., None], length, weights[..., None])


def _highest(lse: Array, index: Array, length: int) -> Array:
    """The largest log-sum-exp among the rows of each query, and 0 where it has none."""
    xp = array_namespace(lse)
    found = memberships(index[:, :, None, :], length, (lse > -xp.inf)[:, :, None, :])
    ordered = xp.take_along_axis(lse, found.order, axis=-1)
    top = xp.full((*lse.shape[:2], length), -xp.inf, dtype=lse.dtype, device=lse.device)
    for a in range(found.most):
        at = xp.clip(found.first + a, None, ordered.shape[-1] - 1)
        top = xp.maximum(top, xp.where(found.counts > a, xp.take_along_axis(ordered, at, axis=-1), -xp.inf))
    return finite_or_zero(top)
