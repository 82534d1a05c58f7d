"""Matrices of known spectrum, on which bounds are measured."""

from typing import Any

import numpy as np
from scipy import stats

__all__ = ["descending", "psd", "with_spectrum"]


def descending(name: str, values: Any) -> Any:
    """Singular values or eigenvalues in float64, which must fall and, but for rounding, not be negative."""
    values = np.asarray(values, np.float64)
    slack = 1e-12 * np.max(np.abs(values), initial=0.0)
    if values.ndim != 1 or not (np.all(values >= -slack) and np.all(values[1:] <= values[:-1] + slack)):
        raise ValueError(f"{name} must be a vector of descending numbers >= 0, got {values}; sort them first")
    return values


def with_spectrum(values: Any, m: int, n: int, rng: np.random.Generator) -> Any:
    """A real matrix (m, n) with the given singular values and random singular vectors."""
    r = len(values)
    return (_frame(m, r, rng) * values) @ _frame(n, r, rng).T


def psd(values: Any, rng: np.random.Generator) -> Any:
    """A symmetric matrix with the given eigenvalues and random eigenvectors."""
    u = stats.ortho_group.rvs(len(values), random_state=rng)
    return (u * values) @ u.T


def _frame(m: int, r: int, rng: np.random.Generator) -> Any:
    return np.linalg.qr(rng.standard_normal((m, r)))[0]
