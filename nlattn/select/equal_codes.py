"""Attention over keys of equal hash code, each weighted by how rarely its code is equal: unbiased sums."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.rows import repeat_heads, take_for_heads, unit_rows
from nlattn.cluster._collisions import cross_polytope_collision_probability
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import code_bounds
from nlattn.select.usable_keys import Keys

__all__ = ["attend_in_true_buckets", "log_collision_probability"]

# Scores at a time.
SCORES = 1 << 21
# Degree of the interpolation in the angle.
DEGREE = 32


def attend_in_true_buckets(
    problem: Problem,
    keys: Keys,
    codes: tuple[Any, Any],
    hashed: tuple[Any, Any],
    factors: Sequence[int],
    rows_at_a_time: int,
    *,
    barred: tuple[Any, Any] | None = None,
) -> Partial:
    """Attention with the weights c exp(score) / (R p) for pairs with equal codes in c of R rounds, of probability p.

    codes (B, H, R, L) and (B, K, R, S) are cross-polytope codes with `factors` of what was hashed, (B, H, L, E) and
    (B, G, S, E). Numerator and denominator of the softmax are unbiased, each row's estimate being one over all rounds.
    """
    xp, rounds = problem.xp, codes[0].shape[2]
    h = problem.query.shape[1]
    query_units = unit_rows(hashed[0])
    key_units = [repeat_heads(x, keys.heads) for x in unit_rows(hashed[1])]
    parts = []
    for r in range(rounds):
        row_codes, key_codes = codes[0][:, :, r, :], codes[1][:, :, r, :]
        if keys.valid is not None:
            # Behind all others, and in no bucket, not even one of masked queries.
            key_codes = xp.where(keys.valid, key_codes, math.prod(2 * factor for factor in factors) + 1)
        rows, order = (xp.argsort(x, axis=-1, stable=True) for x in (row_codes, key_codes))
        row_codes, key_codes = take_for_heads(row_codes, rows), take_for_heads(key_codes, order)
        bars = None if barred is None else (take_for_heads(barred[0], rows), take_for_heads(barred[1], order))
        edges = [take_for_heads(x, rows) for x in (problem.start, problem.stop)]
        query, key, value = (
            take_for_heads(problem.query, rows),
            take_for_heads(keys.key, order),
            take_for_heads(keys.value, order),
        )
        units, unit_keys = (
            [take_for_heads(x, rows) for x in query_units],
            [take_for_heads(x, order) for x in key_units],
        )
        weight = None if keys.weight is None else take_for_heads(keys.weight, order)
        length, outs, lses, i = rows.shape[2], [], [], 0
        while i < length:
            n = min(rows_at_a_time, length - i)
            ours = row_codes[:, :, i : i + n]
            ends = xp.stack([ours[..., 0], ours[..., -1]], axis=-1)
            low, high = code_bounds(key_codes, ends)
            first, last = low[..., 0], high[..., 1]
            widest = max(1, int(xp.max(last - first)))
            step = max(1, min(n, SCORES // (rows.shape[0] * h * widest)))
            n = min(n, step)
            ours = ours[..., :n]
            place = first[..., None] + xp.arange(widest, dtype=first.dtype, device=first.device)
            seen = (place < last[..., None])[..., None, :]
            place = xp.clip(place, None, key_codes.shape[2] - 1)
            seen = seen & (ours[..., None] == take_for_heads(key_codes, place)[..., None, :])
            at = take_for_heads(order, place)[..., None, :]
            seen = seen & (at >= edges[0][:, :, i : i + n, None]) & (at < edges[1][:, :, i : i + n, None])
            if bars is not None:
                seen = seen & (bars[0][:, :, i : i + n, None] != take_for_heads(bars[1], place)[..., None, :])
            q, some = (
                xp.astype(x, problem.accumulator) for x in (query[:, :, i : i + n, :], take_for_heads(key, place))
            )
            scores = (q * problem.scale) @ xp.matrix_transpose(some)
            if weight is not None:
                own = xp.astype(take_for_heads(weight, place), scores.dtype)[..., None, :]
                seen = seen & (own != -xp.inf)
                scores = scores + xp.where(own == -xp.inf, xp.zeros_like(own), own)
            cosine = units[0][:, :, i : i + n, :] @ xp.matrix_transpose(take_for_heads(unit_keys[0], place))
            log_p = log_collision_probability(xp, cosine, factors)
            zeros = units[1][:, :, i : i + n, None], take_for_heads(unit_keys[1], place)[..., None, :]
            # A zero vector has code 0, as any other one has with the probability of a right angle; two always agree.
            log_p = xp.where(zeros[0] & zeros[1], xp.zeros_like(log_p), log_p)
            part = _softmax(
                xp, xp.where(seen, scores - log_p - math.log(rounds), -xp.inf), take_for_heads(value, place)
            )
            outs.append(part.out)
            lses.append(part.lse)
            i += n
        inverse = xp.argsort(rows, axis=-1)
        parts.append(Partial(*(take_for_heads(xp.concat(x, axis=2), inverse) for x in (outs, lses))))
    return merge_partials(*parts)


def _softmax(xp: Any, scores: Any, value: Any) -> Partial:
    top = xp.max(scores, axis=-1, keepdims=True)
    top = xp.where(top == -xp.inf, xp.zeros_like(top), top)
    weights = xp.exp(scores - top)
    total = xp.sum(weights, axis=-1, keepdims=True)
    empty = total == 0
    total = xp.where(empty, xp.ones_like(total), total)
    lse = xp.where(empty, -xp.inf, top + xp.log(total))[..., 0]
    return Partial((weights @ xp.astype(value, weights.dtype)) / total, lse)


def log_collision_probability(xp: Any, cosine: Any, factors: Sequence[int]) -> Any:
    """The logarithm of the probability of equal product cross-polytope codes, for cosines of angles.

    To 1e-5 below a right angle and 1e-3 beyond, where the probability of each factor is above 1e-9.
    """
    limit = 1 - float(xp.finfo(cosine.dtype).eps)
    angle = xp.acos(xp.clip(cosine, -limit, limit))
    rest = xp.log(1 - angle / math.pi)
    return sum(_polynomial(_exponent(factor), angle) for factor in factors) * rest


@functools.cache
def _exponent(size: int) -> tuple[float, tuple[float, ...]]:
    """Chebyshev coefficients on [0, end] of h in p = (1 - angle / pi)^h, which is smooth where log p is not."""
    low, end = 0.0, math.pi
    for _ in range(20):
        middle = (low + end) / 2
        low, end = (middle, end) if cross_polytope_collision_probability(middle, size) > 1e-9 else (low, middle)

    def exponent(angle: Any) -> Any:
        return np.log(cross_polytope_collision_probability(angle, size)) / np.log1p(-angle / math.pi)

    series = np.polynomial.Chebyshev.interpolate(exponent, DEGREE, domain=[0.0, end])
    return end, tuple(float(c) for c in series.coef)


def _polynomial(series: tuple[float, Sequence[float]], angle: Any) -> Any:
    """Clenshaw's sum; behind the end of the interval the value there."""
    end, coefficients = series
    t = array_namespace(angle).clip(angle * (2 / end) - 1, -1.0, 1.0)
    one, two = 0 * t, 0 * t
    for c in reversed(coefficients[1:]):
        one, two = 2 * t * one - two + c, one
    return t * one - two + coefficients[0]
