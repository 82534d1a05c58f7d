"""Landmarks: few queries and keys that stand for all.

Each selection takes a problem and a number m and returns query landmarks (B, H, m, E), which of them are in use
(B, H, m), key landmarks (B, G, m, E), and which of those are in use. Fewer than m visible tokens leave some unused.
"""

import numpy as np

from nlattn.arrays.precision import accumulator
from nlattn.arrays.random import children
from nlattn.arrays.typing import Array, Namespace
from nlattn.cluster import kmeans
from nlattn.problem.problem import Problem
from nlattn.select.draw_per_head import draw_per_head

__all__ = ["kmeans_landmarks", "random_landmarks", "segment_landmarks"]

Landmarks = tuple[Array, Array, Array, Array]


def segment_landmarks(problem: Problem, m: int, rng: np.random.Generator) -> Landmarks:
    """Means of contiguous segments of nearly equal length, the shorter ones first; masked tokens are not counted."""
    key_seen, query_seen = _seen(problem)
    q, q_used = _segment_means(problem.xp, problem.query, m, query_seen)
    k, k_used = _segment_means(problem.xp, problem.key, m, key_seen)
    return q, q_used, k, k_used


def random_landmarks(problem: Problem, m: int, rng: np.random.Generator) -> Landmarks:
    """Distinct tokens, drawn uniformly; query landmarks for each head, key landmarks for each group."""
    b, h, g, length, s = problem.shape
    generators = children(rng, b * g)
    # One stream a group: first its keys, then its query heads.
    key_draws = draw_per_head(problem, generators, np.random.Generator.random, (s,))
    query_draws = draw_per_head(problem, generators, np.random.Generator.random, (h // g, length))
    query_draws = problem.xp.reshape(query_draws, (b, h, length))
    key_seen, query_seen = _seen(problem)
    q, q_used = _sample(problem.xp, problem.query, m, query_draws, query_seen)
    k, k_used = _sample(problem.xp, problem.key, m, key_draws, key_seen)
    return q, q_used, k, k_used


def kmeans_landmarks(problem: Problem, m: int, rng: np.random.Generator) -> Landmarks:
    """k-means centres of the queries of a head and of the keys of a group, from a random start."""
    xp = problem.xp
    q, q_used, k, k_used = random_landmarks(problem, m, rng)
    key_seen, query_seen = _seen(problem)
    centres = []
    for tokens, start, seen in ((problem.query, q, query_seen), (problem.key, k, key_seen)):
        points = xp.astype(tokens, problem.accumulator, copy=False)
        weights = None if seen is None else xp.astype(xp.broadcast_to(seen, points.shape[:3]), points.dtype)
        centres.append(kmeans(points, start, weights, empty="keep", iterations=5, check_finite=False).centres)
    return centres[0], q_used, centres[1], k_used


def _seen(problem: Problem) -> tuple[Array | None, Array | None]:
    """Which keys may be seen (B, G, S), and the same of the queries (B, H, L) where they are the same tokens."""
    xp = problem.xp
    b, h, g, length, s = problem.shape
    seen = problem.key_mask()
    if seen is None:
        return None, None
    full = xp.broadcast_to(seen, (b, h, s))
    grouped = xp.any(xp.reshape(full, (b, g, h // g, s)), axis=2)
    return grouped, full if length == s else None


def _segment_means(xp: Namespace, x: Array, m: int, seen: Array | None) -> tuple[Array, Array]:
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
    # Segments of visible tokens: their ends among all tokens, and differences of running sums.
    counts = xp.sum(xp.astype(seen, xp.int64), axis=-1, keepdims=True)
    short = counts // m
    first = (short + 1) * m - counts
    number = xp.arange(m + 1, dtype=xp.int64, device=x.device)
    ends = xp.minimum(number, first) * short + xp.clip(number - first, 0, None) * (short + 1)
    order = xp.argsort(xp.astype(~seen, xp.int8), axis=-1, stable=True)
    tokens = xp.take_along_axis(xp.where(seen[..., None], x, xp.zeros_like(x)), order[..., None], axis=2)
    sums = xp.cumulative_sum(xp.astype(tokens, xp.float64), axis=2, include_initial=True)
    sums = xp.take_along_axis(sums, xp.broadcast_to(ends, (b, h, m + 1))[..., None], axis=2)
    size = xp.broadcast_to(ends[..., 1:] - ends[..., :-1], (b, h, m))
    means = (sums[:, :, 1:, :] - sums[:, :, :-1, :]) / xp.astype(xp.clip(size, 1, None), xp.float64)[..., None]
    return xp.astype(means, dtype), size > 0


def _sample(xp: Namespace, x: Array, m: int, draws: Array, seen: Array | None) -> tuple[Array, Array]:
    b, h, n, _ = x.shape
    order = draws
    if seen is not None:
        order = xp.where(seen, order, xp.full_like(order, 2.0))
    index = xp.sort(xp.argsort(order, axis=-1)[..., :m], axis=-1)
    used = xp.take_along_axis(xp.broadcast_to(order < 2, (b, h, n)), index, axis=-1)
    dtype = accumulator(xp, x.dtype)
    return xp.astype(xp.take_along_axis(x, index[..., None], axis=2), dtype, copy=False), used
