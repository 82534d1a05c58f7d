"""Errors of Nystrom approximations."""

import numpy as np
import pytest

from nlattn.bounds import (
    nystrom_nuclear,
    nystrom_structural_frobenius,
    nystrom_structural_nuclear,
    nystrom_structural_spectral,
)
from nlattn.bounds.catalogue.data import psd


def error(a, test):
    return a - a @ test @ np.linalg.pinv(test.T @ a @ test, rcond=1e-12, hermitian=True) @ test.T @ a


def trace_of_error(values, test):
    """The trace for a diagonal matrix A: the error is A - B Q Q^T B, B = A^(1/2), Q a basis of the range of B W."""
    q = np.linalg.qr(np.sqrt(values)[:, None] * test)[0]
    return np.sum(values * (1 - np.sum(q**2, axis=1)))


def test_trace_of_error():
    values, test = np.asarray([5.0, 2.0, 1.0, 0.5]), np.random.default_rng(0).standard_normal((4, 2))
    np.testing.assert_allclose(trace_of_error(values, test), np.trace(error(np.diag(values), test)))


def test_nuclear_bound_is_sharp_for_a_flat_tail():
    """With r large eigenvalues and a flat tail the mean error comes within 8 percent of nystrom_nuclear."""
    rng = np.random.default_rng(0)
    n, r, s = 400, 3, 8
    values = np.concatenate([np.full(r, 1e6), np.ones(n - r)])
    errors = [trace_of_error(values, rng.standard_normal((n, s))) for _ in range(150)]
    bound = nystrom_nuclear(values, r, s)
    assert 0.92 * bound < np.mean(errors) < 1.08 * bound


@pytest.mark.parametrize("seed", range(30))
def test_structure_on_adversarial_columns(seed):
    """Any test matrix: nystrom_structural_spectral, nystrom_structural_frobenius, nystrom_structural_nuclear hold."""
    rng = np.random.default_rng(seed)
    a = psd(rng.exponential(size=15) ** 3, rng)
    test = rng.standard_t(1.5, size=(15, 6)) if seed % 2 else np.eye(15)[:, np.argsort(np.diag(a))[:6]]
    for rank in range(1, 7):
        left = error(a, test)
        assert np.linalg.norm(left, 2) <= nystrom_structural_spectral(a, test, rank) * (1 + 1e-7)
        assert np.linalg.norm(left) <= nystrom_structural_frobenius(a, test, rank) * (1 + 1e-7)
        assert np.linalg.norm(left, "nuc") <= nystrom_structural_nuclear(a, test, rank) * (1 + 1e-7)


def test_structure_needs_full_rank():
    """A test matrix that misses the leading eigenvector is outside the hypotheses of nystrom_structural_spectral."""
    a, test = np.diag([9.0, 1.0, 1.0]), np.asarray([[0.0], [1.0], [1.0]])
    assert np.linalg.norm(error(a, test), 2) > nystrom_structural_spectral(a, test, 1)
