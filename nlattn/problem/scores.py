"""Scores of a few query rows at a time against all keys."""

from collections.abc import Iterator
from dataclasses import replace

from nlattn.arrays.host import all_finite, to_float
from nlattn.arrays.typing import Array
from nlattn.problem.problem import Problem

__all__ = ["hide", "products", "row_tiles"]

#: Scores of a tile, over all heads together, so that memory is linear in the length: 8 MB in float32.
TILE_NUMBERS = 1 << 21


def row_tiles(problem: Problem) -> Iterator[Problem]:
    """The problem of a few consecutive rows at a time; with causality, without the keys that none of them may see."""
    b, h, _, length, s = problem.shape
    step = max(1, TILE_NUMBERS // max(1, b * h * s))
    for i in range(0, max(length, 1), step):
        rows = slice(i, min(i + step, length))
        own = {name: getattr(problem, name)[:, :, rows, ...] for name in ("query", "start", "stop", "position")}
        for name in ("mask", "bias"):
            array = getattr(problem, name)
            own[name] = array if array is None or array.shape[2] == 1 else array[:, :, rows, :]
        if problem.is_causal and 0 not in own["stop"].shape:
            seen = int(to_float(problem.xp.max(own["stop"])))
            for name in ("key", "value"):
                own[name] = getattr(problem, name)[:, :, :seen, :]
            for name in ("mask", "bias"):
                own[name] = own[name] if own[name] is None or own[name].shape[3] == 1 else own[name][..., :seen]
        yield replace(problem, **own)


def products(tile: Problem, query: Array, key: Array) -> Array:
    """The products (B, H, r, n) of queries (B, H, r, c) and keys (B, X, n, c), H a multiple of X, in their dtype."""
    xp = tile.xp
    b, h, r, c = query.shape
    g, s = key.shape[1:3]
    tall = xp.reshape(query, (b, g, h // g * r, c))
    return xp.reshape(tall @ xp.matrix_transpose(key), (b, h, r, s))


def hide(tile: Problem, scores: Array) -> Array:
    """The scores of a tile with its bias added, and -inf where a row does not see a key."""
    xp, s = tile.xp, scores.shape[-1]
    if not all_finite(xp, scores):
        # A key whose score is NaN has to be chosen: the NaN must show in the output.
        scores = xp.where(xp.isnan(scores), xp.inf, scores)
    if tile.bias is not None:
        scores = scores + xp.astype(tile.bias, scores.dtype)
    if tile.mask is not None:
        scores = xp.where(tile.mask, scores, -xp.inf)
    if tile.is_causal:
        there = xp.arange(s, dtype=tile.start.dtype, device=scores.device)
        scores = xp.where(there < tile.stop[..., None], scores, -xp.inf)
    return scores
