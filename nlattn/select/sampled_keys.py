"""One block of similar keys for each block of rows, and a sample of all keys that stands for the others."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.rows import repeat_heads, take_for_heads
from nlattn.arrays.typing import Array
from nlattn.cluster._gray import gray_rank
from nlattn.kernels.hash_codes import hash_codes
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import Pairing, centred, hashed_keys, hashed_queries, pair_blocks
from nlattn.select.draw_per_head import draw_per_head
from nlattn.select.usable_keys import Keys, valid_keys

__all__ = ["BlocksAndSamples", "Importance", "choose_blocks_and_samples", "sample_places", "squared_norms"]

#: ``importance(value, count)`` returns positive numbers (B, K, S) in float64, to which the probabilities of the keys
#: are proportional. It gets values (B, K, S, Ev) that are 0 where a key is masked, and how many keys (B, K) are not
#: masked. Masked keys are never drawn.
Importance = Callable[[Array, Array], Array]


class BlocksAndSamples(NamedTuple):
    """Sorted keys with drawn keys behind them, and which of both each block of sorted rows meets.

    Attributes
    ----------
    pairing : Pairing
    keys : integer array, shape (B, K, S + m)
        The keys in sorted order, then the m that were drawn.
    weight : array, shape (B, K, S + m)
        Their log-weights: those of the mask, and for a key that was drawn with probability p also -log(m p).
    met : pair of integer arrays, shapes (B, H, L, 1) and (B, K, S + m, 1)
        Codes of rows and keys. They are equal where a drawn key is in the block of the row, which meets it there.
    """

    pairing: Pairing
    keys: Array
    weight: Array
    met: tuple[Array, Array]


def choose_blocks_and_samples(
    problem: Problem,
    generators: list[np.random.Generator],
    size: int,
    samples: int,
    bits: int,
    importance: Importance | None,
    *,
    paper: bool,
) -> BlocksAndSamples | None:
    """Blocks of `size` keys by hyperplane codes of some `bits`, and drawn keys; None where a block holds all keys.

    Without `importance` all keys are drawn with the same probability. With `paper` queries and keys are hashed as they
    are, and blocks are paired by rank.
    """
    xp = problem.xp
    b, _, g, length, s = problem.shape
    if s <= size or 0 in (b, length):
        return None
    keys = valid_keys(problem)
    heads, dtype = keys.heads, problem.accumulator
    planes = draw_per_head(problem, generators, np.random.Generator.standard_normal, (1, bits, problem.query.shape[3]))
    uniform = repeat_heads(draw_per_head(problem, generators, np.random.Generator.random, (samples,)), heads)
    query, key = (problem.query, problem.key) if paper else centred(problem, keys)
    query, key = (xp.astype(x, dtype, copy=False) for x in (query, key))
    planes = xp.astype(planes, dtype)
    row_codes = gray_rank(hashed_queries(hash_codes, query, planes, g)[:, :, 0, :])
    key_codes = gray_rank(hashed_keys(hash_codes, key, planes, heads)[:, :, 0, :])
    pairing = pair_blocks(row_codes, key_codes, keys, size, by="rank" if paper else "codes")

    place, log_weight = sample_places(uniform, keys.counts, _importance(problem, keys, pairing, importance))
    index = take_for_heads(pairing.keys, place)
    weight = xp.zeros((b, heads, s), dtype=dtype, device=index.device)
    log_weight = xp.astype(log_weight, dtype)
    if keys.weight is not None:
        weight = xp.astype(take_for_heads(keys.weight, pairing.keys), dtype)
        log_weight = log_weight + xp.astype(take_for_heads(keys.weight, index), dtype)
    # Sorted keys have code -1, which no row has. A drawn key has the number of its block as code, and a row that of the
    # block it meets.
    own = xp.full((b, heads, s), -1, dtype=place.dtype, device=index.device)
    at = xp.arange(length, dtype=place.dtype, device=index.device) // pairing.step
    met = xp.take(pairing.block, at, axis=2)
    return BlocksAndSamples(
        pairing=pairing,
        keys=xp.concat([pairing.keys, index], axis=-1),
        weight=xp.concat([weight, log_weight], axis=-1),
        met=(met[..., None], xp.concat([own, place // size], axis=-1)[..., None]),
    )


def _importance(problem: Problem, keys: Keys, pairing: Pairing, importance: Importance | None) -> Array | None:
    """The importance (B, K, S) of the keys in the order in which `pairing` has sorted them."""
    if importance is None:
        return None
    xp = problem.xp
    value = xp.astype(repeat_heads(keys.value, keys.heads), problem.accumulator, copy=False)
    if keys.valid is not None:
        value = xp.where(keys.valid[..., None], value, xp.zeros_like(value))
    return take_for_heads(importance(value, keys.counts), pairing.keys)


def sample_places(uniform: Array, count: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Places drawn among the first `count` (B, K), by uniform numbers (B, K, m), and their log-weights -log(m p).

    The probabilities p are proportional to `weights` (B, K, S), which are positive at the first `count` places; without
    them they are equal.
    """
    xp = array_namespace(uniform, count)
    samples = uniform.shape[2]
    none = count == 0
    last = xp.where(none, xp.zeros_like(count), count - 1)[..., None]
    if weights is None:
        place = xp.astype(xp.floor(uniform * xp.astype(count, uniform.dtype)[..., None]), count.dtype)
        some = xp.astype(nonzero(count), uniform.dtype)
        log_weight = xp.log(some)[..., None] - math.log(max(samples, 1))
        return xp.minimum(place, last), xp.broadcast_to(log_weight, uniform.shape)
    b, k, s = weights.shape
    used = xp.arange(s, dtype=count.dtype, device=count.device) < count[..., None]
    ends = xp.cumulative_sum(xp.where(used, weights, xp.zeros_like(weights)), axis=-1)
    total = ends[..., -1:]
    found = [
        xp.searchsorted(ends[i, j, :], uniform[i, j, :] * total[i, j, :], side="right")
        for i in range(b)
        for j in range(k)
    ]
    place = xp.minimum(xp.astype(xp.reshape(xp.stack(found), uniform.shape), count.dtype), last)
    chosen = xp.take_along_axis(weights, place, axis=-1)
    chosen, total = (xp.where(none[..., None], xp.ones_like(x), x) for x in (chosen, total))
    return place, xp.log(total) - math.log(max(samples, 1)) - xp.log(chosen)


def squared_norms(value: Array) -> Array:
    """Squared norms of values (B, K, S, Ev) in float64, divided by one number for each head so that none overflows."""
    xp = array_namespace(value)
    top = xp.max(xp.abs(value), axis=(2, 3), keepdims=True) if value.shape[3] else xp.ones_like(value[:, :, :1, :])
    unit = value / nonzero(top)
    return xp.astype(xp.sum(unit * unit, axis=-1), xp.float64)
