"""Random numbers: the argument `rng` as in SPEC 7, and independent streams drawn from it."""

from typing import Any

import numpy as np

__all__ = ["children", "private"]


def children(rng: Any, n: int) -> list[np.random.Generator]:
    """`n` independent generators: spawned from a Generator, otherwise from the seed `rng`."""
    return _generator(rng).spawn(n)


def private(rng: Any, key: int) -> np.random.Generator:
    """A generator whose draws never coincide with those of `children` for the same `rng`."""
    if isinstance(rng, np.random.Generator):
        rng = rng.spawn(1)[0].bit_generator.seed_seq
    seed: Any = rng if isinstance(rng, np.random.SeedSequence) else np.random.SeedSequence(_seed(rng))
    # `children` appends small counters to the spawn key; `key` stands where no counter gets.
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, key)))


def _generator(rng: Any) -> np.random.Generator:
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, np.random.SeedSequence):
        # A copy: spawning from the caller's would make his next call another one.
        seed = np.random.SeedSequence(rng.entropy, spawn_key=rng.spawn_key, pool_size=rng.pool_size)
        return np.random.default_rng(seed)
    return np.random.default_rng(_seed(rng))


def _seed(rng: Any) -> Any:
    if rng is None:
        return None
    integer = getattr(rng, "__index__", None)
    if integer is None or isinstance(rng, bool):
        raise TypeError(f"rng must be None, an integer, a SeedSequence or a Generator, got {type(rng).__name__}")
    if integer() < 0:
        raise ValueError(f"rng must not be negative, got {integer()}")
    return integer()
