"""Landmarks: few queries and keys that stand for all.

Each selection takes a problem, the number m of landmarks, and a generator. Fewer than m visible tokens leave some
landmarks unused.
"""

from typing import NamedTuple

import numpy as np

from nlattn.arrays.precision import accumulator
from nlattn.arrays.random import children
from nlattn.arrays.typing import Array, Namespace
from nlattn.cluster import kmeans
from nlattn.problem.problem import Problem
from nlattn.select.draw_per_head import draw_per_head

__all__ = ["Landmarks", "kmeans_landmarks", "random_landmarks", "segment_landmarks"]

#: Lloyd steps of k-means. On the shipped samples more of them made some errors smaller and others larger.
LLOYD_STEPS = 5


class Landmarks(NamedTuple):
    """Landmarks of the queries (B, H, m, E) and of the keys (B, G, m, E), and which of them are in use (B, H|G, m)."""

    query: Array
    query_used: Array
    key: Array
    key_used: Array


def segment_landmarks(problem: Problem, m: int, rng: np.random.Generator) -> Landmarks:
    """Means of segments of consecutive tokens of nearly equal length, the shorter ones first, without masked tokens."""
    key_seen, query_seen = _seen(problem)
    q, q_used = _segment_means(problem.xp, problem.query, m, query_seen)
    k, k_used = _segment_means(problem.xp, problem.key, m, key_seen)
    return Landmarks(q, q_used, k, k_used)


def random_landmarks(problem: Problem, m: int, rng: np.random.Generator) -> Landmarks:
    """Distinct tokens that are drawn uniformly: query landmarks for each head, key landmarks for each group."""
    b, h, g, length, s = problem.shape
    generators = children(rng, b * g)
    # A group has one stream of random numbers, first for its keys and then for its query heads.
    key_draws = draw_per_head(problem, generators, np.random.Generator.random, (s,))
    query_draws = draw_per_head(problem, generators, np.random.Generator.random, (h // g, length))
    query_draws = problem.xp.reshape(query_draws, (b, h, length))
    key_seen, query_seen = _seen(problem)
    q, q_used = _sample(problem.xp, problem.query, m, query_draws, query_seen)
    k, k_used = _sample(problem.xp, problem.key, m, key_draws, key_seen)
    return Landmarks(q, q_used, k, k_used)


def kmeans_landmarks(problem: Problem, m: int, rng: np.random.Generator) -> Landmarks:
    """The k-means centres of the queries of each head and of the keys of each group, from a random start."""
    xp = problem.xp
    drawn = random_landmarks(problem, m, rng)
    key_seen, query_seen = _seen(problem)
    centres = []
    for tokens, start, seen in ((problem.query, drawn.query, query_seen), (problem.key, drawn.key, key_seen)):
        points = xp.astype(tokens, problem.accumulator, copy=False)
        weights = None if seen is None else xp.astype(xp.broadcast_to(seen, points.shape[:3]), points.dtype)
        centres.append(kmeans(points, start, weights, empty="keep", iterations=LLOYD_STEPS, check_finite=False).centres)
    return drawn._replace(query=centres[0], key=centres[1])


def _seen(problem: Problem) -> tuple[Array | None, Array | None]:
    """Which keys may be seen (B, G, S), or None for all, and which queries (B, H, L) where they are the same tokens.

    Queries and keys are taken for the same tokens where there are as many of both.
    """
    xp = problem.xp
    b, h, g, length, s = problem.shape
    seen = problem.key_mask()
    if seen is None:
        return None, None
    full = xp.broadcast_to(seen, (b, h, s))
    grouped = xp.any(xp.reshape(full, (b, g, h // g, s)), axis=2)
    return grouped, full if length == s else None


def _segment_means(xp: Namespace, x: Array, m: int, seen: Array | None) -> tuple[Array, Array]:
    """The means of m segments of the tokens x that are seen, and which of the segments are not empty."""
    b, h, n, e = x.shape
    dtype = accumulator(xp, x.dtype)
    if seen is None:
        short = n // m
        first = (short + 1) * m - n
        parts = []
        for tokens, count, size in (
            (x[:, :, : first * short, :], first, short),
            (x[:, :, first * short :, :], m - first, short + 1),
        ):
            if count:
                blocks = xp.reshape(tokens, (b, h, count, size, e))
                parts.append(xp.mean(xp.astype(blocks, dtype, copy=False), axis=3))
        means = parts[0] if len(parts) == 1 else xp.concat(parts, axis=2)
        return means, xp.ones((b, h, m), dtype=xp.bool, device=x.device)
    # Visible tokens are moved to the front. The sum of a segment is a difference of running sums at its ends.
    counts = xp.sum(xp.astype(seen, xp.int64), axis=-1, keepdims=True)
    short = counts // m
    first = (short + 1) * m - counts
    before = xp.arange(m + 1, dtype=xp.int64, device=x.device)
    ends = xp.minimum(before, first) * short + xp.clip(before - first, 0, None) * (short + 1)
    order = xp.argsort(xp.astype(xp.logical_not(seen), xp.int8), axis=-1, stable=True)
    tokens = xp.take_along_axis(xp.where(seen[..., None], x, xp.zeros_like(x)), order[..., None], axis=2)
    sums = xp.cumulative_sum(xp.astype(tokens, xp.float64), axis=2, include_initial=True)
    sums = xp.take_along_axis(sums, xp.broadcast_to(ends, (b, h, m + 1))[..., None], axis=2)
    size = xp.broadcast_to(ends[..., 1:] - ends[..., :-1], (b, h, m))
    means = (sums[:, :, 1:, :] - sums[:, :, :-1, :]) / xp.astype(xp.clip(size, 1, None), xp.float64)[..., None]
    return xp.astype(means, dtype), size > 0


def _sample(xp: Namespace, x: Array, m: int, draws: Array, seen: Array | None) -> tuple[Array, Array]:
    """The m tokens x with the smallest of their random numbers in [0, 1), and which of them are seen."""
    b, h, n, _ = x.shape
    order = draws
    if seen is not None:
        order = xp.where(seen, order, xp.full_like(order, 2.0))
    index = xp.sort(xp.argsort(order, axis=-1)[..., :m], axis=-1)
    used = xp.take_along_axis(xp.broadcast_to(order < 2, (b, h, n)), index, axis=-1)
    dtype = accumulator(xp, x.dtype)
    return xp.astype(xp.take_along_axis(x, index[..., None], axis=2), dtype, copy=False), used
