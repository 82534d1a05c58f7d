"""Random numbers: the argument `rng` as in SPEC 7, independent streams drawn from it, and draws for any array library.

Draws are made by NumPy on the host in float64, then moved and cast: one seed gives the same numbers everywhere.
"""

import operator
from typing import Any

import array_api_compat
import numpy as np

__all__ = ["children", "generator", "moved", "private", "standard_normal", "weighted"]


def children(rng: Any, n: int) -> list[np.random.Generator]:
    """`n` independent generators: spawned from a Generator, otherwise from the seed `rng`."""
    return generator(rng).spawn(n)


def private(rng: Any, key: int) -> np.random.Generator:
    """A generator whose draws never coincide with those of `children` for the same `rng`."""
    if isinstance(rng, np.random.Generator):
        rng = rng.spawn(1)[0].bit_generator.seed_seq
    seed: Any = rng if isinstance(rng, np.random.SeedSequence) else np.random.SeedSequence(_seed(rng))
    # `children` appends small counters to the spawn key; `key` stands where no counter gets.
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, key)))


def generator(rng: Any) -> np.random.Generator:
    """The Generator that `rng` is, which advances, or one seeded by it."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, np.random.SeedSequence):
        # A copy: spawning from the caller's would make his next call another one.
        seed = np.random.SeedSequence(rng.entropy, spawn_key=rng.spawn_key, pool_size=rng.pool_size)
        return np.random.default_rng(seed)
    return np.random.default_rng(_seed(rng))


def standard_normal(rng: np.random.Generator, shape: tuple[int, ...], like: Any) -> Any:
    """Independent N(0, 1) numbers in the library, dtype and device of `like`; complex ones have E |z|^2 = 1."""
    if array_api_compat.array_namespace(like).isdtype(like.dtype, "complex floating"):
        # Pairs, so that the draws of a row do not depend on how many rows are drawn at a time.
        pairs = rng.standard_normal((*shape, 2)) / np.sqrt(2.0)
        return moved(pairs[..., 0] + 1j * pairs[..., 1], like, like.dtype)
    return moved(rng.standard_normal(shape), like, like.dtype)


def weighted(rng: np.random.Generator, weights: Any, size: int) -> Any:
    """`size` independent item numbers (int64), with probabilities proportional to float64 `weights` of positive sum."""
    xp = array_api_compat.array_namespace(weights)
    ends = xp.cumulative_sum(weights)
    # Strictly below the last end: the first end above a draw belongs to a positive weight.
    draws = moved(np.minimum(rng.random(size), 1 - 2**-52), weights) * ends[-1]
    return xp.astype(xp.searchsorted(ends, draws, side="right"), xp.int64)


def moved(host: Any, like: Any, dtype: Any = None) -> Any:
    """A NumPy array in the library and on the device of `like`, in `dtype`, else its own."""
    xp = array_api_compat.array_namespace(like)
    array = xp.asarray(np.ascontiguousarray(host), device=array_api_compat.device(like))
    return array if dtype is None else xp.astype(array, dtype, copy=False)


def _seed(rng: Any) -> Any:
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
