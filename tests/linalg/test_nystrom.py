"""Nystrom approximation."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats
from spectra import gram

from nlattn.linalg import (
    nystrom_approximation,
)

DTYPES = [np.float64, np.float32, np.complex128, np.complex64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_nystrom(dtype):
    values = 0.5 ** np.arange(30.0)
    a = gram(60, values, dtype)
    found = nystrom_approximation(a, 8, rng=0)
    eps = np.finfo(dtype).eps
    assert found.vectors.dtype == dtype
    np.testing.assert_allclose(found.vectors.conj().T @ found.vectors, np.eye(8), atol=100 * eps)
    np.testing.assert_allclose(found.values, values[:8], rtol=1e-2)
    rest = a - (found.vectors * found.values) @ found.vectors.conj().T
    np.testing.assert_allclose(found.error, np.linalg.norm(rest, "nuc") / np.trace(a).real, rtol=1e-2, atol=100 * eps)
    assert np.linalg.eigvalsh(rest)[0] > -100 * eps
    assert found.error < 1.5 * np.sum(values[8:]) / np.sum(values) + 100 * eps


def test_nystrom_of_operators_has_an_honest_estimate():
    values = 1 / np.arange(1.0, 61) ** 2
    a = gram(60, values)
    estimates = [nystrom_approximation(scipy.sparse.csr_array(a), 5, rng=seed).error for seed in range(40)]
    errors = [nystrom_approximation(a, 5, rng=seed).error for seed in range(40)]
    assert 0.9 < np.mean(estimates) / np.mean(errors) < 1.25


def test_nystrom_of_low_rank_in_single_precision():
    root = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    a = root @ root.T
    found = nystrom_approximation(a, 8, rng=0)
    exact = np.linalg.eigvalsh(a.astype(float))[::-1][:8]
    np.testing.assert_allclose(found.values, exact, atol=1e-4 * exact[0])
    assert np.all(found.values[3:] < 2e-5 * exact[0])
    assert np.all(np.isfinite(found.vectors))
    # The shift is taken off again: no eigenvalue of a projection exceeds that of the matrix.
    assert found.values[0] <= exact[0] * (1 + 1e-6)
