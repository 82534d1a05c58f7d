"""Errors of randomised range finders with a Gaussian block of ``rank + oversampling`` columns."""

import math

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.catalogue.arguments import check_failure, descending
from nlattn.bounds.catalogue.data import with_spectrum
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.linalg import range_finder

__all__ = [
    "range_finder_frobenius",
    "range_finder_frobenius_tail",
    "range_finder_power",
    "range_finder_spectral",
    "range_finder_spectral_tail",
]

HYPOTHESES = (
    "Q is an orthonormal basis of the range of A G",
    "the entries of G (n x (k + p)) are independent and standard normal",
    "s_1 >= s_2 >= ... are the singular values of A (m x n), k + p <= min(m, n)",
)
RANK, EXTRA, FAILURE = 10, 6, 0.01
SPECTRUM = 1 / np.arange(1.0, 81)


@bound(
    "mean",
    "E ||A - Q Q^T A||_F <= (1 + k/(p - 1))^(1/2) (sum_{j>k} s_j^2)^(1/2)",
    hypotheses=(*HYPOTHESES, "p >= 2"),
    source="arXiv 0909.4061, Theorem 10.5",
)
def range_finder_frobenius(singular_values: Floats, rank: int, oversampling: int) -> float:
    """Expected Frobenius error of a range finder.

    Parameters
    ----------
    singular_values : array, shape (r,)
        Descending.
    rank, oversampling : int
        k and p; every split of the k + p columns gives a bound.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.range_finder_frobenius(np.asarray([5.0, 3.0]), 1, 2), 3)
    4.243
    """
    _, tail = _tails(singular_values, rank, oversampling)
    return math.sqrt(1 + rank / (oversampling - 1)) * tail


@experiment(range_finder_frobenius, trials=100, band=(0.45, 0.95))
def range_finder_frobenius_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return np.linalg.norm(_residual(rng)), range_finder_frobenius(SPECTRUM, RANK, EXTRA)


@bound(
    "mean",
    "E ||A - Q Q^T A||_2 <= (1 + (k/(p - 1))^(1/2)) s_{k+1} + e (k + p)^(1/2)/p (sum_{j>k} s_j^2)^(1/2)",
    hypotheses=(*HYPOTHESES, "p >= 2"),
    source="arXiv 0909.4061, Theorem 10.6",
)
def range_finder_spectral(singular_values: Floats, rank: int, oversampling: int) -> float:
    """Expected spectral error of a range finder; parameters as in `range_finder_frobenius`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.range_finder_spectral(np.asarray([2.0, 1.0, 0.0]), 1, 2), 3)
    4.354
    """
    first, tail = _tails(singular_values, rank, oversampling)
    spread = math.e * math.sqrt(rank + oversampling) / oversampling
    return (1 + math.sqrt(rank / (oversampling - 1))) * first + spread * tail


@experiment(range_finder_spectral, trials=100, band=(0.1, 0.6))
def range_finder_spectral_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return np.linalg.norm(_residual(rng), 2), range_finder_spectral(SPECTRUM, RANK, EXTRA)


@bound(
    "mean",
    "E ||A - Q Q^T A||_2 <= [(1 + (k/(p - 1))^(1/2)) s_{k+1}^r + e (k + p)^(1/2)/p (sum_{j>k} s_j^(2r))^(1/2)]^(1/r), "
    "r = 2q + 1, for Q from (A A^T)^q A G",
    hypotheses=("Q is an orthonormal basis of the range of (A A^T)^q A G", *HYPOTHESES[1:], "p >= 2"),
    source="arXiv 0909.4061, Proposition 8.6 and Theorem 9.2 with 10.6",
)
def range_finder_power(singular_values: Floats, rank: int, oversampling: int, power_iterations: int) -> float:
    """Expected spectral error of a range finder with power iterations; parameters as in `range_finder_frobenius`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> s = np.asarray([2.0, 1.0, 0.0])
    >>> [round(nlattn.bounds.range_finder_power(s, 1, 2, q), 3) for q in (0, 1, 9)]
    [4.354, 1.633, 1.081]
    """
    exponent = 2 * check_integer("power_iterations", power_iterations, least=0) + 1
    powers = descending("singular_values", singular_values) ** exponent
    return float(range_finder_spectral(powers, rank, oversampling) ** (1 / exponent))


@experiment(range_finder_power, trials=100, band=(0.3, 0.9))
def range_finder_power_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return np.linalg.norm(_residual(rng, 2), 2), range_finder_power(SPECTRUM, RANK, EXTRA, 2)


@bound(
    "probability",
    "||A - Q Q^T A||_F <= (1 + t (3k/(p + 1))^(1/2)) (sum_{j>k} s_j^2)^(1/2) + u t e (k + p)^(1/2)/(p + 1) s_{k+1}, "
    "except with probability 2 t^-p + exp(-u^2/2)",
    hypotheses=(*HYPOTHESES, "p >= 4; t, u >= 1"),
    source="arXiv 0909.4061, Theorem 10.7, in the form of the journal version",
)
def range_finder_frobenius_tail(singular_values: Floats, rank: int, oversampling: int, failure: float) -> float:
    """A limit that the Frobenius error of a range finder rarely exceeds.

    Parameters
    ----------
    singular_values, rank, oversampling
        As in `range_finder_frobenius`.
    failure : float
        The probability that the bound does not hold, half of it for t and half for u.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.range_finder_frobenius_tail(np.asarray([2.0, 1.0, 0.0]), 1, 8, 0.01), 2)
    8.46
    """
    first, tail = _tails(singular_values, rank, oversampling, 4)
    u, largest, frobenius = _deviations(rank, oversampling, failure)
    return (1 + frobenius) * tail + u * largest * first


@experiment(range_finder_frobenius_tail, trials=200, band=(0.05, 0.6), failure=FAILURE)
def range_finder_frobenius_tail_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return np.linalg.norm(_residual(rng)), range_finder_frobenius_tail(SPECTRUM, RANK, EXTRA, FAILURE)


@bound(
    "probability",
    "||A - Q Q^T A||_2 <= (1 + t (3k/(p + 1))^(1/2) + u t c) s_{k+1} + t c (sum_{j>k} s_j^2)^(1/2), "
    "c = e (k + p)^(1/2)/(p + 1), except with probability 2 t^-p + exp(-u^2/2)",
    hypotheses=(*HYPOTHESES, "p >= 4; t, u >= 1"),
    source="arXiv 0909.4061, Theorem 10.8, in the form of the journal version",
)
def range_finder_spectral_tail(singular_values: Floats, rank: int, oversampling: int, failure: float) -> float:
    """A limit that the spectral error of a range finder rarely exceeds.

    Parameters as in `range_finder_frobenius_tail`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.range_finder_spectral_tail(np.asarray([2.0, 1.0, 0.0]), 1, 8, 0.01), 2)
    10.37
    """
    first, tail = _tails(singular_values, rank, oversampling, 4)
    u, largest, frobenius = _deviations(rank, oversampling, failure)
    return (1 + frobenius + u * largest) * first + largest * tail


@experiment(range_finder_spectral_tail, trials=200, band=(0.01, 0.3), failure=FAILURE)
def range_finder_spectral_tail_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return np.linalg.norm(_residual(rng), 2), range_finder_spectral_tail(SPECTRUM, RANK, EXTRA, FAILURE)


def _tails(singular_values: Floats, rank: int, oversampling: int, least: int = 2) -> tuple[float, float]:
    """s_{k+1}, and the norm of all singular values from there on."""
    check_integer("oversampling", oversampling, least=least)
    rest = descending("singular_values", singular_values)[check_integer("rank", rank, least=0) :]
    return (float(rest[0]), float(np.linalg.norm(rest))) if rest.size else (0.0, 0.0)


def _deviations(rank: int, oversampling: int, failure: float) -> tuple[float, float, float]:
    """u, and limits of the spectral and the Frobenius norm of the pseudo-inverse of a Gaussian k x (k + p) matrix.

    The limits grow with t; t and u are at least 1, and 2 t^-p and exp(-u^2/2) at most failure / 2.
    """
    check_failure(failure)
    t, u = max(1.0, (4 / failure) ** (1 / oversampling)), max(1.0, math.sqrt(2 * math.log(2 / failure)))
    largest = t * math.e * math.sqrt(rank + oversampling) / (oversampling + 1)
    return u, largest, t * math.sqrt(3 * rank / (oversampling + 1))


def _residual(rng: np.random.Generator, power_iterations: int = 0) -> Floats:
    """What a range finder leaves of a random matrix."""
    a = with_spectrum(SPECTRUM, 100, 80, rng)
    q = range_finder(a, RANK + EXTRA, power_iterations=power_iterations, rng=rng)
    return a - q @ (q.T @ a)
