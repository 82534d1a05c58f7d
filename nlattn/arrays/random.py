"""Random numbers: the argument `rng` as in SPEC 7, independent streams drawn from it, and draws for any array library.

Draws are made by NumPy on the host in float64, then moved and cast: one seed gives the same numbers everywhere.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat
import numpy as np

from nlattn.arrays.typing import Array, DType, RngLike

__all__ = [
    "children",
    "generator",
    "moved",
    "private",
    "random_signs",
    "stacked_draws",
    "standard_normal",
    "weighted_draws",
]


def children(rng: RngLike, n: int) -> list[np.random.Generator]:
    """`n` independent generators: spawned from a Generator, otherwise from the seed `rng`."""
    return generator(rng).spawn(n)


def private(rng: RngLike, key: int) -> np.random.Generator:
    """A generator whose draws never coincide with those of `children` for the same `rng`."""
    seed: Any = rng.spawn(1)[0].bit_generator.seed_seq if isinstance(rng, np.random.Generator) else rng
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(_seed(seed))
    # `children` appends counters from 0 on to the spawn key, which do not get as far as `key`.
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, key)))


def generator(rng: RngLike) -> np.random.Generator:
    """The Generator that `rng` is, which advances, or one seeded by it."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, np.random.SeedSequence):
        # A copy, since spawning from the caller's own sequence would change what that gives to the next call.
        seed = np.random.SeedSequence(rng.entropy, spawn_key=rng.spawn_key, pool_size=rng.pool_size)
        return np.random.default_rng(seed)
    return np.random.default_rng(_seed(rng))


def stacked_draws(
    generators: Sequence[np.random.Generator],
    draw: Callable[[np.random.Generator, tuple[int, ...]], Any],
    shape: tuple[int, ...],
    like: Array,
    dtype: DType = None,
) -> Array:
    """draw(generator, shape) for each generator in turn, along a new first axis, as `moved` puts it beside `like`.

    An unbound method of a generator is such a function: ``np.random.Generator.random``. No generators make no draws.
    """
    drawn = [draw(generator, shape) for generator in generators]
    return moved(np.stack(drawn) if drawn else np.empty((0, *shape)), like, dtype)


def random_signs(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Any:
    """Independent signs, 1.0 or -1.0 with equal probability, on the host."""
    return 2.0 * rng.integers(0, 2, shape) - 1.0


def standard_normal(rng: np.random.Generator, shape: tuple[int, ...], like: Array) -> Array:
    """Independent N(0, 1) numbers in the library, dtype and device of `like`; complex ones have E |z|^2 = 1."""
    if array_api_compat.array_namespace(like).isdtype(like.dtype, "complex floating"):
        # Real and imaginary parts are drawn in pairs, so that a row does not depend on how many are drawn at a time.
        pairs = rng.standard_normal((*shape, 2)) / np.sqrt(2.0)
        return moved(pairs[..., 0] + 1j * pairs[..., 1], like, like.dtype)
    return moved(rng.standard_normal(shape), like, like.dtype)


def weighted_draws(rng: np.random.Generator, weights: Array, size: int) -> Array:
    """`size` independent item numbers (int64), with probabilities proportional to float64 `weights` of positive sum."""
    xp = array_api_compat.array_namespace(weights)
    ends = xp.cumulative_sum(weights)
    # Draws stay strictly below the last end, so that the first end above a draw belongs to a positive weight.
    draws = moved(np.minimum(rng.random(size), 1 - 2**-52), weights) * ends[-1]
    return xp.astype(xp.searchsorted(ends, draws, side="right"), xp.int64)


def moved(host: Any, like: Array, dtype: DType = None) -> Array:
    """A NumPy array in the library and on the device of `like`, in `dtype`, else its own."""
    xp = array_api_compat.array_namespace(like)
    array = xp.asarray(np.ascontiguousarray(host), device=array_api_compat.device(like))
    return array if dtype is None else xp.astype(array, dtype, copy=False)


def _seed(rng: Any) -> int | None:
    """`rng` as a seed, which it must be if it is no generator and no seed sequence."""
    if rng is None:
        return None
    try:
        seed = None if isinstance(rng, bool) else operator.index(rng)
    except TypeError:
        seed = None
    if seed is None:
        raise TypeError(f"rng must be None, an integer, a SeedSequence or a Generator, got {type(rng).__name__}")
    if seed < 0:
        raise ValueError(f"rng must not be negative, got {seed}")
    return seed
