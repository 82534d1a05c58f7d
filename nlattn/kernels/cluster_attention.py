"""Softmax attention with near clusters of keys key by key, and far clusters by their moments."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from nlattn.arrays.guards import finite_or_zero, nonzero
from nlattn.arrays.host import to_float
from nlattn.arrays.precision import accumulator
from nlattn.arrays.rows import take_for_heads
from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel
from nlattn.kernels._softmax import join_rows, normalised_weights, see_nothing

__all__ = ["MOST", "Clusters", "RowBlocks", "cluster_attention"]

# Largest second-order term of a logarithmic mass: beyond, the expansion says nothing.
MOST = 3.0


class Clusters(NamedTuple):
    """Keys sorted by cluster.

    Attributes
    ----------
    key : array, shape (B, G, S, E)
        Sorted by cluster, and inside by position. What belongs to no cluster comes last.
    value : array, shape (B, G, S, Ev)
    weight : array, shape (B, G, S), or None
        Log-weights.
    position : integer array, shape (B, G, S)
        Where each of them stands among all keys.
    edges : integer array, shape (B, G, M + 1)
        Cluster c holds the places edges[c] <= j < edges[c + 1].
    segments : integer array, shape (B, G, N + 1)
        The clusters from segments[n] to segments[n + 1] divide one segment of consecutive keys; others come later.
    label : integer array, shape (B, G, S)
        The cluster of the key at each position; M for none.
    deviation : array, shape (B, G, M)
        The root of half the variance of the keys of each cluster, mean over the features; 0 for an expansion of first
        order.
    """

    key: Array
    value: Array
    weight: Array | None
    position: Array
    edges: Array
    segments: Array
    label: Array
    deviation: Array


class RowBlocks(NamedTuple):
    """Blocks of consecutive query rows that choose their near clusters together; integer NumPy arrays.

    Attributes
    ----------
    rows : shape (T + 1,)
        Block t holds the rows rows[t] <= i < rows[t + 1].
    centre : shape (T,)
        Which of the expansion points belongs to a block; not falling.
    window : shape (T, 2)
        The keys at positions from window[t, 0] to window[t, 1] are always near.
    visible : shape (T,)
        Of the clusters, only keys at positions below count.
    segment : shape (T,)
        The segment that `visible` falls into, not falling: earlier ones lie below it; N if all do. In that segment the
        window holds no key below `visible`.
    stop : shape (L,)
        A row sees the keys at positions below.
    sinks : int
        The first keys, always near, and in no cluster.
    """

    rows: NDArray[np.int64]
    centre: NDArray[np.int64]
    window: NDArray[np.int64]
    visible: NDArray[np.int64]
    segment: NDArray[np.int64]
    stop: NDArray[np.int64]
    sinks: int


@kernel
def cluster_attention(
    query: Array,
    key: Array,
    value: Array,
    clusters: Clusters,
    blocks: RowBlocks,
    centre: Array,
    near: Array,
    *,
    scale: float,
    weight: Array | None = None,
    overhead: int = 16,
) -> tuple[Array, Array]:
    """Each block of rows meets some keys one by one, and the other clusters at their tilted means.

    Over the keys k_j of a cluster, with the expansion point q', a scaled query: w_j = exp(q'.k_j + weight_j), mass
    m = sum w_j, mean key k' and mean value v' weighted by w_j. For a scaled query q the mass of the cluster is taken as

        L(q) = log m + (q - q').k' + min(|q - q'|^2 deviation^2, 3)

    The sinks and the window are near. Then clusters become near in the order of their mass, each row's normalised by
    that of all clusters and of the near keys which all rows of the block see, summed over the block, divided by their
    number of keys plus `overhead`, as long as all near keys together are at most `near`. The far ones enter with the
    weight exp(L) and the value v'.

    Parameters
    ----------
    query : array, shape (B, H, L, E)
    key : array, shape (B, G, S, E)
        By position. H is a multiple of G; query head h uses key head h // (H // G).
    value : array, shape (B, G, S, Ev)
        Finite.
    clusters : Clusters
    blocks : RowBlocks
    centre : array, shape (B, H, Q, E)
        Expansion points, scaled.
    near : integer array, shape (B, H)
        Near keys of a row, at most, unless sinks and window are more. Negative: leave this head out.
    scale : float
    weight : array, shape (B, G, S), optional
        Log-weights by position; -inf hides a key, which must then be in no cluster.
    overhead : int, default 16
        A cluster of few keys is not much cheaper than one of some more.

    Returns
    -------
    out : array, shape (B, H, L, Ev)
        In float32, or float64 where an input is. 0 where a row sees nothing.
    lse : array, shape (B, H, L)
        Natural logarithm of the mass, near and far; -inf where a row sees nothing.
    """
    xp = array_namespace(query, key, value)
    dtype = accumulator(xp, query.dtype)
    b, h, length, _ = query.shape
    g, s, ev = key.shape[1], key.shape[2], value.shape[3]
    if length == 0 or s == 0:
        return see_nothing(query, ev, dtype)

    def grouped(array: Array) -> Array:
        """(B, H, ...) as (B, G, R, ...)."""
        return xp.reshape(array, (b, g, h // g, *array.shape[2:]))

    keys, members = _Keys(key, value, weight, dtype), _Members(clusters, dtype)
    queries, points = grouped(xp.astype(query, dtype) * scale), grouped(xp.astype(centre, dtype))
    budgets = grouped(near)
    parts = []
    for t in range(len(blocks.rows) - 1):
        block = _Block.of(blocks, t)
        q, q0 = queries[:, :, :, block.rows, :], points[:, :, :, int(blocks.centre[t]), :][..., None, :]
        scores, seen = keys.scores(q, block)
        far = members.expanded(q, q0, block)
        common = seen & block.window(keys.position) & (keys.position < int(block.stop.min()))
        shares, _ = normalised_weights(xp.concat([xp.where(common, scores, -xp.inf), far.scores], axis=-1))
        share = xp.sum(shares[..., s:], axis=-2) / xp.clip(xp.astype(far.n_keys, dtype) + overhead, 1, None)
        taken = _taken(share, far.n_keys, (budgets - block.always_near)[..., None])
        met = (
            block.window(keys.position) | (block.free(keys.position) & _of_members(taken, clusters.label))[..., None, :]
        )
        scores = xp.where(seen & met, scores, -xp.inf)
        weights, lse = normalised_weights(
            xp.concat([scores, xp.where(taken[..., None, :], -xp.inf, far.scores)], axis=-1)
        )
        parts.append((weights[..., :s] @ keys.value + weights[..., s:] @ far.value, lse))
    # The rows are named by number: -1 cannot be resolved where the values have width zero.
    ungrouped = [
        (xp.reshape(out, (b, h, lse.shape[-1], ev)), xp.reshape(lse, (b, h, lse.shape[-1]))) for out, lse in parts
    ]
    out, lse = join_rows(ungrouped)
    used = near[..., None] >= 0
    return xp.where(used[..., None], out, xp.zeros_like(out)), xp.where(used, lse, -xp.inf)


@dataclass(frozen=True, slots=True)
class _Block:
    """One block of rows: which they are, up to where each sees keys, and what of the keys and clusters counts."""

    rows: slice
    stop: NDArray[np.int64]
    visible: int
    low: int
    high: int
    sinks: int

    @classmethod
    def of(cls, blocks: RowBlocks, t: int) -> "_Block":
        rows = slice(int(blocks.rows[t]), int(blocks.rows[t + 1]))
        low, high = (int(x) for x in blocks.window[t])
        return cls(rows, blocks.stop[rows], int(blocks.visible[t]), low, high, min(blocks.sinks, low))

    @property
    def always_near(self) -> int:
        return self.sinks + self.high - self.low

    def window(self, position: Array) -> Any:
        """Whether keys at these positions are always near."""
        return (position < self.sinks) | ((position >= self.low) & (position < self.high))

    def free(self, position: Array) -> Any:
        """Whether keys at these positions belong to their clusters."""
        return (position < self.visible) & ~((position >= self.low) & (position < self.high))


class _Keys:
    """The keys by position, with an axis for the heads that share them: (B, G, 1, S, ...)."""

    def __init__(self, key: Array, value: Array, weight: Array | None, dtype: Any) -> None:
        xp = array_namespace(key)
        self.key, self.value = (xp.astype(x, dtype)[:, :, None, ...] for x in (key, value))
        self.weight = None if weight is None else xp.astype(weight, dtype)[:, :, None, None, :]
        self.position = xp.arange(key.shape[2], dtype=xp.int64, device=key.device)

    def scores(self, query: Array, block: _Block) -> tuple[Array, Array]:
        """Scores of all keys (B, G, R, n, S), and which of them the rows see."""
        xp = array_namespace(query)
        scores = query @ xp.matrix_transpose(self.key)
        stop = xp.asarray(block.stop, dtype=xp.int64, device=query.device)
        seen = self.position < stop[:, None]
        if self.weight is None:
            return scores, xp.broadcast_to(seen, scores.shape)
        return scores + finite_or_zero(self.weight), seen & (self.weight != -xp.inf)


class _Far(NamedTuple):
    """Clusters as if they were keys: number of keys and mean value (B, G, R, M, ...), scores (B, G, R, n, M)."""

    n_keys: Array
    value: Array
    scores: Array


class _Members:
    """The members of each cluster, side by side: (B, G, 1, M, widest, ...)."""

    def __init__(self, clusters: Clusters, dtype: Any) -> None:
        edges = clusters.edges
        xp = array_namespace(edges)
        b, g, m = edges.shape[0], edges.shape[1], edges.shape[2] - 1
        begin, end = edges[:, :, :-1, None], edges[:, :, 1:, None]
        widest = max(1, int(to_float(xp.max(end - begin)))) if m else 1
        place = begin + xp.arange(widest, dtype=edges.dtype, device=edges.device)
        self.inside = (place < end)[:, :, None, ...]
        place = xp.reshape(xp.where(place < end, place, xp.zeros_like(place)), (b, g, m * widest))

        def gather(array: Array) -> Array:
            return xp.reshape(take_for_heads(array, place), (b, g, 1, m, widest, *array.shape[3:]))

        self.key, self.value = (xp.astype(gather(x), dtype) for x in (clusters.key, clusters.value))
        self.position = gather(clusters.position)
        self.weight = None if clusters.weight is None else xp.astype(gather(clusters.weight), dtype)
        self.deviation = xp.astype(clusters.deviation, dtype)[:, :, None, None, :]

    def expanded(self, q: Array, q0: Array, block: _Block) -> _Far:
        """What of each cluster counts, tilted by q0 (B, G, R, 1, E), and its mass at queries q (B, G, R, n, E)."""
        xp = array_namespace(q)
        mine = self.inside & block.free(self.position)
        scores = xp.sum(q0[..., None, :] * self.key, axis=-1)
        scores = scores if self.weight is None else scores + self.weight
        shares, log_mass = normalised_weights(xp.where(mine, scores, -xp.inf))
        mean, value = ((shares[..., None, :] @ x)[..., 0, :] for x in (self.key, self.value))
        first = log_mass[..., None, :] + (q - q0) @ xp.matrix_transpose(mean)
        count = xp.sum(xp.astype(mine, self.position.dtype), axis=-1)
        return _Far(count, value, first + self.second_order(q - q0))

    def second_order(self, turn: Array) -> Array:
        # |turn|^2 = peak^2 times at least 1: what is clipped first is clipped last, and nothing overflows.
        xp = array_namespace(turn)
        peak = xp.max(xp.abs(turn), axis=-1, keepdims=True)
        unit = turn / nonzero(peak)
        width = xp.clip(peak * self.deviation, None, MOST**0.5)
        return xp.clip(width * width * xp.sum(unit * unit, axis=-1, keepdims=True), None, MOST)


def _taken(share: Array, count: Array, budget: Array) -> Array:
    """The clusters of the largest shares whose keys together are at most `budget`."""
    xp = array_namespace(share)
    order = xp.argsort(-share, axis=-1, stable=True)
    count = xp.broadcast_to(count, share.shape)
    used = xp.cumulative_sum(xp.take_along_axis(count, order, axis=-1), axis=-1)
    return xp.take_along_axis(used <= budget, xp.argsort(order, axis=-1), axis=-1)


def _of_members(taken: Array, label: Array) -> Array:
    """Whether the cluster of each key is taken, (B, G, R, S), for labels (B, G, S)."""
    xp = array_namespace(taken)
    nobody = xp.zeros((*taken.shape[:-1], 1), dtype=xp.bool, device=label.device)
    index = xp.broadcast_to(label[:, :, None, :], (*taken.shape[:-1], label.shape[-1]))
    return xp.take_along_axis(xp.concat([taken, nobody], axis=-1), index, axis=-1)
