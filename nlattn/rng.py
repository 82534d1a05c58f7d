"""Random numbers: the argument `rng` as in SPEC 7, independent streams drawn from it, and draws for any array library.

Draws are made by NumPy on the host in float64, then moved and cast: one seed gives the same numbers everywhere.
"""

from typing import Any

import array_api_compat
import numpy as np

__all__ = ["children", "generator", "moved", "private", "standard_normal"]


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
    draws: Any = rng.standard_normal(shape)
    if array_api_compat.array_namespace(like).isdtype(like.dtype, "complex floating"):
        draws = (draws + 1j * rng.standard_normal(shape)) / np.sqrt(2.0)
    return moved(draws, like, like.dtype)


def moved(host: Any, like: Any, dtype: Any = None) -> Any:
    """A NumPy array in the library and on the device of `like`, in `dtype`, else its own."""
    xp = array_api_compat.array_namespace(like)
    array = xp.asarray(np.ascontiguousarray(host), device=array_api_compat.device(like))
    return array if dtype is None else xp.astype(array, dtype, copy=False)


def _seed(rng: Any) -> Any:
    if rng is None:
        return None
    integer = getattr(rng, "__index__", None)
    if integer is None or isinstance(rng, bool):
        raise TypeError(f"rng must be None, an integer, a SeedSequence or a Generator, got {type(rng).__name__}")
    if integer() < 0:
        raise ValueError(f"rng must not be negative, got {integer()}")
    return integer()
