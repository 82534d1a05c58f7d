"""Errors of partial Cholesky factorisations with pivoting."""

import math
from typing import Any

import numpy as np

from nlattn.arrays.arguments import check_integer, check_number
from nlattn.bounds.data import descending, psd
from nlattn.bounds.registry import bound, experiment
from nlattn.linalg import pivoted_cholesky

__all__ = [
    "pivoted_cholesky_entries",
    "pivoted_cholesky_spectral",
    "random_pivot_count",
    "random_pivot_step",
    "random_pivoted_cholesky",
]

SPECTRUM = 1 / np.arange(1.0, 41) ** 2
RANDOM = "each pivot is drawn with probability proportional to the diagonal of what is left"


@bound(
    "moment",
    "E [A' | A] = A - A^2 / tr A, A' what one random pivot leaves of A",
    hypotheses=("A is symmetric positive semidefinite, not zero", RANDOM),
    source="arXiv 2207.06503",
    band=(0.95, 1.05),
    trials=4000,
)
def random_pivot_step(a: Any) -> Any:
    """What one random pivot leaves of a semidefinite matrix, in the mean.

    Parameters
    ----------
    a : array, shape (n, n)

    Returns
    -------
    array, shape (n, n)

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.random_pivot_step(np.diag([3.0, 1.0]))
    array([[0.75, 0.  ],
           [0.  , 0.75]])
    """
    return a - a @ a / np.trace(a)


@experiment(random_pivot_step)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    # One matrix and one vector in all trials: in the mean over random ones, only the trace would count.
    fixed = np.random.default_rng(0)
    a, x = psd(SPECTRUM[:8], fixed), fixed.standard_normal(8)
    factor = pivoted_cholesky(a, 1, rng=rng).factor
    left, mean = a - factor @ factor.T, random_pivot_step(a)
    return np.trace(left) + x @ left @ x, np.trace(mean) + x @ mean @ x


@bound(
    "mean",
    "E tr (A - F F^T) <= sum_j l_j^(k), l_j^(i+1) = l_j^(i) - (l_j^(i))^2 / sum_j l_j^(i) from the eigenvalues of A",
    hypotheses=("A is symmetric positive semidefinite", RANDOM, "F has k columns"),
    source="arXiv 2207.06503",
    band=(0.5, 1.0),
    trials=150,
)
def random_pivoted_cholesky(eigenvalues: Any, pivots: int) -> float:
    """Expected trace of what randomly pivoted Cholesky leaves.

    Parameters
    ----------
    eigenvalues : array, shape (n,)
    pivots : int
        k.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.random_pivoted_cholesky(np.asarray([3.0, 1.0]), 1)
    1.5
    """
    values = np.asarray(eigenvalues, np.float64)
    for _ in range(pivots):
        total = np.sum(values)
        values = values - values**2 / (total if total > 0 else 1.0)
    return float(np.sum(values))


@experiment(random_pivoted_cholesky)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    a = psd(SPECTRUM, rng)
    return pivoted_cholesky(a, 10, rng=rng).error * np.sum(SPECTRUM), random_pivoted_cholesky(SPECTRUM, 10)


@bound(
    "mean",
    "E tr (A - F F^T) <= (1 + eps) sum_{j>r} l_j, k >= r/eps + r log(1/(eps eta)) pivots, eta = sum_{j>r} l_j / tr A",
    hypotheses=("A is symmetric positive semidefinite with eigenvalues l_1 >= l_2 >= ...", RANDOM, "r >= 1, eps > 0"),
    source="arXiv 2207.06503, the first of two conditions",
    band=(0.2, 1.0),
    trials=150,
)
def random_pivot_count(eigenvalues: Any, rank: int, epsilon: float) -> int:
    """How many random pivots come within a factor of the best approximation of a given rank, in the mean.

    Parameters
    ----------
    eigenvalues : array, shape (n,)
        Descending, the trace beyond `rank` not 0.
    rank : int
        r.
    epsilon : float

    Returns
    -------
    int
        k, at least `rank`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.random_pivot_count(1 / np.arange(1.0, 1001) ** 2, 5, 1.0)
    17
    """
    check_integer("rank", rank)
    check_number("epsilon", epsilon, above=0)
    values = descending("eigenvalues", eigenvalues)
    rest = float(np.sum(values[rank:]))
    if rest <= 0:
        raise ValueError(
            f"eigenvalues must have a sum > 0 beyond rank = {rank}, got {rest:g}; {rank} pivots leave nothing"
        )
    eta = rest / float(np.sum(values))
    return max(rank, math.ceil(rank / epsilon + rank * math.log(1 / (epsilon * eta))))


@experiment(random_pivot_count)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    a = psd(SPECTRUM, rng)
    pivots = random_pivot_count(SPECTRUM, 3, 1.0)
    return pivoted_cholesky(a, pivots, rng=rng).error * np.sum(SPECTRUM), 2 * np.sum(SPECTRUM[3:])


@bound(
    "always",
    "||A - F F^T||_2 <= sum_i d_i, d the diagonal of A - F F^T",
    hypotheses=("A is symmetric positive semidefinite", "F is a partial Cholesky factor, whatever the pivots"),
    source="The trace of a semidefinite matrix bounds its norm",
    band=(0.02, 1.0),
)
def pivoted_cholesky_spectral(residual: Any) -> float:
    """Spectral, Frobenius and nuclear norm of what a partial Cholesky factorisation leaves.

    Parameters
    ----------
    residual : array, shape (n,)
        The diagonal of what is left, as `pivoted_cholesky` returns it.

    Returns
    -------
    float
        The nuclear norm, which bounds the others.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.pivoted_cholesky_spectral(np.asarray([0.0, 0.5, 0.25]))
    0.75
    """
    return float(np.sum(residual))


@bound(
    "always",
    "|A - F F^T|_ij <= (d_i d_j)^(1/2), d the diagonal of A - F F^T",
    hypotheses=("A is symmetric positive semidefinite", "F is a partial Cholesky factor, whatever the pivots"),
    source="The 2 x 2 minors of a semidefinite matrix are not negative",
    band=(0.2, 1.0),
)
def pivoted_cholesky_entries(residual: Any) -> Any:
    """Entries of what a partial Cholesky factorisation leaves; parameters as in `pivoted_cholesky_spectral`.

    Returns
    -------
    array, shape (n, n)

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.pivoted_cholesky_entries(np.asarray([0.25, 1.0]))
    array([[0.25, 0.5 ],
           [0.5 , 1.  ]])
    """
    root = np.sqrt(residual)
    return root[:, None] * root[None, :]


def _left(rng: np.random.Generator) -> tuple[Any, Any]:
    a = psd(SPECTRUM, rng)
    found = pivoted_cholesky(a, 8, pivoting=str(rng.choice(["random", "greedy"])), rng=rng)
    return a - found.factor @ found.factor.T, found.residual


@experiment(pivoted_cholesky_spectral)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    left, residual = _left(rng)
    return np.linalg.norm(left, 2), pivoted_cholesky_spectral(residual)


@experiment(pivoted_cholesky_entries)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    left, residual = _left(rng)
    limit = pivoted_cholesky_entries(residual)
    off = ~np.eye(len(left), dtype=bool) & (limit > 1e-12)
    worst = np.argmax(np.abs(left[off]) / limit[off])
    return np.abs(left[off])[worst], limit[off][worst]
