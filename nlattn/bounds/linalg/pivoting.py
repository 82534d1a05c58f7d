"""Errors of partial Cholesky factorisations with pivoting."""

import math

import numpy as np

from nlattn.arrays.arguments import check_integer, check_number
from nlattn.bounds.catalogue.arguments import descending
from nlattn.bounds.catalogue.data import psd
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
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
PARTIAL = ("A is symmetric positive semidefinite", "F is a partial Cholesky factor, whatever the pivots")


@bound(
    "moment",
    "E [A' | A] = A - A^2 / tr A, A' what one random pivot leaves of A",
    hypotheses=("A is symmetric positive semidefinite, not zero", RANDOM),
    source="arXiv 2207.06503",
)
def random_pivot_step(a: Floats) -> Floats:
    """Mean of what one random pivot leaves of a semidefinite matrix.

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


@experiment(random_pivot_step, trials=4000, band=(0.95, 1.05))
def random_pivot_step_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    # All trials share one matrix and one vector: over random ones only the trace of the matrix would count.
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
)
def random_pivoted_cholesky(eigenvalues: Floats, pivots: int) -> float:
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


@experiment(random_pivoted_cholesky, trials=150, band=(0.5, 1.0))
def random_pivoted_cholesky_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = psd(SPECTRUM, rng)
    return pivoted_cholesky(a, 10, rng=rng).error * np.sum(SPECTRUM), random_pivoted_cholesky(SPECTRUM, 10)


@bound(
    "mean",
    "E tr (A - F F^T) <= (1 + eps) sum_{j>r} l_j, k >= r/eps + r log(1/(eps eta)) pivots, eta = sum_{j>r} l_j / tr A",
    hypotheses=("A is symmetric positive semidefinite with eigenvalues l_1 >= l_2 >= ...", RANDOM, "r >= 1, eps > 0"),
    source="arXiv 2207.06503, the first of two conditions",
)
def random_pivot_count(eigenvalues: Floats, rank: int, epsilon: float) -> int:
    """How many random pivots leave on average at most 1 + epsilon times what the best approximation of a rank leaves.

    Parameters
    ----------
    eigenvalues : array, shape (n,)
        Descending, with a sum beyond `rank` that is not 0.
    rank : int
        r.
    epsilon : float
        eps.

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


@experiment(random_pivot_count, trials=150, band=(0.2, 1.0))
def random_pivot_count_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = psd(SPECTRUM, rng)
    pivots = random_pivot_count(SPECTRUM, 3, 1.0)
    return pivoted_cholesky(a, pivots, rng=rng).error * np.sum(SPECTRUM), 2 * np.sum(SPECTRUM[3:])


@bound(
    "always",
    "||A - F F^T||_2 <= sum_i d_i, d the diagonal of A - F F^T",
    hypotheses=PARTIAL,
    source="The trace of a semidefinite matrix bounds its norm",
)
def pivoted_cholesky_spectral(residual: Floats) -> float:
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


@experiment(pivoted_cholesky_spectral, band=(0.02, 1.0))
def pivoted_cholesky_spectral_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    left, residual = _left(rng)
    return np.linalg.norm(left, 2), pivoted_cholesky_spectral(residual)


@bound(
    "always",
    "|A - F F^T|_ij <= (d_i d_j)^(1/2), d the diagonal of A - F F^T",
    hypotheses=PARTIAL,
    source="The 2 x 2 minors of a semidefinite matrix are not negative",
)
def pivoted_cholesky_entries(residual: Floats) -> Floats:
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


@experiment(pivoted_cholesky_entries, band=(0.2, 1.0))
def pivoted_cholesky_entries_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    left, residual = _left(rng)
    limit = pivoted_cholesky_entries(residual)
    off = ~np.eye(len(left), dtype=bool) & (limit > 1e-12)
    worst = np.argmax(np.abs(left[off]) / limit[off])
    return np.abs(left[off])[worst], limit[off][worst]


def _left(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """What eight pivots leave of a matrix, and its diagonal as `pivoted_cholesky` returns it."""
    a = psd(SPECTRUM, rng)
    found = pivoted_cholesky(a, 8, pivoting=rng.choice(["random", "greedy"]), rng=rng)
    factor = np.asarray(found.factor)
    return a - factor @ factor.T, np.asarray(found.residual)
