"""Vectors scaled to length 1."""

from typing import Any

from array_api_compat import array_namespace

__all__ = ["unit_vectors"]


def unit_vectors(x: Any) -> tuple[Any, Any]:
    """Rows (..., n, E) scaled to length 1, however long or short, and which are 0 and stay so (..., n)."""
    xp = array_namespace(x)
    top = xp.max(xp.abs(x), axis=-1, keepdims=True)
    zero = top == 0
    x = x / xp.where(zero, xp.ones_like(top), top)
    norm = xp.sqrt(xp.sum(xp.where(zero, xp.ones_like(x), x * x), axis=-1, keepdims=True))
    return x / norm, zero[..., 0]
