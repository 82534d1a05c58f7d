"""Streaming softmax attention with its log-sum-exp."""

from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.precision import accumulator
from nlattn.dispatch import kernel

__all__ = ["softmax_attention"]

# A tile of scores holds ROWS x KEYS numbers per batch element and key-value head.
ROWS = 512
KEYS = 1024


@kernel
def softmax_attention(
    query: Any,
    key: Any,
    value: Any,
    start: Any,
    stop: Any,
    *,
    scale: float,
    mask: Any = None,
    bias: Any = None,
) -> tuple[Any, Any]:
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
    r = h // g
    query = xp.reshape(query, (b, g, r, length, e))
    start = xp.reshape(start, (b, g, r, length, 1))
    stop = xp.reshape(stop, (b, g, r, length, 1))
    positions = xp.arange(s, dtype=start.dtype, device=start.device)
    if length == 0 or s == 0:
        out = xp.zeros((b, h, length, ev), dtype=dtype, device=query.device)
        return out, xp.full((b, h, length), -xp.inf, dtype=dtype, device=query.device)

    outs, lses = [], []
    for i in range(0, length, ROWS):
        rows = slice(i, min(i + ROWS, length))
        n_rows = rows.stop - i
        q = xp.reshape(xp.astype(query[:, :, :, rows, :], dtype) * scale, (b, g, r * n_rows, e))
        acc = xp.zeros((b, g, r, n_rows, ev), dtype=dtype, device=query.device)
        total = xp.zeros((b, g, r, n_rows, 1), dtype=dtype, device=query.device)
        top = xp.full((b, g, r, n_rows, 1), -xp.inf, dtype=dtype, device=query.device)
        for j in range(0, s, KEYS):
            keys = slice(j, min(j + KEYS, s))
            k = xp.astype(key[:, :, keys, :], dtype)
            scores = xp.reshape(q @ xp.matrix_transpose(k), (b, g, r, n_rows, keys.stop - j))
            seen = (positions[keys] >= start[:, :, :, rows, :]) & (positions[keys] < stop[:, :, :, rows, :])
            if mask is not None:
                seen = seen & _tile(xp, mask, g, rows, keys)
            if bias is not None:
                weight = xp.astype(_tile(xp, bias, g, rows, keys), dtype)
                scores, seen = scores + weight, seen & (weight != -xp.inf)
            scores = xp.where(seen, scores, -xp.inf)
            new_top = xp.maximum(top, xp.max(scores, axis=-1, keepdims=True))
            # A row that has seen nothing yet has top = -inf; inf - inf must not arise, nor in a gradient.
            safe = xp.where(new_top == -xp.inf, xp.zeros_like(new_top), new_top)
            weights = xp.exp(scores - safe)
            decay = xp.exp(top - safe)
            total = total * decay + xp.sum(weights, axis=-1, keepdims=True)
            flat = xp.reshape(weights, (b, g, r * n_rows, keys.stop - j))
            part = flat @ xp.astype(value[:, :, keys, :], dtype)
            acc = acc * decay + xp.reshape(part, (b, g, r, n_rows, ev))
            top = new_top
        empty = total == 0
        total = xp.where(empty, xp.ones_like(total), total)
        outs.append(acc / total)
        safe = xp.where(empty, xp.zeros_like(top), top)
        lses.append(xp.where(empty, -xp.inf, safe + xp.log(total))[..., 0])
    out = outs[0] if len(outs) == 1 else xp.concat(outs, axis=3)
    lse = lses[0] if len(lses) == 1 else xp.concat(lses, axis=3)
    return xp.reshape(out, (b, h, length, ev)), xp.reshape(lse, (b, h, length))


def _tile(xp: Any, array: Any, g: int, rows: slice, keys: slice) -> Any:
    """The part of a (B|1, H|1, L|1, S|1) array that meets a tile, with the heads split into (G, R)."""
    b, h, length, s = array.shape
    tile = array[:, :, rows if length > 1 else slice(None), keys if s > 1 else slice(None)]
    split = (1, 1) if h == 1 else (g, h // g)
    return xp.reshape(tile, (b, *split, *tile.shape[2:]))
