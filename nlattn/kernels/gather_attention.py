"""Softmax attention of each query row over its own list of keys."""

from array_api_compat import array_namespace

from nlattn.arrays.guards import finite_or_zero
from nlattn.arrays.precision import accumulator
from nlattn.arrays.rows import take_for_heads
from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel
from nlattn.kernels._softmax import join_rows, normalised_weights, see_nothing

__all__ = ["gather_attention"]

# Numbers gathered at a time.
NUMBERS = 1 << 22


@kernel
def gather_attention(
    query: Array, key: Array, value: Array, index: Array, *, scale: float, bias: Array | None = None
) -> tuple[Array, Array]:
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
    s, ev, m = key.shape[2], value.shape[3], index.shape[3]
    if 0 in (b, length, s, m):
        return see_nothing(query, ev, dtype)
    step = max(1, NUMBERS // (b * h * m * max(e, ev, 1)))
    parts = []
    for i in range(0, length, step):
        rows = slice(i, min(i + step, length))
        n = rows.stop - i
        flat = xp.reshape(index[:, :, rows, :], (b, h, n * m))
        keys = xp.reshape(xp.astype(take_for_heads(key, flat), dtype), (b, h, n, m, e))
        values = xp.reshape(xp.astype(take_for_heads(value, flat), dtype), (b, h, n, m, ev))
        q = xp.astype(query[:, :, rows, :], dtype) * scale
        scores = (keys @ q[..., None])[..., 0]
        if bias is not None:
            extra = xp.astype(bias[:, :, rows, :], dtype)
            scores = xp.where(extra == -xp.inf, -xp.inf, scores + finite_or_zero(extra))
        weights, lse = normalised_weights(scores)
        parts.append(((weights[..., None, :] @ values)[..., 0, :], lse))
    return join_rows(parts)
