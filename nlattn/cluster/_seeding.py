"""Where k-means begins."""

from typing import Any

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.host import concrete_or
from nlattn.arrays.random import generator, moved
from nlattn.arrays.rows import take_rows

__all__ = ["first_centres"]


def first_centres(xp: Any, x: Any, k: Any, weights: Any, init: str, rng: Any) -> Any:
    """k of the points of positive weight."""
    n = x.shape[-2]
    k = check_integer("centres", k, most=n, why="the number of points")
    if weights is not None and not concrete_or(
        xp.all(xp.sum(xp.astype(weights > 0, xp.int64), axis=-1) >= k), otherwise=True
    ):
        raise ValueError(f"centres must be at most the number of points of positive weight, got {k}; ask for fewer")
    rng = generator(rng)
    draw = _sample if init == "sample" else _plus_plus
    index = draw(xp, x, k, weights, rng)
    return take_rows(x, index)


def _sample(xp: Any, x: Any, k: int, weights: Any, rng: Any) -> Any:
    draws = moved(rng.random(x.shape[:-1]), x)
    if weights is not None:
        draws = xp.where(weights > 0, draws, xp.full_like(draws, 2.0))
    return xp.argsort(draws, axis=-1)[..., :k]


def _plus_plus(xp: Any, x: Any, k: int, weights: Any, rng: Any) -> Any:
    """In float64 and about the mean: squared distances by products are then exact enough to tell equal points."""
    draws = moved(rng.random((*x.shape[:-2], k)), x)
    wide = xp.astype(x, xp.float64)
    wide = wide - xp.mean(wide, axis=-2, keepdims=True)
    squares = xp.sum(wide * wide, axis=-1)
    mass = xp.ones_like(squares) if weights is None else xp.astype(weights, xp.float64)
    spare = xp.cumulative_sum(mass, axis=-1)
    distances, chosen = mass, []
    for j in range(k):
        cumulative = xp.cumulative_sum(mass * distances, axis=-1) if j else spare
        # With fewer distinct points than centres, any will do.
        cumulative = xp.where(cumulative[..., -1:] > 0, cumulative, spare)
        passed = cumulative <= draws[..., j : j + 1] * cumulative[..., -1:]
        index = xp.clip(xp.sum(xp.astype(passed, xp.int64), axis=-1, keepdims=True), None, x.shape[-2] - 1)
        point = take_rows(wide, index)
        square = xp.take_along_axis(squares, index, axis=-1)
        product = (wide @ xp.matrix_transpose(point))[..., 0]
        new = squares + square - 2 * product
        new = xp.where(new > 8 * xp.finfo(xp.float64).eps * (squares + square), new, xp.zeros_like(new))
        distances = xp.minimum(distances, new) if j else new
        chosen.append(index)
    return xp.concat(chosen, axis=-1)
