"""Streaming softmax attention with its log-sum-exp."""

from array_api_compat import array_namespace

from nlattn.arrays.guards import finite_or_zero
from nlattn.arrays.precision import accumulator
from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel
from nlattn.kernels._softmax import absorb, finish, join_rows, nothing_seen, see_nothing

__all__ = ["softmax_attention"]

# A tile of scores holds ROWS x KEYS numbers per batch element and key-value head.
ROWS = 512
KEYS = 1024


@kernel
def softmax_attention(
    query: Array,
    key: Array,
    value: Array,
    start: Array,
    stop: Array,
    *,
    scale: float,
    mask: Array | None = None,
    bias: Array | None = None,
    strict: bool = False,
) -> tuple[Array, Array]:
    """Attention of each query row over its own interval of keys, in O(L Ev + tile) extra memory.

    Parameters
    ----------
    query : array, shape (B, H, L, E)
    key : array, shape (B, G, S, E)
        H is a multiple of G; query head h uses key head h // (H // G).
    value : array, shape (B, G, S, Ev)
        Finite at every key, masked ones included: 0 * NaN is NaN. Callers blank out what no row may see.
    start, stop : integer array, shape (B, H, L)
        Row i attends to the keys start <= j < stop; 0 <= start, stop <= S; an empty interval is legal.
    scale : float
        The scores are scale * query @ key^T.
    mask : boolean array, broadcasts to (B, H, L, S), four axes, optional
        True where a row may attend, within its interval.
    bias : floating array, broadcasts to (B, H, L, S), four axes, optional
        Added to the scaled scores; -inf masks. Of size 1 on the query axis it is a log-weight of the keys.
    strict : bool, default False
        Whether NaN or inf in a key that some row sees makes some row NaN. It need not otherwise: a score of -inf hides
        its key.

    Returns
    -------
    out : array, shape (B, H, L, Ev)
        In float32, or float64 where an input is. 0 where a row attends to nothing.
    lse : array, shape (B, H, L)
        Natural logarithm of the sum of the exponentials of a row's scores; -inf where it attends to nothing.
    """
    xp = array_namespace(query, key, value)
    dtype = accumulator(xp, query.dtype)
    b, h, length, e = query.shape
    g, s, ev = key.shape[1], key.shape[2], value.shape[3]
    if length == 0 or s == 0:
        return see_nothing(query, ev, dtype)
    parts = []
    for i in range(0, length, ROWS):
        rows = slice(i, min(i + ROWS, length))
        # The rows of the heads that share keys are one long list: (B, G, R n, ...).
        flat = (b, g, h // g * (rows.stop - i))
        q = xp.reshape(xp.astype(query[:, :, rows, :], dtype) * scale, (*flat, e))
        first, last = (xp.reshape(x[:, :, rows], (*flat, 1)) for x in (start, stop))
        online = nothing_seen(q, ev)
        for j in range(0, s, KEYS):
            keys = slice(j, min(j + KEYS, s))
            scores = q @ xp.matrix_transpose(xp.astype(key[:, :, keys, :], dtype))
            position = xp.arange(j, keys.stop, dtype=start.dtype, device=start.device)
            seen = (position >= first) & (position < last)
            if mask is not None:
                seen = seen & _tile(mask, g, h, rows, keys)
            if bias is not None:
                extra = xp.astype(_tile(bias, g, h, rows, keys), dtype)
                seen, scores = seen & (extra != -xp.inf), scores + finite_or_zero(extra)
            online = absorb(online, xp.where(seen, scores, -xp.inf), xp.astype(value[:, :, keys, :], dtype))
        out, lse = finish(online)
        if strict:
            # 0 times a sum that is not finite is NaN. A sum of finite keys may overflow; callers then look at the keys.
            out = out + 0.0 * xp.sum(xp.astype(key, dtype))
        parts.append((xp.reshape(out, (b, h, rows.stop - i, ev)), xp.reshape(lse, (b, h, rows.stop - i))))
    return join_rows(parts)


def _tile(array: Array, g: int, h: int, rows: slice, keys: slice) -> Array:
    """The part of a (B|1, H|1, L|1, S|1) array that meets a tile, with its rows in one list as those of queries."""
    xp = array_namespace(array)
    b, heads, length, s = array.shape
    tile = array[:, :, rows if length > 1 else slice(None), keys if s > 1 else slice(None)]
    if heads == 1 and length == 1:
        return tile
    n, width = rows.stop - rows.start, tile.shape[3]
    tile = xp.broadcast_to(tile, (b, h, n, width))
    return xp.reshape(tile, (b, g, h // g * n, width))
