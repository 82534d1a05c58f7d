"""Which scores are the largest; among equal scores the first ones are chosen."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array

__all__ = ["are_chosen"]


def are_chosen(scores: Array, values: Array, index: Array) -> Array:
    """True for those scores (..., S) that `choose_largest` found, with its values and index (..., m)."""
    xp = array_namespace(scores)
    # All scores above the least chosen one were chosen, and the first ones of those equal to it.
    least = xp.min(values, axis=-1, keepdims=True)
    last = xp.max(xp.where(values == least, index, xp.full_like(index, -1)), axis=-1, keepdims=True)
    position = xp.arange(scores.shape[-1], dtype=index.dtype, device=index.device)
    return (scores > least) | ((scores == least) & (position <= last))
