"""Errors of approximations from one pass over a matrix."""

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.catalogue.arguments import descending
from nlattn.bounds.catalogue.data import with_spectrum
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.linalg._single_pass import single_pass_factors

__all__ = ["single_pass_error"]

SPECTRUM = 1 / np.arange(1.0, 61)
RANK = 8


@bound(
    "mean",
    "E ||A - Q X||_F^2 <= (1 + k/(l - k - 1)) min_{0 <= r < max(k - 1, 1)} f_r sum_{j>r} s_j^2, f_0 = 1, "
    "f_r = 1 + r/(k - r - 1), X = (Psi Q)^+ Psi A",
    hypotheses=(
        "Q is an orthonormal basis of the range of A Omega",
        "the entries of Omega (n x k) and Psi (l x m) are independent and standard normal",
        "k <= min(m, n), l >= k + 2",
    ),
    source="arXiv 1609.00048, Theorem 4.3",
)
def single_pass_error(singular_values: Floats, columns: int, rows: int) -> float:
    """Expected squared Frobenius error of an approximation from one pass.

    Parameters
    ----------
    singular_values : array, shape (n,)
        Descending.
    columns, rows : int
        k and l.

    Returns
    -------
    float
        With k = 2 r + 1 and l = 2 k + 1 at most 4 times the squared error of the best approximation of rank r.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.single_pass_error(np.asarray([2.0, 1.0, 1.0]), 3, 7)
    8.0
    """
    check_integer("columns", columns)
    check_integer("rows", rows, least=columns + 2)
    squares = descending("singular_values", singular_values) ** 2
    splits = [np.sum(squares)] + [(1 + r / (columns - r - 1)) * np.sum(squares[r:]) for r in range(1, columns - 1)]
    return float((1 + columns / (rows - columns - 1)) * min(splits))


@experiment(single_pass_error, trials=150, band=(0.3, 1.0))
def single_pass_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = with_spectrum(SPECTRUM, 80, 60, rng)
    q, x, *_ = single_pass_factors(a, RANK, rng)
    return np.linalg.norm(a - q @ x) ** 2, single_pass_error(SPECTRUM, 2 * RANK + 1, 4 * RANK + 3)
