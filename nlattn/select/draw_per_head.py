"""Random numbers for the key heads of a problem, each from a generator of its own."""

from collections.abc import Callable

import numpy as np

from nlattn.arrays.random import stacked_draws
from nlattn.arrays.typing import Array
from nlattn.problem.problem import Problem

__all__ = ["draw_per_head"]


def draw_per_head(
    problem: Problem,
    generators: list[np.random.Generator],
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    shape: tuple[int, ...],
    dtype: object = None,
) -> Array:
    """What ``draw(generator, shape)`` gives for each of the (B, G) key heads of a problem, as (B, G, *shape).

    There is one generator for each key head of the call. The problem may be one of parts, whose batch is a multiple of
    that of the call: the parts of one batch element stand together, and their heads share the generators of the call's.
    """
    xp = problem.xp
    b, _, g, _, _ = problem.shape
    parts = b * g // max(len(generators), 1)
    drawn = stacked_draws(generators, draw, (parts, *shape), problem.query, dtype)
    if not generators:
        return xp.reshape(drawn, (b, g, *shape))
    return xp.reshape(xp.moveaxis(xp.reshape(drawn, (b // parts, g, parts, *shape)), 2, 1), (b, g, *shape))
