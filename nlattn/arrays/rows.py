"""Rows of arrays: taken by number, repeated for the heads of a group, scaled to length 1."""

import math

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.typing import Array

__all__ = ["repeat_heads", "take_for_heads", "take_rows", "unit_rows"]


def take_rows(x: Array, index: Array) -> Array:
    """x (..., n, c) at index (..., m), as (..., m, c): a single `take` of whole rows."""
    xp = array_namespace(x)
    lead, n, c = x.shape[:-2], x.shape[-2], x.shape[-1]
    count = math.prod(lead)
    first = xp.reshape(n * xp.arange(count, dtype=index.dtype, device=index.device), (*lead, 1))
    rows = xp.take(xp.reshape(x, (count * n, c)), xp.reshape(index + first, (count * index.shape[-1],)), axis=0)
    return xp.reshape(rows, (*index.shape, c))


def take_for_heads(array: Array, index: Array) -> Array:
    """array (B, G, n, ...) at index (B, H, m), as (B, H, m, ...); head h takes from group h // (H // G)."""
    xp = array_namespace(array)
    b, g, n, *rest = array.shape
    h, m = index.shape[1:]
    rows = take_rows(xp.reshape(array, (b, g, n, math.prod(rest))), xp.reshape(index, (b, g, h // g * m)))
    return xp.reshape(rows, (*index.shape, *rest))


def repeat_heads(array: Array, heads: int) -> Array:
    """array (B, G, ...) as (B, heads, ...), each group repeated for its heads."""
    b, g, *rest = array.shape
    if g == heads:
        return array
    xp = array_namespace(array)
    return xp.reshape(xp.broadcast_to(array[:, :, None, ...], (b, g, heads // g, *rest)), (b, heads, *rest))


def unit_rows(x: Array) -> tuple[Array, Array]:
    """Rows (..., c) scaled to length 1, however long or short they are, and which rows are 0 and stay so (...)."""
    xp = array_namespace(x)
    if x.shape[-1] == 0:
        return x, xp.ones(x.shape[:-1], dtype=xp.bool, device=x.device)
    top = xp.max(xp.abs(x), axis=-1, keepdims=True)
    zero = top == 0
    # Squares of numbers near the ends of the exponent's range would overflow or vanish.
    x = x / nonzero(top)
    norm = xp.sqrt(xp.sum(xp.where(zero, xp.ones_like(x), x * x), axis=-1, keepdims=True))
    return x / norm, zero[..., 0]
