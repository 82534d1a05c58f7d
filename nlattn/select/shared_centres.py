"""Shared centres of queries and keys, and the tokens that each centre takes."""

import math
from typing import Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.host import stop_gradient
from nlattn.arrays.random import children
from nlattn.arrays.rows import take_for_heads, unit_rows
from nlattn.arrays.typing import Array
from nlattn.cluster import kmeans
from nlattn.kernels.choose_largest import choose_largest
from nlattn.kernels.nearest_centre import nearest_centre
from nlattn.problem.problem import Problem
from nlattn.select.draw_per_head import draw_per_head
from nlattn.select.score_basis import common_basis
from nlattn.select.usable_keys import mean_key

__all__ = ["Directions", "Memberships", "directions", "memberships", "nearest", "shared_centres", "taken_by_centres"]

#: Tokens for each centre in the sample from which k-means finds them. With two or four times as many, no error on the
#: shipped samples of real heads changed by more than 8 per cent.
TOKENS_PER_CENTRE = 32
#: Lloyd steps of that k-means. Twenty of them changed no error on the shipped samples by more than 0.2 per cent.
LLOYD_STEPS = 10
#: Products of tokens and centres at a time, over all heads, so that memory is linear in the length: 4 MB in float32.
TILE_NUMBERS = 1 << 20


class Directions(NamedTuple):
    """Unit vectors in the directions of queries and keys.

    Attributes
    ----------
    query : array, shape (B, H, L, E)
    key : array, shape (B, G, S, E)
        0 where no row sees a key.
    seen : boolean array, shape (B, G, S), or None
        Which keys some row sees; None for all.
    """

    query: Array
    key: Array
    seen: Array | None


def directions(problem: Problem, seen: Array | None, kind: Literal["given", "mean", "common"]) -> Directions:
    """The directions of queries and visible keys: as given, less the mean of both, or in a basis common to both."""
    xp = problem.xp
    b, h, g, length, _ = problem.shape
    query = xp.astype(stop_gradient(problem.query), problem.accumulator, copy=False)
    key = xp.astype(stop_gradient(problem.key), problem.accumulator, copy=False)
    tall = xp.reshape(query, (b, g, h // g * length, query.shape[3]))
    if kind == "common":
        basis = common_basis(problem)
        tall, key = tall @ basis.query_side, (key - basis.mean) @ basis.key_side
    elif kind == "mean":
        tall = tall - xp.mean(tall, axis=2, keepdims=True)
        key = key - mean_key(key, seen)
    tall, key = unit_rows(tall)[0], unit_rows(key)[0]
    if seen is not None:
        key = xp.where(seen[..., None], key, xp.zeros_like(key))
    return Directions(xp.reshape(tall, (b, h, length, query.shape[3])), key, seen)


def shared_centres(problem: Problem, found: Directions, clusters: int, rng: np.random.Generator) -> Array:
    """The centres (B, G, clusters, E) of a spherical k-means of a sample of the queries and keys of each group."""
    xp = problem.xp
    b, g, s, e = found.key.shape
    h, length = found.query.shape[1:3]
    count = h // g * length + s
    size = min(count, TOKENS_PER_CENTRE * clusters)
    order = draw_per_head(problem, children(rng, b * g), np.random.Generator.random, (count,))
    weights = None
    if found.seen is not None:
        ones = xp.ones((b, g, count - s), dtype=xp.bool, device=order.device)
        known = xp.concat([ones, found.seen], axis=-1)
        order = xp.where(known, order, xp.full_like(order, 2.0))
    index = xp.argsort(order, axis=-1, stable=True)[..., :size]
    tokens = xp.concat([xp.reshape(found.query, (b, g, count - s, e)), found.key], axis=2)
    if found.seen is not None:
        weights = xp.astype(xp.take_along_axis(known, index, axis=-1), tokens.dtype)
    tokens = take_for_heads(tokens, index)
    start = tokens[..., : min(clusters, size), :]
    return kmeans(
        tokens, start, weights, kind="spherical", empty="keep", iterations=LLOYD_STEPS, check_finite=False
    ).centres


def taken_by_centres(centres: Array, tokens: Array, m: int, seen: Array | None = None) -> tuple[Array, Array]:
    """The m tokens (B, H, n, E) nearest to each centre (B, G, C, E), as (B, H, C, m), and which of them are seen.

    They stand in the order of the tokens. Where fewer than m are seen, others fill the list.
    """
    xp = array_namespace(centres)
    b, h, n, e = tokens.shape
    g, c = centres.shape[1:3]
    step = max(1, TILE_NUMBERS // (b * h * n))
    parts, there = [], []
    for i in range(0, c, step):
        few = centres[:, :, None, i : min(i + step, c), :]
        near = few @ xp.matrix_transpose(xp.reshape(tokens, (b, g, h // g, n, e)))
        near = xp.reshape(near, (b, h, near.shape[3], n))
        if seen is not None:
            near = xp.where(seen[:, :, None, :], near, -xp.inf)
        values, index = choose_largest(near, m)
        parts.append(index)
        there.append(values != -xp.inf)
    return xp.concat(parts, axis=2), xp.concat(there, axis=2)


def nearest(centres: Array, tokens: Array) -> Array:
    """The number of the nearest centre of each token, (B, H, n)."""
    xp = array_namespace(centres)
    b, h, n, e = tokens.shape
    g = centres.shape[1]
    tall = xp.reshape(tokens, (b, g, h // g * n, e))
    labels = nearest_centre(tall, centres, xp.zeros_like(centres[..., 0]))[0]
    return xp.reshape(labels, (b, h, n))


class Memberships(NamedTuple):
    """Which clusters took each token, from the lists (B, H, C, m) of what each cluster took, behind each other.

    Attributes
    ----------
    order : integer array, shape (B, H, C m)
        The places in the lists, sorted by the token that stands there, and those of one token by cluster.
    first, counts : integer array, shape (B, H, n)
        Where the places of each token begin in `order`, and how many there are.
    most : int
        The largest count.
    """

    order: Array
    first: Array
    counts: Array
    most: int

    def clusters(self, m: int) -> Array:
        """The clusters of each token (B, H, n, most), ascending, filled up with -1."""
        xp = array_namespace(self.order)
        place = xp.arange(self.most, dtype=self.order.dtype, device=self.order.device)
        at = xp.clip(self.first[..., None] + place, None, self.order.shape[-1] - 1)
        flat = xp.take_along_axis(self.order, xp.reshape(at, (*at.shape[:2], -1)), axis=-1)
        found = xp.reshape(flat // m, at.shape)
        found = xp.where(place < self.counts[..., None], found, xp.full_like(found, -1))
        return xp.astype(found, xp.int32)


def memberships(index: Array, n: int, there: Array | None = None) -> Memberships:
    """Which of the lists `index` (B, H, C, m) hold each of n tokens; entries that are not `there` do not count."""
    xp = array_namespace(index)
    b, h, c, m = index.shape
    index = index if there is None else xp.where(there, index, xp.full_like(index, n))
    flat = xp.reshape(index, (b, h, c * m))
    order = xp.argsort(flat, axis=-1, stable=True)
    token = xp.take_along_axis(flat, order, axis=-1)
    # One sort of all heads at once finds where each token begins.
    head = xp.reshape(xp.arange(b * h, dtype=token.dtype, device=token.device), (b, h, 1)) * (n + 1)
    edges = head + xp.arange(n + 1, dtype=token.dtype, device=token.device)
    found = xp.searchsorted(xp.reshape(token + head, (-1,)), xp.reshape(edges, (-1,)))
    found = xp.reshape(xp.astype(found, order.dtype), (b, h, n + 1)) - head // (n + 1) * (c * m)
    count = found[..., 1:] - found[..., :-1]
    return Memberships(order, found[..., :-1], count, int(xp.max(count)) if math.prod(count.shape) else 0)
