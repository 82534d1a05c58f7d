"""Checks of the arguments that many bounds have."""

from collections.abc import Sequence

import numpy as np

from nlattn.arrays.arguments import check_number
from nlattn.bounds.catalogue.typing import Floats

__all__ = ["check_failure", "descending"]


def descending(name: str, values: Sequence[float] | Floats) -> Floats:
    """Singular values or eigenvalues in float64, which must fall and, but for rounding, not be negative."""
    values = np.asarray(values, np.float64)
    slack = 1e-12 * np.max(np.abs(values), initial=0.0)
    if values.ndim != 1 or not (np.all(values >= -slack) and np.all(values[1:] <= values[:-1] + slack)):
        raise ValueError(f"{name} must be a vector of descending numbers >= 0, got {values}; sort them first")
    return values


def check_failure(failure: float) -> float:
    """`failure` as a probability that is neither 0 nor 1."""
    return check_number("failure", failure, above=0, below=1)
