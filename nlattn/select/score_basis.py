"""Few directions in which queries and keys have nearly their whole scores."""

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import stop_gradient
from nlattn.arrays.typing import Array, Namespace
from nlattn.kernels.over_matrices import over_matrices
from nlattn.problem.problem import Problem
from nlattn.select.usable_keys import mean_key, seen_keys

__all__ = ["common_basis", "key_basis", "score_basis"]

# (left, right), both (B, X, E, r) for X heads or groups, and the mean of the keys (B, G, 1, E): the scores of a query q
# are about q mean + (q left) (k - mean, times right).
ScoreBasis = tuple[Array, Array, Array]


def key_basis(problem: Problem, rank: int) -> ScoreBasis:
    """Principal directions of the keys of each group."""
    xp = problem.xp
    moment, mean = _key_moments(problem)
    vectors = xp.linalg.eigh(moment)[1][..., -rank:]
    vectors = xp.astype(vectors, problem.accumulator)
    return vectors, vectors, xp.astype(mean, problem.accumulator)


def score_basis(problem: Problem, rank: int) -> ScoreBasis:
    """The directions of the best approximation of the scores of all queries of a head, for keys less their mean.

    With the second moments M = q^T q and N of the keys, the singular vectors of M^(1/2) N^(1/2) belong to the largest
    singular values of all scores.
    """
    xp = problem.xp
    b, h, g, _, _ = problem.shape
    e = problem.query.shape[3]
    query = xp.astype(stop_gradient(problem.query), xp.float64)
    keys, mean = _key_moments(problem)
    keys = xp.reshape(xp.broadcast_to(keys[:, :, None, :, :], (b, g, h // g, e, e)), (b, h, e, e))
    queries = xp.matrix_transpose(query) @ query
    left, right, _ = over_matrices(queries, keys, function=lambda m, n: _balanced(xp, m, n, rank))
    return (*(xp.astype(x, problem.accumulator) for x in (left, right)), xp.astype(mean, problem.accumulator))


def common_basis(problem: Problem) -> ScoreBasis:
    """Coordinates of the queries and keys of a group that keep their scores and have equal, diagonal second moments."""
    xp = problem.xp
    b, h, g, length, _ = problem.shape
    e = problem.query.shape[3]
    query = xp.reshape(xp.astype(stop_gradient(problem.query), xp.float64), (b, g, h // g * length, e))
    keys, mean = _key_moments(problem)
    queries = xp.matrix_transpose(query) @ query
    left, right, values = over_matrices(queries, keys, function=lambda m, n: _balanced(xp, m, n, e))
    values = values / _positive(values[..., -1:])
    kept = values > 1e-12
    root = xp.sqrt(xp.sqrt(xp.where(kept, values, xp.ones_like(values))))
    root = xp.where(kept, root, xp.zeros_like(root))[..., None, :]
    left, right = left * root, right * xp.where(root > 0, 1 / nonzero(root), root)
    return (*(xp.astype(x, problem.accumulator) for x in (left, right)), xp.astype(mean, problem.accumulator))


def _positive(x: Array) -> Array:
    """Numbers that rounding may have put below 0, as divisors."""
    return nonzero(array_namespace(x).clip(x, 0, None))


def _balanced(xp: Namespace, queries: Array, keys: Array, rank: int) -> tuple[Array, Array, Array]:
    values, vectors = xp.linalg.eigh(queries)
    values = values / _positive(values[..., -1:])
    # Directions that no query has do not matter.
    kept = values > 1e-12
    size = xp.sqrt(xp.where(kept, values, xp.zeros_like(values)))
    inverse = xp.where(kept, 1 / xp.where(kept, size, xp.ones_like(size)), xp.zeros_like(size))
    root = vectors * size[..., None, :]
    inner = xp.matrix_transpose(root) @ keys @ root
    squares, turned = xp.linalg.eigh(inner)
    turned = turned[..., -rank:]
    return (vectors * inverse[..., None, :]) @ turned, root @ turned, squares[..., -rank:]


def _key_moments(problem: Problem) -> tuple[Array, Array]:
    """The second moment of the visible keys about their mean, up to a factor, and that mean, in float64."""
    xp = problem.xp
    key = xp.astype(stop_gradient(problem.key), xp.float64)
    seen = seen_keys(problem)
    mean = mean_key(key, seen)
    key = key - mean if seen is None else xp.where(seen[..., None], key - mean, xp.zeros_like(key))
    return xp.matrix_transpose(key) @ key, mean
