"""Softmax attention with near clusters of keys key by key, and far clusters by their moments."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.host import to_float
from nlattn.arrays.precision import accumulator
from nlattn.dispatch import kernel

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
    spread : array, shape (B, G, M)
        The root of half the variance of the keys of each cluster, mean over the features; 0 for an expansion of first
        order.
    """

    key: Any
    value: Any
    weight: Any
    position: Any
    edges: Any
    segments: Any
    label: Any
    spread: Any


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

    rows: Any
    centre: Any
    window: Any
    visible: Any
    segment: Any
    stop: Any
    sinks: int


@kernel
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
    """Each block of rows meets some keys one by one, and the other clusters at their tilted means.

    Over the keys k_j of a cluster, with the expansion point q', a scaled query: w_j = exp(q'.k_j + weight_j), mass
    m = sum w_j, mean key k' and mean value v' weighted by w_j. For a scaled query q the mass of the cluster is taken as

        L(q) = log m + (q - q').k' + min(|q - q'|^2 spread^2, 3)

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
        out = xp.zeros((b, h, length, ev), dtype=dtype, device=query.device)
        return out, xp.full((b, h, length), -xp.inf, dtype=dtype, device=query.device)

    def split(array: Any) -> Any:
        """(B, H, ...) as (B, G, R, ...)."""
        return xp.reshape(array, (b, g, h // g, *array.shape[2:]))

    def shared(array: Any) -> Any:
        """(B, G, ...) as (B, G, 1, ...)."""
        return array[:, :, None, ...]

    query, centre, near = split(xp.astype(query, dtype) * scale), split(xp.astype(centre, dtype)), split(near)
    keys, values = (shared(xp.astype(x, dtype)) for x in (key, value))
    members, label = _Members(xp, clusters, dtype), shared(clusters.label)
    position = xp.arange(s, dtype=label.dtype, device=label.device)
    hidden, extra = xp.zeros_like(label) > 0, xp.zeros((), dtype=dtype, device=query.device)
    if weight is not None:
        hidden = shared(weight == -xp.inf)
        extra = xp.where(hidden, extra, shared(xp.astype(weight, dtype)))[..., None, :]
    outs, lses = [], []
    for t in range(len(blocks.rows) - 1):
        rows = slice(int(blocks.rows[t]), int(blocks.rows[t + 1]))
        low, high = (int(x) for x in blocks.window[t])
        q, q0 = query[:, :, :, rows, :], centre[:, :, :, int(blocks.centre[t]), :][..., None, :]
        stop = xp.asarray(blocks.stop[rows], dtype=label.dtype, device=label.device)[:, None]
        seen = (position < stop) & ~hidden[..., None, :]
        scores = q @ xp.matrix_transpose(keys) + extra
        window = (position < min(blocks.sinks, low)) | ((position >= low) & (position < high))
        count, log_mass, mean, far_value = members.moments(q0, int(blocks.visible[t]), low, high)
        far = log_mass[..., None, :] + (q - q0) @ xp.matrix_transpose(mean) + members.second_order(q - q0)
        # Keys that only later rows see must not decide what earlier ones meet.
        common = seen & window & (position < int(blocks.stop[rows].min()))
        shares, _, _ = _softmax(xp, xp.concat([xp.where(common, scores, -xp.inf), far], axis=-1))
        share = xp.sum(shares[..., s:], axis=-2) / xp.clip(xp.astype(count, dtype) + overhead, 1, None)
        budget = near - (min(blocks.sinks, low) + high - low)
        taken = _taken(xp, share, count, budget[..., None])
        in_cluster = (position < int(blocks.visible[t])) & ~((position >= low) & (position < high))
        chosen = in_cluster & _of_members(xp, taken, label)
        scores = xp.where(seen & (window | chosen[..., None, :]), scores, -xp.inf)
        far = xp.where(taken[..., None, :], -xp.inf, far)
        shares, lse, empty = _softmax(xp, xp.concat([scores, far], axis=-1))
        outs.append(shares[..., :s] @ values + shares[..., s:] @ far_value)
        lses.append(xp.where(empty, -xp.inf, lse))
    out, lse = xp.concat(outs, axis=3), xp.concat(lses, axis=3)
    used = near[..., None] >= 0
    out, lse = xp.where(used[..., None], out, xp.zeros_like(out)), xp.where(used, lse, -xp.inf)
    return xp.reshape(out, (b, h, length, ev)), xp.reshape(lse, (b, h, length))


class _Members:
    """The members of each cluster, side by side: (B, G, 1, M, widest, ...)."""

    def __init__(self, xp: Any, clusters: Clusters, dtype: Any) -> None:
        self.xp, self.dtype = xp, dtype
        edges = clusters.edges
        b, g, m = edges.shape[0], edges.shape[1], edges.shape[2] - 1
        begin, end = edges[:, :, :-1, None], edges[:, :, 1:, None]
        widest = max(1, int(to_float(xp.max(end - begin)))) if m else 1
        place = begin + xp.arange(widest, dtype=edges.dtype, device=edges.device)
        self.inside = (place < end)[:, :, None, ...]
        place = xp.reshape(xp.where(place < end, place, xp.zeros_like(place)), (b, g, m * widest))

        def gather(array: Any) -> Any:
            wide = array if array.ndim == 4 else array[..., None]
            index = xp.broadcast_to(place[..., None], (*place.shape, wide.shape[3]))
            found = xp.take_along_axis(wide, index, axis=2)
            return xp.reshape(found, (b, g, 1, m, widest, *array.shape[3:]))

        self.key, self.value = (xp.astype(gather(x), dtype) for x in (clusters.key, clusters.value))
        self.position = gather(clusters.position)
        self.weight = None if clusters.weight is None else xp.astype(gather(clusters.weight), dtype)
        self.spread = xp.astype(clusters.spread, dtype)[:, :, None, None, :]

    def moments(self, q0: Any, visible: int, low: int, high: int) -> tuple[Any, Any, Any, Any]:
        """Size, log of the mass, mean key and mean value of each cluster, (B, G, R, M, ...), tilted by q0."""
        xp = self.xp
        mine = self.inside & (self.position < visible) & ~((self.position >= low) & (self.position < high))
        scores = xp.sum(q0[..., None, :] * self.key, axis=-1)
        scores = scores if self.weight is None else scores + self.weight
        shares, log_mass, empty = _softmax(xp, xp.where(mine, scores, -xp.inf))
        mean, value = ((shares[..., None, :] @ x)[..., 0, :] for x in (self.key, self.value))
        count = xp.sum(xp.astype(mine, self.position.dtype), axis=-1)
        return count, xp.where(empty, -xp.inf, log_mass), mean, value

    def second_order(self, turn: Any) -> Any:
        # |turn|^2 = peak^2 times at least 1: what is clipped first is clipped last, and nothing overflows.
        xp = self.xp
        peak = xp.max(xp.abs(turn), axis=-1, keepdims=True)
        unit = turn / xp.where(peak > 0, peak, xp.ones_like(peak))
        width = xp.clip(peak * self.spread, None, MOST**0.5)
        return xp.clip(width * width * xp.sum(unit * unit, axis=-1, keepdims=True), None, MOST)


def _taken(xp: Any, share: Any, count: Any, budget: Any) -> Any:
    """The clusters of the largest shares whose keys together are at most `budget`."""
    order = xp.argsort(-share, axis=-1, stable=True)
    count = xp.broadcast_to(count, share.shape)
    used = xp.cumulative_sum(xp.take_along_axis(count, order, axis=-1), axis=-1)
    return xp.take_along_axis(used <= budget, xp.argsort(order, axis=-1), axis=-1)


def _of_members(xp: Any, taken: Any, label: Any) -> Any:
    """Whether the cluster of each key is taken, (B, G, R, S)."""
    nobody = xp.zeros((*taken.shape[:-1], 1), dtype=xp.bool, device=label.device)
    index = xp.broadcast_to(label, (*taken.shape[:-1], label.shape[-1]))
    return xp.take_along_axis(xp.concat([taken, nobody], axis=-1), index, axis=-1)


def _softmax(xp: Any, scores: Any) -> tuple[Any, Any, Any]:
    """Weights that sum to 1, or are all 0; the log of their sum, finite; and where nothing was seen."""
    top = xp.max(scores, axis=-1, keepdims=True)
    # Neither inf - inf nor log(0) may arise, nor in a gradient.
    empty = top == -xp.inf
    top = xp.where(empty, xp.zeros_like(top), top)
    weights = xp.exp(scores - top)
    total = xp.sum(weights, axis=-1, keepdims=True)
    total = xp.where(empty, xp.ones_like(total), total)
    return weights / total, (top + xp.log(total))[..., 0], empty[..., 0]
