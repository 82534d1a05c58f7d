"""Choices by scores: they have no gradient, and of equal scores the first is chosen."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array

__all__ = ["are_chosen"]


def are_chosen(scores: Array, values: Array, index: Array) -> Array:
    """Which scores (..., S) are those that `choose_largest` found, values and index (..., m)."""
    xp = array_namespace(scores)
    # Those above the least, and of those equal to it the first.
    least = xp.min(values, axis=-1, keepdims=True)
    last = xp.max(xp.where(values == least, index, xp.full_like(index, -1)), axis=-1, keepdims=True)
    place = xp.arange(scores.shape[-1], dtype=index.dtype, device=index.device)
    return (scores > least) | ((scores == least) & (place <= last))
