"""Errors of tensor trains."""

import math
from collections.abc import Sequence

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.bounds.decomp.data import Spectra, mixed, noisy, tail_energies
from nlattn.decomp import tensor_train

__all__ = ["tensor_train_discarded", "tensor_train_error", "tensor_train_quasi_optimality"]

SHAPE, RANKS = (5, 4, 5, 4), (3, 5, 3)
SOURCE = "DOI 10.1137/090752286"
LEADING = ("each core holds leading left singular vectors of what earlier cores have left",)


@bound(
    "always",
    "||X - X'||^2 <= sum_k tail_k, tail_k = sum_{i > R_k} sigma_i(X_<k>)^2, X_<k> with the first k modes as rows",
    hypotheses=LEADING,
    source=SOURCE,
)
def tensor_train_error(spectra: Spectra, ranks: Sequence[int]) -> float:
    """Error of the tensor train from successive SVDs, and of the rounding of a train.

    Parameters
    ----------
    spectra : sequence of array
        The singular values, descending, of X as a matrix whose rows are the first k modes, k = 1, ..., N - 1.
    ranks : sequence of int
        The inner ranks R_k.

    Returns
    -------
    float
        Upper bound of the Frobenius norm of the error.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.tensor_train_error([[5.0, 4.0], [6.0, 3.0]], [1, 1])
    5.0
    """
    return math.sqrt(sum(tail_energies(spectra, ranks)))


@experiment(tensor_train_error, band=(0.7, 1.0))
def tensor_train_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x = _smooth(rng)
    spectra = [np.linalg.svd(x.reshape(math.prod(SHAPE[:k]), -1), compute_uv=False) for k in range(1, 4)]
    train = tensor_train(x, RANKS) if rng.random() < 0.5 else tensor_train(x, rtol=1e-12).round(RANKS)
    return np.linalg.norm(x - train.to_tensor()), tensor_train_error(spectra, RANKS)


@bound(
    "identity",
    "||X - X'||^2 = sum of the energies that successive SVDs discard",
    hypotheses=LEADING,
    source=SOURCE,
)
def tensor_train_discarded(discarded: Sequence[float]) -> float:
    """Frobenius norm of the error of the tensor train from successive SVDs.

    Parameters
    ----------
    discarded : sequence of float
        For each step the sum of the squared singular values that it dropped.

    Returns
    -------
    float

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.tensor_train_discarded([9.0, 16.0])
    5.0
    """
    return math.sqrt(math.fsum(discarded))


@experiment(tensor_train_discarded, band=(1 - 1e-9, 1 + 1e-9))
def tensor_train_discarded_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x = _smooth(rng)
    rest, rank, discarded = x, 1, []
    for size, r in zip(SHAPE[:-1], RANKS, strict=True):
        _, values, vh = np.linalg.svd(rest.reshape(rank * size, -1), full_matrices=False)
        discarded.append(np.sum(values[r:] ** 2))
        rest, rank = values[:r, None] * vh[:r], r
    return np.linalg.norm(x - tensor_train(x, RANKS).to_tensor()), tensor_train_discarded(discarded)


@bound(
    "always",
    "||X - X'|| <= sqrt(N - 1) ||X - Y|| for every train Y of N cores with ranks at most (R_k)",
    hypotheses=LEADING,
    source=SOURCE,
)
def tensor_train_quasi_optimality(distance: float, order: int) -> float:
    """Error of the tensor train from successive SVDs against that of any other train.

    Parameters
    ----------
    distance : float
        ||X - Y||, e.g. the smallest possible.
    order : int
        N, the number of cores.

    Returns
    -------
    float
        sqrt(N - 1) ||X - Y||.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.tensor_train_quasi_optimality(0.5, 5)
    1.0
    """
    return math.sqrt(order - 1) * distance


@experiment(tensor_train_quasi_optimality, band=(0.4, 1.0))
def tensor_train_quasi_optimality_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    y, rank = np.ones((1, 1)), 1
    for size, r in zip(SHAPE, (*RANKS, 1), strict=True):
        y = y.reshape(-1, rank) @ rng.standard_normal((rank, size * r))
        rank = r
    y = y.reshape(SHAPE)
    x = noisy(rng, y)
    error = np.linalg.norm(x - tensor_train(x, RANKS).to_tensor())
    return error, tensor_train_quasi_optimality(float(np.linalg.norm(x - y)), len(SHAPE))


def _smooth(rng: np.random.Generator) -> Floats:
    """A random tensor that is smooth along each mode, so that its singular values decay."""

    def smoothing(size: int) -> Floats:
        places = np.arange(size)
        return np.exp(-rng.uniform(0.2, 1.0) * np.abs(np.subtract.outer(places, places)))

    return mixed(rng, SHAPE, smoothing)
