"""Coordinates of keys in which their distances are differences of scores, and of values beside them."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.typing import Array, Namespace
from nlattn.kernels.over_matrices import over_matrices
from nlattn.problem.problem import Problem

__all__ = ["Coordinates", "coordinates", "query_moment"]

#: Principal directions in which distances of keys, and of queries, are measured: they hold most energy of the scores.
KEPT, SIMILAR = 16, 8
#: What a difference of values counts beside one of scores.
VALUES = 0.5
#: Rows from which a second moment is formed at most: it has few entries, which more rows hardly change.
ROWS = 2048


class Coordinates(NamedTuple):
    """Coordinates of keys with their values, and what takes queries to coordinates of their own.

    Attributes
    ----------
    points : array, shape (B, G, S, c)
        Leading principal directions of k M^(1/2), with the second moment M of the queries, and of the values.
    queries : array, shape (B, G, E, r)
        Leading principal directions of N^(1/2) q, with the second moment N of the keys: q times this is where queries
        with similar scores are near.
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
    """Coordinates from the moment of the queries (B, G, E, E), and keys and values as far as `used` (B, G, S)."""
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
    # Shifted after the projection, which is smaller.
    found = [
        xp.astype(array, dtype, copy=False) @ xp.astype(side, dtype) - xp.astype(mean @ side, dtype)
        for array, side, mean in zip((problem.key, problem.value), (key_side, value_side), means, strict=True)
    ]
    points = xp.concat(found, axis=-1)
    points = xp.where(used[..., None], points, xp.zeros_like(points))
    return Coordinates(points, xp.astype(query_side, dtype))


def _some(x: Array, heads: int = 1) -> Array:
    """Evenly spaced rows."""
    return x[:, :, :: max(1, x.shape[2] * heads // ROWS), :]


def _projections(queries: Array, keys: Array, values: Array) -> tuple[Array, Array, Array]:
    """What takes keys, values and queries to their coordinates, from their second moments."""
    xp = array_namespace(queries, keys, values)
    root, root_k = _root(xp, queries), _root(xp, keys)
    u, energy, w = xp.linalg.svd(root @ root_k)
    kept = min(KEPT, energy.shape[-1])
    key_side, query_side = root @ u[..., :kept], root_k @ xp.matrix_transpose(w)[..., : min(SIMILAR, kept)]
    sizes, directions = xp.linalg.eigh(values) if values.shape[-1] else (xp.sum(values, axis=-1), values)
    seen, own = (xp.sqrt(xp.sum(xp.clip(x, 0, None), axis=-1)) for x in (energy * energy, sizes))
    balance = VALUES * seen / nonzero(own)
    leading = max(0, sizes.shape[-1] - KEPT)
    return key_side, directions[..., leading:] * balance[..., None, None], query_side


def _root(xp: Namespace, moment: Array) -> Array:
    """The square root of a positive semi-definite matrix."""
    values, vectors = xp.linalg.eigh(moment)
    return (vectors * xp.sqrt(xp.clip(values, 0, None))[..., None, :]) @ xp.matrix_transpose(vectors)
