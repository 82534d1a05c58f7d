"""One block of neighbours, exactly, and a sample of the other keys that stands for all of them."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nlattn.arrays.rows import repeat_heads, take_for_heads
from nlattn.attend.halving import halved
from nlattn.attend.intervals import attend
from nlattn.cluster._gray import gray_rank
from nlattn.kernels.block_attention import block_attention
from nlattn.kernels.hash_codes import hash_codes
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import centred, hashed_keys, hashed_queries, pair_blocks
from nlattn.select.draw_per_head import drawn
from nlattn.select.usable_keys import valid_keys

__all__ = ["blocks_and_samples", "sample_places", "squared_norms"]


def blocks_and_samples(
    problem: Problem,
    generators: list[np.random.Generator],
    size: int,
    samples: int,
    bits: int,
    importance: Callable[[Any, Any, Any], Any] | None,
    *,
    paper: bool,
) -> Partial:
    """Exact attention over blocks of hyperplane codes, and sampled keys with log-weights; causal by halving.

    `importance(xp, value, count)` gives positive numbers (B, K, S) in float64, to which the probabilities of the keys
    are proportional. It sees values (B, K, S, Ev) that are 0 where a key is masked, and the numbers (B, K) of those
    that are not; masked keys are never drawn. None: equal probabilities.
    """
    part = partial(
        _part,
        generators=copy.deepcopy(generators),
        size=size,
        samples=samples,
        bits=bits,
        importance=importance,
        paper=paper,
    )
    # Where a half has no more than size + samples keys, all of them cost no more than the approximation.
    return halved(problem, 2 * (size + samples), part) if problem.is_causal else part(problem)


def _part(
    problem: Problem,
    *,
    generators: list[np.random.Generator],
    size: int,
    samples: int,
    bits: int,
    importance: Callable[[Any, Any, Any], Any] | None,
    paper: bool,
) -> Partial:
    xp = problem.xp
    b, _, g, length, s = problem.shape
    if s <= size or 0 in (b, length):
        return attend(problem)
    keys = valid_keys(problem)
    heads = keys.heads
    planes = drawn(problem, generators, np.random.Generator.standard_normal, (1, bits, problem.query.shape[3]))
    uniform = repeat_heads(drawn(problem, generators, np.random.Generator.random, (samples,)), heads)
    query, key = (problem.query, problem.key) if paper else centred(problem, keys)
    query, key = (xp.astype(x, problem.accumulator, copy=False) for x in (query, key))
    planes = xp.astype(planes, problem.accumulator)
    row_codes = gray_rank(hashed_queries(hash_codes, query, planes, g)[:, :, 0, :])
    key_codes = gray_rank(hashed_keys(hash_codes, key, planes, heads)[:, :, 0, :])
    pairing = pair_blocks(row_codes, key_codes, keys, size, by="rank" if paper else "codes")

    weights = None
    if importance is not None:
        value = xp.astype(repeat_heads(keys.value, heads), problem.accumulator, copy=False)
        if keys.valid is not None:
            value = xp.where(keys.valid[..., None], value, xp.zeros_like(value))
        weights = take_for_heads(importance(xp, value, keys.count), pairing.keys)
    place, log_weight = sample_places(xp, uniform, keys.count, weights)
    index = take_for_heads(pairing.keys, place)

    begin, end = pairing.ranges()
    s_all = xp.full_like(begin, s)
    begin, end = xp.concat([begin, s_all], axis=-1), xp.concat([end, s_all + samples], axis=-1)
    weight = xp.zeros((b, heads, s), dtype=problem.accumulator, device=begin.device)
    log_weight = xp.astype(log_weight, problem.accumulator)
    if keys.weight is not None:
        weight = xp.astype(take_for_heads(keys.weight, pairing.keys), problem.accumulator)
        log_weight = log_weight + xp.astype(take_for_heads(keys.weight, index), problem.accumulator)
    # The keys of the block itself are seen whatever their code; samples are not where they are in the row's block.
    own = xp.full((b, heads, s), -1, dtype=place.dtype, device=begin.device)
    at = xp.arange(length, dtype=place.dtype, device=begin.device) // pairing.step
    met = xp.take(pairing.block, at, axis=2)
    index = xp.concat([pairing.keys, index], axis=-1)
    part = block_attention(
        take_for_heads(problem.query, pairing.rows),
        take_for_heads(keys.key, index),
        take_for_heads(keys.value, index),
        begin,
        end,
        scale=problem.scale,
        size=pairing.step,
        weight=xp.concat([weight, log_weight], axis=-1),
        met=(met[..., None], xp.concat([own, place // size], axis=-1)[..., None]),
    )
    return Partial(*(take_for_heads(array, pairing.row_places) for array in part))


def sample_places(xp: Any, uniform: Any, count: Any, weights: Any = None) -> tuple[Any, Any]:
    """Places among the first `count` (B, K), one for each uniform number (B, K, m), with log-weights -log(m p).

    The probabilities p are proportional to `weights` (B, K, S), positive at the first `count` places, or equal.
    """
    samples = uniform.shape[2]
    none = count == 0
    last = xp.where(none, xp.zeros_like(count), count - 1)[..., None]
    if weights is None:
        place = xp.astype(xp.floor(uniform * xp.astype(count, uniform.dtype)[..., None]), count.dtype)
        some = xp.astype(xp.where(none, xp.ones_like(count), count), uniform.dtype)
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


def squared_norms(xp: Any, value: Any) -> Any:
    """Squared norms of values (B, K, S, Ev) in float64, divided by one number a head, such that none overflows."""
    top = xp.max(xp.abs(value), axis=(2, 3), keepdims=True) if value.shape[3] else xp.ones_like(value[:, :, :1, :])
    unit = value / xp.where(top == 0, xp.ones_like(top), top)
    return xp.astype(xp.sum(unit * unit, axis=-1), xp.float64)
