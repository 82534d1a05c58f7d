"""Exact attention over keys that each row chose by its scores."""

from nlattn.arrays.typing import Array
from nlattn.kernels.gather_attention import gather_attention
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem

__all__ = ["attend_to"]


def attend_to(tile: Problem, index: Array, seen: Array) -> Partial:
    """Exact attention of each row over its own keys `index` (B, H, r, m), as far as they are `seen`."""
    xp = tile.xp
    bias = None
    if tile.bias is not None:
        full = xp.broadcast_to(tile.bias, (*index.shape[:3], tile.key.shape[2]))
        bias = xp.astype(xp.take_along_axis(full, index, axis=-1), tile.accumulator)
        bias = xp.where(seen, bias, -xp.inf)
    elif tile.mask is not None or tile.is_causal:
        zero = xp.zeros(index.shape, dtype=tile.accumulator, device=index.device)
        bias = xp.where(seen, zero, -xp.inf)
    return Partial(*gather_attention(tile.query, tile.key, tile.value, index, scale=tile.scale, bias=bias))
