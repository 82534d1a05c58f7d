"""Attention by the formula: dense and in float64, without any code of the library."""

from typing import Any, NamedTuple

import numpy as np

from nlattn.testing._asserts import to_numpy

__all__ = ["DenseAttention", "dense_attention"]


class DenseAttention(NamedTuple):
    """NumPy arrays in float64: the outputs (..., L, Ev), log-sum-exps (..., L) and weights (..., L, S)."""

    out: np.ndarray
    lse: np.ndarray
    weights: np.ndarray


def dense_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> DenseAttention:
    """Softmax attention by the formula, with all of its L x S weights.

    It takes arrays of any library, in the layout of `exact_attention`. Key heads are repeated, and `is_causal` is
    aligned at the bottom right. A row that may attend to nothing gives 0 and lse = -inf, and a NaN or inf in a value
    reaches exactly the rows that may attend to it.

    Examples
    --------
    >>> import numpy as np
    >>> dense_attention(np.zeros((1, 4)), np.ones((3, 4)), np.array([[1.0], [2.0], [6.0]])).out
    array([[3.]])
    """
    q, k, v = (np.asarray(to_numpy(x), dtype=np.float64) for x in (query, key, value))
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        group = q.shape[-3] // k.shape[-3]
        k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    length, s = q.shape[-2], k.shape[-2]
    with np.errstate(invalid="ignore"):  # inf * 0 in a key that is masked
        scores = (q @ np.swapaxes(k, -1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    allowed = np.ones(scores.shape, dtype=bool)
    if is_causal:
        allowed &= np.arange(s) <= np.arange(length)[:, None] + (s - length)
    if attn_mask is not None:
        mask = to_numpy(attn_mask)
        if mask.dtype == np.bool_:
            allowed &= mask
        else:
            allowed &= mask != -np.inf
            scores = scores + mask.astype(np.float64)
    scores = np.where(allowed, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(top == -np.inf, 0.0, top))
    total = np.sum(weights, axis=-1, keepdims=True)
    empty = ~np.any(allowed, axis=-1, keepdims=True)
    weights = weights / np.where(empty, 1.0, total)
    lse = np.where(empty, -np.inf, np.where(empty, 0.0, top) + np.log(np.where(empty, 1.0, total)))[..., 0]
    spoiled = ~np.isfinite(v)
    out = weights @ np.where(spoiled, 0.0, v)
    out = np.where(allowed.astype(np.float64) @ spoiled.astype(np.float64) > 0, np.nan, out)
    return DenseAttention(out, lse, weights)
