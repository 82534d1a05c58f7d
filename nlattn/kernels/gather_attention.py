"""Softmax attention of each query row over its own list of keys."""

from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.precision import accumulator
from nlattn.dispatch import kernel

__all__ = ["gather_attention"]

# Numbers gathered at a time.
NUMBERS = 1 << 22


@kernel
def gather_attention(
    query: Any, key: Any, value: Any, index: Any, *, scale: float, bias: Any = None
) -> tuple[Any, Any]:
    """Each query row attends to the keys that its list names.

    Parameters
    ----------
    query : array, shape (B, H, L, E)
    key : array, shape (B, G, S, E)
        H is a multiple of G; query head h uses key head h // (H // G).
    value : array, shape (B, G, S, Ev)
        Finite.
    index : integer array, shape (B, H, L, m)
        Keys, 0 <= index < S, also in places that are hidden. A key that is named twice counts twice.
    scale : float
        The scores are scale * query @ key^T.
    bias : array, shape (B, H, L, m), optional
        Added to the scores; -inf hides a place.

    Returns
    -------
    out : array, shape (B, H, L, Ev)
        In float32, or float64 where an input is. 0 where a row sees nothing.
    lse : array, shape (B, H, L)
        Natural logarithm of the sum of the exponentials of a row's scores; -inf where it sees nothing.
    """
    xp = array_namespace(query, key, value)
    dtype = accumulator(xp, query.dtype)
    b, h, length, e = query.shape
    g, s, ev = key.shape[1], key.shape[2], value.shape[3]
    m = index.shape[3]
    if 0 in (b, length, s, m):
        out = xp.zeros((b, h, length, ev), dtype=dtype, device=query.device)
        return out, xp.full((b, h, length), -xp.inf, dtype=dtype, device=query.device)
    head = xp.arange(b * h, dtype=index.dtype, device=index.device)
    first = xp.reshape((head // h * g + head % h // (h // g)) * s, (b, h, 1, 1))
    keys, values = xp.reshape(key, (b * g * s, e)), xp.reshape(value, (b * g * s, ev))
    step = max(1, NUMBERS // (b * h * m * max(e, ev, 1)))
    outs, lses = [], []
    for i in range(0, length, step):
        rows = slice(i, min(i + step, length))
        named = index[:, :, rows, :] + first
        flat, shape = xp.reshape(named, (-1,)), tuple(named.shape)
        k = xp.astype(xp.reshape(xp.take(keys, flat, axis=0), (*shape, e)), dtype)
        q = xp.astype(query[:, :, rows, :], dtype) * scale
        scores = (k @ q[..., None])[..., 0]
        if bias is not None:
            weight = xp.astype(bias[:, :, rows, :], dtype)
            hidden = weight == -xp.inf
            scores = xp.where(hidden, -xp.inf, scores + xp.where(hidden, xp.zeros_like(weight), weight))
        top = xp.max(scores, axis=-1, keepdims=True)
        # A row that sees nothing: inf - inf must not arise, nor in a gradient.
        safe = xp.where(top == -xp.inf, xp.zeros_like(top), top)
        weights = xp.exp(scores - safe)
        total = xp.sum(weights, axis=-1, keepdims=True)
        empty = total == 0
        total = xp.where(empty, xp.ones_like(total), total)
        v = xp.astype(xp.reshape(xp.take(values, flat, axis=0), (*shape, ev)), dtype)
        outs.append((weights[..., None, :] @ v)[..., 0, :] / total)
        lses.append(xp.where(empty, -xp.inf, safe + xp.log(total))[..., 0])
    out = outs[0] if len(outs) == 1 else xp.concat(outs, axis=2)
    return out, lses[0] if len(lses) == 1 else xp.concat(lses, axis=2)
