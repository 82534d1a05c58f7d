"""Errors of Nystrom approximations ``A_hat = A W (W^T A W)^+ W^T A`` of semidefinite matrices."""

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.catalogue.arguments import descending
from nlattn.bounds.catalogue.data import psd
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.linalg import nystrom_approximation, pivoted_cholesky

__all__ = [
    "nystrom_nuclear",
    "nystrom_structural_frobenius",
    "nystrom_structural_nuclear",
    "nystrom_structural_spectral",
]

SPECTRUM = 1 / np.arange(1.0, 61) ** 1.5
RANK, WIDTH = 6, 16
STRUCTURE = (
    "A is symmetric positive semidefinite with eigenvalues S1 (the r largest), S2 and eigenvectors U1, U2",
    "W is any matrix for which U1^T W has full row rank; T = S2^(1/2) (U2^T W) (U1^T W)^+",
)


@bound(
    "mean",
    "E ||A - [A_hat]_r||_* <= (1 + r/(s - r - 1)) sum_{j>r} l_j",
    hypotheses=(
        "A is symmetric positive semidefinite with eigenvalues l_1 >= l_2 >= ...",
        "the entries of W (n x s) are independent and standard normal, or W is an orthonormal basis of its range",
        "[A_hat]_r is A_hat, or A_hat cut to any rank of at least r; r + 2 <= s <= n",
    ),
    source="arXiv 1706.05736, Theorem 4.1",
)
def nystrom_nuclear(eigenvalues: Floats, rank: int, width: int) -> float:
    """Expected nuclear norm of the error of a Nystrom approximation.

    Parameters
    ----------
    eigenvalues : array, shape (n,)
        Descending.
    rank : int
        r. Where the approximation is not cut to a rank, any r gives a bound, and the best one counts.
    width : int
        s, the columns of the test matrix.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.nystrom_nuclear(np.asarray([4.0, 1.0, 1.0, 0.0]), 1, 3)
    4.0
    """
    check_integer("rank", rank, least=0)
    check_integer("width", width, least=rank + 2)
    return float((1 + rank / (width - rank - 1)) * np.sum(descending("eigenvalues", eigenvalues)[rank:]))


@experiment(nystrom_nuclear, trials=150, band=(0.5, 1.0))
def nystrom_nuclear_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = psd(SPECTRUM, rng)
    found = nystrom_approximation(a, RANK, oversampling=WIDTH - RANK, rng=rng)
    rest = a - (found.vectors * found.values) @ found.vectors.T
    return np.linalg.norm(rest, "nuc"), nystrom_nuclear(SPECTRUM, RANK, WIDTH)


@bound(
    "always",
    "||A - A_hat||_2 <= ||S2||_2 + ||T||_2^2",
    hypotheses=STRUCTURE,
    source="arXiv 1303.1849",
)
def nystrom_structural_spectral(a: Floats, test: Floats, rank: int) -> float:
    """Spectral norm of the error of a Nystrom approximation, for a given test matrix.

    Parameters
    ----------
    a : array, shape (n, n)
    test : array, shape (n, s)
        W; columns of the identity for column sampling.
    rank : int
        r, at most s.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.nystrom_structural_spectral(np.diag([4.0, 1.0]), np.asarray([[1.0], [1.0]]), 1)
    2.0
    """
    tail, t = _structure(a, test, rank)
    return float(np.max(tail, initial=0.0) + np.linalg.norm(t, 2) ** 2)


@experiment(nystrom_structural_spectral, band=(0.2, 1.0))
def nystrom_structural_spectral_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a, test, error = _sampled_columns(rng)
    return np.linalg.norm(error, 2), nystrom_structural_spectral(a, test, RANK)


@bound(
    "always",
    "||A - A_hat||_F <= ||S2||_F + ||T||_2 ((2 tr S2)^(1/2) + ||T||_F)",
    hypotheses=STRUCTURE,
    source="arXiv 1303.1849",
)
def nystrom_structural_frobenius(a: Floats, test: Floats, rank: int) -> float:
    """Frobenius norm of the error of a Nystrom approximation; parameters as in `nystrom_structural_spectral`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.nystrom_structural_frobenius(np.diag([4.0, 1.0]), np.asarray([[1.0], [1.0]]), 1), 3)
    3.414
    """
    tail, t = _structure(a, test, rank)
    factor = np.sqrt(2 * np.sum(tail)) + np.linalg.norm(t)
    return float(np.linalg.norm(tail) + np.linalg.norm(t, 2) * factor)


@experiment(nystrom_structural_frobenius, band=(0.1, 1.0))
def nystrom_structural_frobenius_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a, test, error = _sampled_columns(rng)
    return np.linalg.norm(error), nystrom_structural_frobenius(a, test, RANK)


@bound(
    "always",
    "||A - A_hat||_* <= tr S2 + ||T||_F^2",
    hypotheses=STRUCTURE,
    source="arXiv 1303.1849",
)
def nystrom_structural_nuclear(a: Floats, test: Floats, rank: int) -> float:
    """Nuclear norm of the error of a Nystrom approximation; parameters as in `nystrom_structural_spectral`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.nystrom_structural_nuclear(np.diag([4.0, 1.0]), np.asarray([[1.0], [1.0]]), 1)
    2.0
    """
    tail, t = _structure(a, test, rank)
    return float(np.sum(tail) + np.linalg.norm(t) ** 2)


@experiment(nystrom_structural_nuclear, band=(0.3, 1.0))
def nystrom_structural_nuclear_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a, test, error = _sampled_columns(rng)
    return np.linalg.norm(error, "nuc"), nystrom_structural_nuclear(a, test, RANK)


def _structure(a: Floats, test: Floats, rank: int) -> tuple[Floats, Floats]:
    """The eigenvalues S2 beyond `rank`, and T."""
    values, vectors = np.linalg.eigh(a)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    tail, rotated = values[rank:], vectors.T @ test
    return tail, np.sqrt(tail)[:, None] * rotated[rank:] @ np.linalg.pinv(rotated[:rank])


def _sampled_columns(rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """A matrix, the columns of the identity for 12 random pivots, and the error of these columns' approximation."""
    a = psd(SPECTRUM[:40], rng)
    found = pivoted_cholesky(a, 12, rng=rng)
    return a, np.eye(40)[:, found.pivots], a - found.factor @ found.factor.T
