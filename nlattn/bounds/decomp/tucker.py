"""Errors of Tucker decompositions against the singular values of the unfoldings and against the best ones."""

import math
from collections.abc import Sequence

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.bounds.decomp.data import Spectra, mixed, noisy, tail_energies
from nlattn.decomp import mode_product, tucker, unfold

__all__ = [
    "hosvd_error",
    "randomized_tucker_error",
    "sthosvd_error",
    "tucker_lower_bound",
    "tucker_quasi_optimality",
]

SHAPE, RANKS = (9, 8, 7), (3, 4, 2)


@bound(
    "always",
    "||X - X'||^2 <= sum_k tail_k, tail_k = sum_{i > R_k} sigma_i(X_(k))^2, X' from HOSVD or ST-HOSVD",
    hypotheses=(
        "the factors hold leading left singular vectors of X_(k), or for ST-HOSVD of what earlier modes have left",
    ),
    source="DOI 10.1137/S0895479896305696; 10.1137/110836067",
)
def hosvd_error(spectra: Spectra, ranks: Sequence[int]) -> float:
    """Error of the HOSVD and of the ST-HOSVD.

    Parameters
    ----------
    spectra : sequence of array
        The singular values of the unfolding of X along each mode, descending.
    ranks : sequence of int
        R_k.

    Returns
    -------
    float
        Upper bound of the Frobenius norm of the error.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.hosvd_error([[5.0, 4.0], [6.0, 3.0]], [1, 1])
    5.0
    """
    return math.sqrt(sum(tail_energies(spectra, ranks)))


@experiment(hosvd_error, band=(0.7, 1.0))
def hosvd_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x = _decaying(rng, SHAPE)
    found = tucker(x, RANKS, method="hosvd" if rng.random() < 0.5 else "sthosvd")
    return np.linalg.norm(x - found.to_tensor()), hosvd_error(_spectra(x), RANKS)


@bound(
    "identity",
    "||X - X'||^2 = sum of the energies that ST-HOSVD discards, mode by mode",
    hypotheses=("each factor holds leading left singular vectors of the unfolding of what earlier modes have left",),
    source="DOI 10.1137/110836067",
)
def sthosvd_error(discarded: Sequence[float]) -> float:
    """Error of the ST-HOSVD.

    Parameters
    ----------
    discarded : sequence of float
        For each mode the sum of the squared singular values dropped when it was truncated.

    Returns
    -------
    float
        The Frobenius norm of the error.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.sthosvd_error([9.0, 16.0])
    5.0
    """
    return math.sqrt(math.fsum(discarded))


@experiment(sthosvd_error, band=(1 - 1e-9, 1 + 1e-9))
def sthosvd_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, order = _decaying(rng, SHAPE), [int(k) for k in rng.permutation(3)]
    core, discarded = x, []
    for k in order:
        u, values, _ = np.linalg.svd(unfold(core, k), full_matrices=False)
        discarded.append(np.sum(values[RANKS[k] :] ** 2))
        core = np.asarray(mode_product(core, u[:, : RANKS[k]].T, k))
    return np.linalg.norm(x - tucker(x, RANKS, order=order).to_tensor()), sthosvd_error(discarded)


@bound(
    "always",
    "||X - X'|| <= sqrt(N) ||X - Y|| for every Y of multilinear rank at most (R_k), X' from HOSVD, ST-HOSVD or HOOI",
    hypotheses=("N is the number of modes with R_k < I_k", "HOOI begins with ST-HOSVD"),
    source="DOI 10.1137/S0895479896305696; 10.1137/110836067",
)
def tucker_quasi_optimality(distance: float, modes: int) -> float:
    """Error of a Tucker decomposition against that of any other one.

    Parameters
    ----------
    distance : float
        ||X - Y||, e.g. the smallest possible.
    modes : int
        N, the number of truncated modes.

    Returns
    -------
    float
        sqrt(N) ||X - Y||.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.tucker_quasi_optimality(0.5, 4)
    1.0
    """
    return math.sqrt(modes) * distance


@experiment(tucker_quasi_optimality, band=(0.4, 1.0))
def tucker_quasi_optimality_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    # The last mode is not truncated, so that N is 2.
    ranks = (3, 4, 7)
    y = rng.standard_normal(ranks)
    for k, (size, r) in enumerate(zip(SHAPE, ranks, strict=True)):
        y = np.asarray(mode_product(y, rng.standard_normal((size, r)), k))
    x = noisy(rng, y)
    method = rng.choice(["hosvd", "sthosvd", "hooi"])
    error = np.linalg.norm(x - tucker(x, ranks, method=method, tol=1e-3).to_tensor())
    return error, tucker_quasi_optimality(float(np.linalg.norm(x - y)), 2)


@bound(
    "always",
    "max_k tail_k <= ||X - Y||^2 for every Y of multilinear rank at most (R_k)",
    hypotheses=("tail_k = sum_{i > R_k} sigma_i(X_(k))^2",),
    source="Follows from the theorem of Eckart, Young and Mirsky",
)
def tucker_lower_bound(spectra: Spectra, ranks: Sequence[int]) -> float:
    """Least error of a Tucker decomposition, and of a CP decomposition whose rank is at most each R_k.

    Parameters as in `hosvd_error`. The result is a lower bound of the Frobenius norm of the error.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.tucker_lower_bound([[5.0, 4.0], [6.0, 3.0]], [1, 1])
    4.0
    """
    return math.sqrt(max(tail_energies(spectra, ranks)))


@experiment(tucker_lower_bound, band=(0.4, 1.0))
def tucker_lower_bound_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    # This bound is a lower one: what the function computes is compared with the error of a decomposition.
    x = _decaying(rng, SHAPE)
    error = np.linalg.norm(x - tucker(x, RANKS, method="hooi", tol=1e-3).to_tensor())
    return tucker_lower_bound(_spectra(x), RANKS), error


@bound(
    "mean",
    "E ||X - X'||^2 <= sum_k (1 + R_k / (p - 1)) tail_k, X' from randomised ST-HOSVD with oversampling p",
    hypotheses=(
        "the test matrices are standard normal, with R_k + p columns, and independent of each other and of X",
        "p >= 2",
        "there are no power iterations",
        "X is real; tail_k = sum_{i > R_k} sigma_i(X_(k))^2",
    ),
    source="arXiv 1905.07311, from Theorem 10.5 of arXiv 0909.4061",
)
def randomized_tucker_error(spectra: Spectra, ranks: Sequence[int], oversampling: int) -> float:
    """Mean squared error of the randomised ST-HOSVD.

    Parameters
    ----------
    spectra, ranks
        As in `hosvd_error`.
    oversampling : int
        p, at least 2.

    Returns
    -------
    float
        Upper bound of the mean of the squared Frobenius norm.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.randomized_tucker_error([[5.0, 2.0], [6.0, 3.0]], [1, 1], 2)
    26.0
    """
    if oversampling < 2:
        raise ValueError(f"oversampling must be at least 2, got {oversampling}")
    return sum((1 + r / (oversampling - 1)) * t for r, t in zip(ranks, tail_energies(spectra, ranks), strict=True))


@experiment(randomized_tucker_error, trials=600, band=(0.25, 0.9))
def randomized_tucker_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, ranks, p = _decaying(rng, (14, 13, 12)), (3, 4, 2), 5
    result = tucker(x, ranks, method="randomized", oversampling=p, power_iterations=0, rng=rng)
    return np.linalg.norm(x - result.to_tensor()) ** 2, randomized_tucker_error(_spectra(x), ranks, p)


def _spectra(x: Floats) -> list[Floats]:
    return [np.linalg.svd(unfold(x, mode), compute_uv=False) for mode in range(x.ndim)]


def _decaying(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """A random tensor whose unfoldings have singular values that decay, in no common basis."""

    def scaled_basis(size: int) -> Floats:
        basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
        return basis * np.arange(1.0, size + 1) ** -rng.uniform(0.2, 1.0)

    return mixed(rng, shape, scaled_basis)
