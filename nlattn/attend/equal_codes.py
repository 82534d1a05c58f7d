"""Attention over keys of equal hash code, each divided by the probability of that, so that its sums are unbiased."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.guards import exp_weights, finite_or_zero, log_mass, nonzero
from nlattn.arrays.rows import repeat_heads, take_for_heads, unit_rows
from nlattn.arrays.typing import Array
from nlattn.cluster import cross_polytope_collision_probability
from nlattn.problem.partials import Partial, concat_rows, merge_partials
from nlattn.problem.problem import Problem
from nlattn.select.block_pairs import code_bounds
from nlattn.select.usable_keys import Keys

__all__ = ["Hashed", "attend_to_equal_codes", "log_collision_probability"]

#: Scores at a time, over all heads, so that memory does not grow with the largest bucket: 8 MB in float32.
TILE_NUMBERS = 1 << 21
#: Degree of the polynomial in the angle that stands for the exponent of a probability: the logarithm of a probability
#: is then right to 4e-6 below a right angle.
DEGREE = 32


class Hashed(NamedTuple):
    """Queries and keys as they were hashed, and their codes in R rounds.

    Attributes
    ----------
    query, key : array, shapes (B, H, L, E) and (B, G, S, E)
    row_codes, key_codes : integer array, shapes (B, H, R, L) and (B, K, R, S)
        Codes of a product of cross-polytope hashes.
    factors : tuple of int
        The sizes of the hashes that make up the product.
    """

    query: Array
    key: Array
    row_codes: Array
    key_codes: Array
    factors: tuple[int, ...]


class _Rows(NamedTuple):
    """What belongs to the queries, each (B, H, L, ...) in the order of their codes."""

    code: Array
    query: Array
    unit: Array
    zero: Array
    start: Array
    stop: Array
    bar: Array | None


class _Keys(NamedTuple):
    """What belongs to the keys, each (B, K or G, S, ...) in the order of their codes."""

    code: Array
    key: Array
    value: Array
    unit: Array
    zero: Array
    position: Array
    weight: Array | None
    bar: Array | None


def attend_to_equal_codes(
    problem: Problem, keys: Keys, hashed: Hashed, rows_at_a_time: int, *, barred: tuple[Array, Array] | None = None
) -> Partial:
    """Attention with the weights c exp(score) / (R p) for pairs with equal codes in c of R rounds, of probability p.

    Numerator and denominator of the softmax of each row are unbiased estimates, from all rounds together.

    Parameters
    ----------
    problem : Problem
    keys : Keys
    hashed : Hashed
    rows_at_a_time : int
    barred : pair of integer arrays, shapes (B, H, L) and (B, K, S), optional
        Pairs for which these are equal do not meet.

    Returns
    -------
    Partial
    """
    xp, rounds = problem.xp, hashed.row_codes.shape[2]
    query_unit, query_zero = unit_rows(hashed.query)
    key_unit, key_zero = (repeat_heads(x, keys.heads) for x in unit_rows(hashed.key))
    bars = (None, None) if barred is None else barred
    shape = (*hashed.key_codes.shape[:2], hashed.key_codes.shape[3])
    positions = xp.arange(shape[2], dtype=problem.start.dtype, device=problem.start.device)
    positions = xp.broadcast_to(positions, shape)
    parts = []
    for r in range(rounds):
        ours, theirs = hashed.row_codes[:, :, r, :], hashed.key_codes[:, :, r, :]
        if keys.valid is not None:
            # Masked keys get a code behind all others, which not even masked queries have.
            theirs = xp.where(keys.valid, theirs, math.prod(2 * factor for factor in hashed.factors) + 1)
        order, key_order = (xp.argsort(codes, axis=-1, stable=True) for codes in (ours, theirs))
        row_parts = (ours, problem.query, query_unit, query_zero, problem.start, problem.stop, bars[0])
        sorted_rows = _Rows(*(_taken(x, order) for x in row_parts))
        key_parts = (theirs, keys.key, keys.value, key_unit, key_zero, positions, keys.weight, bars[1])
        sorted_keys = _Keys(*(_taken(x, key_order) for x in key_parts))
        part = _one_round(problem, sorted_rows, sorted_keys, hashed.factors, rounds, rows_at_a_time)
        inverse = xp.argsort(order, axis=-1)
        parts.append(Partial(*(take_for_heads(x, inverse) for x in part)))
    return merge_partials(*parts)


def _taken(array: Array | None, order: Array) -> Any:
    # Any: the fields of _Rows and _Keys are made from it, of which only some may be None.
    return None if array is None else take_for_heads(array, order)


def _cut(array: Array | None, first: int, last: int) -> Any:
    return None if array is None else array[:, :, first:last, ...]


def _one_round(
    problem: Problem, rows: _Rows, keys: _Keys, factors: Sequence[int], rounds: int, rows_at_a_time: int
) -> Partial:
    """The rows in the order of their codes, a few at a time with the keys that share a code with one of them."""
    xp = problem.xp
    b, h, length = rows.code.shape
    parts, i = [], 0
    while i < length:
        few = min(rows_at_a_time, length - i)
        ends = xp.stack([rows.code[:, :, i], rows.code[:, :, i + few - 1]], axis=-1)
        low, high = code_bounds(keys.code, ends)
        first, last = low[..., 0], high[..., 1]
        widest = max(1, int(xp.max(last - first)))
        few = min(few, max(1, TILE_NUMBERS // (b * h * widest)))
        place = first[..., None] + xp.arange(widest, dtype=first.dtype, device=first.device)
        some = _Rows(*(_cut(x, i, i + few) for x in rows))
        parts.append(_tile(problem, some, keys, place, last, factors, rounds))
        i += few
    return concat_rows(parts)


def _tile(
    problem: Problem, rows: _Rows, keys: _Keys, place: Array, last: Array, factors: Sequence[int], rounds: int
) -> Partial:
    """A few rows with the sorted keys at some places (B, H, n) below `last` (B, H)."""
    xp, dtype = problem.xp, problem.accumulator
    seen = (place < last[..., None])[..., None, :]
    place = xp.clip(place, None, keys.code.shape[2] - 1)
    near = _Keys(*(_taken(x, place) for x in keys))
    seen = seen & (rows.code[..., None] == near.code[..., None, :])
    position = near.position[..., None, :]
    seen = seen & (position >= rows.start[..., None]) & (position < rows.stop[..., None])
    if rows.bar is not None and near.bar is not None:
        seen = seen & (rows.bar[..., None] != near.bar[..., None, :])
    scores = (xp.astype(rows.query, dtype) * problem.scale) @ xp.matrix_transpose(xp.astype(near.key, dtype))
    if near.weight is not None:
        own = xp.astype(near.weight, scores.dtype)[..., None, :]
        seen = seen & (own != -xp.inf)
        scores = scores + finite_or_zero(own)
    log_p = log_collision_probability(rows.unit @ xp.matrix_transpose(near.unit), factors)
    # Two zero vectors always have equal codes. One alone agrees with another vector as if at a right angle.
    log_p = xp.where(rows.zero[..., None] & near.zero[..., None, :], xp.zeros_like(log_p), log_p)
    weights, shift = exp_weights(xp.where(seen, scores - log_p - math.log(rounds), -xp.inf))
    total = xp.sum(weights, axis=-1, keepdims=True)
    out = (weights @ xp.astype(near.value, weights.dtype)) / nonzero(total)
    return Partial(out, log_mass(shift, total)[..., 0])


def log_collision_probability(cosine: Array, factors: Sequence[int]) -> Array:
    """The logarithm of the probability that two vectors have equal codes, from the cosine of the angle between them.

    The codes are those of a product of cross-polytope hashes of sizes `factors`. The result is right to 1e-5 below a
    right angle, and to 5e-3 beyond as long as the probability for each factor is above 1e-9.
    """
    xp = array_namespace(cosine)
    limit = 1 - float(xp.finfo(cosine.dtype).eps)
    angle = xp.acos(xp.clip(cosine, -limit, limit))
    rest = xp.log(1 - angle / math.pi)
    return sum(_polynomial(_exponent(factor), angle) for factor in factors) * rest


@functools.cache
def _exponent(size: int) -> tuple[float, tuple[float, ...]]:
    """The Chebyshev coefficients on [0, end] of the exponent h in p = (1 - angle / pi)^h, and that end.

    As a function of the angle, h is smooth where log p is not. Behind `end` p is below 1e-9.
    """
    low, end = 0.0, math.pi
    for _ in range(20):
        middle = (low + end) / 2
        low, end = (middle, end) if cross_polytope_collision_probability(middle, size) > 1e-9 else (low, middle)

    def exponent(angle: Any) -> Any:
        return np.log(cross_polytope_collision_probability(angle, size)) / np.log1p(-angle / math.pi)

    series = np.polynomial.Chebyshev.interpolate(exponent, DEGREE, domain=[0.0, end])
    return end, tuple(float(c) for c in series.coef)


def _polynomial(series: tuple[float, Sequence[float]], angle: Array) -> Array:
    """A Chebyshev series by Clenshaw's sum. Behind the end of its interval it keeps the value at the end."""
    end, coefficients = series
    t = array_namespace(angle).clip(angle * (2 / end) - 1, -1.0, 1.0)
    one, two = 0 * t, 0 * t
    for c in reversed(coefficients[1:]):
        one, two = 2 * t * one - two + c, one
    return t * one - two + coefficients[0]
