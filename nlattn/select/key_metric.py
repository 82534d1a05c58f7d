"""Coordinates of keys in which their distances are differences of scores, and of values beside them."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.typing import Array, Namespace
from nlattn.kernels.over_matrices import over_matrices
from nlattn.problem.problem import Problem

__all__ = ["Coordinates", "coordinates", "query_moment"]

#: Principal directions in which distances of keys are measured. With 8, errors on the shipped samples of real heads
#: were up to 12 per cent larger; with 32 they were smaller on one of four.
KEY_DIRECTIONS = 16
#: Principal directions in which distances of queries are measured. With 2 one error on the shipped samples was three
#: times as large; 4 or 16 made some smaller and others larger.
QUERY_DIRECTIONS = 8
#: What a difference of values counts beside one of scores, as a ratio of root mean squares. On the shipped samples 0
#: and 0.25 made all errors larger, 2 most of them, and 1 changed none by more than 5 per cent.
VALUE_SHARE = 0.5
#: About so many rows form a second moment, which has few entries: all rows changed no error on the shipped samples by
#: more than 1 per cent.
MOMENT_ROWS = 2048


class Coordinates(NamedTuple):
    """Coordinates of keys with their values, and what takes queries to coordinates of their own.

    Attributes
    ----------
    points : array, shape (B, G, S, c)
        The keys times M^(1/2), M the second moment of the queries, in their leading principal directions, and beside
        them the values in theirs.
    queries : array, shape (B, G, E, r)
        The leading principal directions of N^(1/2) q, N the second moment of the keys: queries q with similar scores
        are near each other when they are multiplied by this.
    """

    points: Array
    queries: Array


def query_moment(problem: Problem) -> Array:
    """The second moment of the scaled queries of each group, (B, G, E, E)."""
    xp = problem.xp
    b, h, g, _, _ = problem.shape
    queries = xp.astype(_some(problem.query, h // g), xp.float64) * problem.scale
    rows, e = queries.shape[2:]
    queries = xp.reshape(queries, (b, g, h // g * rows, e))
    return xp.matrix_transpose(queries) @ queries / max(1, h // g * rows)


def coordinates(problem: Problem, used: Array, moment: Array) -> Coordinates:
    """Coordinates from the second moment of the queries (B, G, E, E) and the `used` (B, G, S) keys and values."""
    xp, dtype = problem.xp, problem.accumulator
    means, moments = [], [moment]
    mine = _some(used[..., None])
    count = xp.sum(xp.astype(mine, xp.float64), axis=2, keepdims=True)
    count = nonzero(count)
    for array in (problem.key, problem.value):
        some = xp.astype(_some(array), xp.float64)
        some = xp.where(mine, some, xp.zeros_like(some))
        mean = xp.sum(some, axis=2, keepdims=True) / count
        some = xp.where(mine, some - mean, xp.zeros_like(some))
        means.append(mean)
        moments.append(xp.matrix_transpose(some) @ some / count)
    key_side, value_side, query_side = over_matrices(*moments, function=_projections)
    # Means are subtracted after the projection: there are fewer directions than features.
    found = [
        xp.astype(array, dtype, copy=False) @ xp.astype(side, dtype) - xp.astype(mean @ side, dtype)
        for array, side, mean in zip((problem.key, problem.value), (key_side, value_side), means, strict=True)
    ]
    points = xp.concat(found, axis=-1)
    points = xp.where(used[..., None], points, xp.zeros_like(points))
    return Coordinates(points, xp.astype(query_side, dtype))


def _some(x: Array, heads: int = 1) -> Array:
    """Evenly spaced rows of x (B, X, n, c): about MOMENT_ROWS from each set of `heads` heads."""
    return x[:, :, :: max(1, x.shape[2] * heads // MOMENT_ROWS), :]


def _projections(queries: Array, keys: Array, values: Array) -> tuple[Array, Array, Array]:
    """Matrices that take keys, values and queries to their coordinates, from the second moments of all three."""
    xp = array_namespace(queries, keys, values)
    root, root_k = _root(xp, queries), _root(xp, keys)
    u, energy, w = xp.linalg.svd(root @ root_k)
    kept = min(KEY_DIRECTIONS, energy.shape[-1])
    key_side, query_side = root @ u[..., :kept], root_k @ xp.matrix_transpose(w)[..., : min(QUERY_DIRECTIONS, kept)]
    sizes, directions = xp.linalg.eigh(values) if values.shape[-1] else (xp.sum(values, axis=-1), values)
    seen, own = (xp.sqrt(xp.sum(xp.clip(x, 0, None), axis=-1)) for x in (energy * energy, sizes))
    balance = VALUE_SHARE * seen / nonzero(own)
    leading = max(0, sizes.shape[-1] - KEY_DIRECTIONS)
    return key_side, directions[..., leading:] * balance[..., None, None], query_side


def _root(xp: Namespace, moment: Array) -> Array:
    """The square root of a positive semi-definite matrix."""
    values, vectors = xp.linalg.eigh(moment)
    return (vectors * xp.sqrt(xp.clip(values, 0, None))[..., None, :]) @ xp.matrix_transpose(vectors)
