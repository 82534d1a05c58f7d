"""Random matrices of known spectrum, on which bounds are measured."""

import numpy as np
from scipy import stats

from nlattn.bounds.catalogue.typing import Floats

__all__ = ["psd", "with_spectrum"]


def with_spectrum(values: Floats, m: int, n: int, rng: np.random.Generator) -> Floats:
    """A real matrix (m, n) with the given singular values and random singular vectors."""
    r = len(values)
    return (_orthonormal_columns(m, r, rng) * values) @ _orthonormal_columns(n, r, rng).T


def psd(values: Floats, rng: np.random.Generator) -> Floats:
    """A symmetric matrix with the given eigenvalues and random eigenvectors."""
    u = stats.ortho_group.rvs(len(values), random_state=rng)
    return (u * values) @ u.T


def _orthonormal_columns(m: int, r: int, rng: np.random.Generator) -> Floats:
    return np.linalg.qr(rng.standard_normal((m, r)))[0]
