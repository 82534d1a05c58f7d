"""How much softmax mass each key receives from some rows."""

from nlattn.arrays.guards import exp_weights, nonzero
from nlattn.arrays.host import stop_gradient
from nlattn.arrays.typing import Array
from nlattn.problem.problem import Problem
from nlattn.problem.scores import hide, products, row_tiles

__all__ = ["column_sums"]


def column_sums(rows: Problem, window: int | None) -> Array:
    """The softmax mass of each key (B, H, S), summed over the rows of a problem.

    With a `window`, rows for which a key lies in their window do not count.
    """
    xp = rows.xp
    b, h, _, _, s = rows.shape
    total = xp.zeros((b, h, s), dtype=rows.accumulator, device=rows.query.device)
    key = xp.astype(stop_gradient(rows.key), rows.accumulator, copy=False)
    position = xp.arange(s, dtype=rows.start.dtype, device=rows.query.device)
    for tile in row_tiles(rows):
        query = xp.astype(stop_gradient(tile.query), rows.accumulator, copy=False) * rows.scale
        scores = hide(tile, products(tile, query, key[:, :, : tile.key.shape[2], :]))
        if 0 in scores.shape:
            continue
        seen = scores.shape[-1]
        mass, _ = exp_weights(scores)
        inverse = 1 / nonzero(xp.sum(mass, axis=-1, keepdims=True))
        if window is not None:
            distance = position[:seen] - tile.position[..., None]
            mass = xp.where(xp.abs(distance) < window, xp.zeros_like(mass), mass)
        part = (xp.matrix_transpose(inverse) @ mass)[..., 0, :]
        rest = xp.zeros((b, h, s - seen), dtype=part.dtype, device=part.device)
        total = total + (part if seen == s else xp.concat([part, rest], axis=-1))
    return total
