"""A few directions that hold nearly all of the scores of queries and keys."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import stop_gradient
from nlattn.arrays.typing import Array, Namespace
from nlattn.kernels.over_matrices import over_matrices
from nlattn.problem.problem import Problem
from nlattn.select.usable_keys import mean_key, seen_keys

__all__ = ["ScoreBasis", "common_basis", "key_basis", "score_basis"]

#: Squared lengths below this part of the largest are rounding errors of the moments, in float64.
NEGLIGIBLE = 1e-12


class ScoreBasis(NamedTuple):
    """Coordinates of queries and keys whose inner products are nearly the scores.

    The score of a query q and a key k is about q.mean + (q @ query_side).((k - mean) @ key_side).

    Attributes
    ----------
    query_side, key_side : array, shape (B, X, E, r)
        For X heads or groups.
    mean : array, shape (B, G, 1, E)
        The mean of the keys.
    """

    query_side: Array
    key_side: Array
    mean: Array


def key_basis(problem: Problem, rank: int) -> ScoreBasis:
    """The `rank` principal directions of the keys of each group, for queries and keys alike."""
    xp = problem.xp
    moment, mean = _key_moments(problem)
    vectors = xp.linalg.eigh(moment)[1][..., -rank:]
    vectors = xp.astype(vectors, problem.accumulator)
    return ScoreBasis(vectors, vectors, xp.astype(mean, problem.accumulator))


def score_basis(problem: Problem, rank: int) -> ScoreBasis:
    """The `rank` directions that approximate the scores of all queries of a head with the keys less their mean best.

    With the second moments M of the queries and N of the keys, the singular values of the matrix of all scores are
    those of M^(1/2) N^(1/2), and its largest ones belong to the directions that are sought.
    """
    xp = problem.xp
    b, h, g, _, _ = problem.shape
    e = problem.query.shape[3]
    query = xp.astype(stop_gradient(problem.query), xp.float64)
    keys, mean = _key_moments(problem)
    keys = xp.reshape(xp.broadcast_to(keys[:, :, None, :, :], (b, g, h // g, e, e)), (b, h, e, e))
    queries = xp.matrix_transpose(query) @ query
    left, right, _ = over_matrices(queries, keys, function=lambda m, n: _balanced(xp, m, n, rank))
    return ScoreBasis(*(xp.astype(x, problem.accumulator) for x in (left, right, mean)))


def common_basis(problem: Problem) -> ScoreBasis:
    """Coordinates of the queries and keys of a group that keep all scores, and in which both have one second moment.

    That moment is diagonal.
    """
    xp = problem.xp
    b, h, g, length, _ = problem.shape
    e = problem.query.shape[3]
    query = xp.reshape(xp.astype(stop_gradient(problem.query), xp.float64), (b, g, h // g * length, e))
    keys, mean = _key_moments(problem)
    queries = xp.matrix_transpose(query) @ query
    left, right, values = over_matrices(queries, keys, function=lambda m, n: _balanced(xp, m, n, e))
    values = values / _positive(values[..., -1:])
    kept = values > NEGLIGIBLE
    root = xp.sqrt(xp.sqrt(xp.where(kept, values, xp.ones_like(values))))
    root = xp.where(kept, root, xp.zeros_like(root))[..., None, :]
    left, right = left * root, right * xp.where(root > 0, 1 / nonzero(root), root)
    return ScoreBasis(*(xp.astype(x, problem.accumulator) for x in (left, right, mean)))


def _positive(x: Array) -> Array:
    """Divisors from sizes x that rounding may have put below 0."""
    return nonzero(array_namespace(x).clip(x, 0, None))


def _balanced(xp: Namespace, queries: Array, keys: Array, rank: int) -> tuple[Array, Array, Array]:
    """The best `rank` directions of queries and of keys, from their second moments, and the squared singular values."""
    values, vectors = xp.linalg.eigh(queries)
    values = values / _positive(values[..., -1:])
    # Directions in which no query has a component do not matter.
    kept = values > NEGLIGIBLE
    size = xp.sqrt(xp.where(kept, values, xp.zeros_like(values)))
    inverse = xp.where(kept, 1 / xp.where(kept, size, xp.ones_like(size)), xp.zeros_like(size))
    root = vectors * size[..., None, :]
    inner = xp.matrix_transpose(root) @ keys @ root
    squares, turned = xp.linalg.eigh(inner)
    turned = turned[..., -rank:]
    return (vectors * inverse[..., None, :]) @ turned, root @ turned, squares[..., -rank:]


def _key_moments(problem: Problem) -> tuple[Array, Array]:
    """The second moment of the visible keys about their mean, up to a factor, and that mean, both in float64."""
    xp = problem.xp
    key = xp.astype(stop_gradient(problem.key), xp.float64)
    seen = seen_keys(problem)
    mean = mean_key(key, seen)
    key = key - mean if seen is None else xp.where(seen[..., None], key - mean, xp.zeros_like(key))
    return xp.matrix_transpose(key) @ key, mean
