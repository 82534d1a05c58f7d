"""Where k-means begins."""

from typing import Literal, SupportsIndex

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.host import concrete_or
from nlattn.arrays.random import generator, moved
from nlattn.arrays.rows import take_rows
from nlattn.arrays.typing import Array, Namespace, RngLike

__all__ = ["Init", "first_centres"]

Init = Literal["++", "sample"]


def first_centres(
    xp: Namespace, x: Array, number: SupportsIndex, weights: Array | None, init: Init, rng: RngLike
) -> Array:
    """A number of the points of positive weight."""
    k = check_integer("centres", number, most=x.shape[-2], why="the number of points")
    if weights is not None and not concrete_or(
        xp.all(xp.sum(xp.astype(weights > 0, xp.int64), axis=-1) >= k), otherwise=True
    ):
        raise ValueError(f"centres must be at most the number of points of positive weight, got {k}; ask for fewer")
    draw = _sample if init == "sample" else _plus_plus
    return take_rows(x, draw(xp, x, k, weights, generator(rng)))


def _sample(xp: Namespace, x: Array, k: int, weights: Array | None, rng: np.random.Generator) -> Array:
    """Numbers of distinct points, each with the same probability."""
    draws = moved(rng.random(x.shape[:-1]), x)
    if weights is not None:
        draws = xp.where(weights > 0, draws, xp.full_like(draws, 2.0))
    return xp.argsort(draws, axis=-1)[..., :k]


def _plus_plus(xp: Namespace, x: Array, k: int, weights: Array | None, rng: np.random.Generator) -> Array:
    """Numbers of points, each drawn with probability proportional to the squared distance from those before it.

    Distances are formed in float64 and about the mean, where products are exact enough to tell equal points.
    """
    draws = moved(rng.random((*x.shape[:-2], k)), x)
    wide = xp.astype(x, xp.float64)
    wide = wide - xp.mean(wide, axis=-2, keepdims=True)
    squares = xp.sum(wide * wide, axis=-1)
    mass = xp.ones_like(squares) if weights is None else xp.astype(weights, xp.float64)
    spare = xp.cumulative_sum(mass, axis=-1)
    distances, chosen = mass, []
    for j in range(k):
        cumulative = xp.cumulative_sum(mass * distances, axis=-1) if j else spare
        # Once every distinct point is a centre, any point will do.
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
