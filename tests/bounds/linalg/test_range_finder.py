"""Errors of randomised range finders."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from nlattn.bounds import (
    range_finder_frobenius,
    range_finder_frobenius_tail,
    range_finder_power,
    range_finder_spectral,
    range_finder_spectral_tail,
)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("order", [2, "fro"])
def test_structure_lemma(seed, order):
    """The first step in the proof of range_finder_frobenius holds for every test matrix."""
    rng = np.random.default_rng(seed)
    k, s = 4, rng.exponential(size=20) * 0.7 ** np.arange(20)
    s = np.sort(s)[::-1]
    test = rng.standard_t(2, size=(20, 7))
    q = np.linalg.qr(s[:, None] * test)[0]
    left = np.linalg.norm(np.diag(s) - q @ (q.T * s), order) ** 2
    tail = np.diag(s[k:])
    right = np.linalg.norm(tail, order) ** 2 + np.linalg.norm(tail @ test[k:] @ np.linalg.pinv(test[:k]), order) ** 2
    assert left <= right * (1 + 1e-12)


def test_expectation_is_infinite_without_oversampling():
    """p = 1 is outside the hypotheses of range_finder_frobenius: the mean of 1 / chi^2_2 does not exist."""
    with pytest.raises(ValueError, match="oversampling must be at least 2"):
        range_finder_frobenius(np.ones(5), 2, 1)
    rng = np.random.default_rng(0)
    squares = [np.linalg.norm(np.linalg.pinv(rng.standard_normal((2, 5)))) ** 2 for _ in range(4000)]
    np.testing.assert_allclose(np.mean(squares), 2 / (3 - 1), rtol=0.06)


def test_least_singular_value():
    """The tail in the proof of range_finder_spectral: exact for one row, and by trials for three."""
    for p in (1, 3, 8):
        t = np.asarray([0.5, 1.0, 3.0])
        exact = stats.chi2.cdf(t**-2, p + 1)
        assert np.all(exact <= (np.e * np.sqrt(1 + p) / (p + 1)) ** (p + 1) * t ** -(p + 1.0))
    rng = np.random.default_rng(0)
    k, p = 3, 4
    norms = 1 / np.linalg.svd(rng.standard_normal((20000, k, k + p)), compute_uv=False)[:, -1]
    assert np.mean(norms) < np.e * np.sqrt(k + p) / p
    for t in (1.0, 1.5, 2.0):
        assert np.mean(norms > t) < (np.e * np.sqrt(k + p) / (p + 1)) ** (p + 1) * t ** -(p + 1.0)


def test_spectral_bound_needs_random_columns():
    """A fixed test matrix that misses the leading direction breaks range_finder_spectral."""
    s = np.concatenate([[1.0], np.full(19, 1e-3)])
    q = np.eye(20)[:, 1:8]
    assert np.linalg.norm(np.diag(s) - q @ (q.T * s), 2) > range_finder_spectral(s, 1, 6)


def test_powers_of_a_projection():
    """The lemma in the proof of range_finder_power; for large q the bound tends to s_{k+1}."""
    rng = np.random.default_rng(0)
    for q in (1, 2, 4):
        a = rng.standard_normal((12, 9))
        basis = np.linalg.qr(rng.standard_normal((12, 5)))[0]
        out = np.eye(12) - basis @ basis.T
        power = np.linalg.matrix_power(a @ a.T, q) @ a
        assert np.linalg.norm(out @ a, 2) ** (2 * q + 1) <= np.linalg.norm(out @ power, 2) * (1 + 1e-12)
    s = 1 / np.arange(1.0, 50)
    bounds = [range_finder_power(s, 5, 5, q) for q in (0, 1, 5, 40)]
    assert bounds[0] == range_finder_spectral(s, 5, 5)
    assert np.all(np.diff(bounds) < 0)
    assert 1 < bounds[-1] / s[5] < 1.1


@pytest.mark.parametrize("p", [4, 5, 8, 16])
def test_moments_of_the_pseudo_inverse(p):
    """The moment of 1 / chi^2 in the proof of range_finder_frobenius_tail; its constant 3 needs p >= 4."""
    half = p / 2
    exact, _ = integrate.quad(lambda x: x**-half * stats.chi2.pdf(x, p + 1), 0, np.inf, epsabs=0, limit=200)
    np.testing.assert_allclose(exact, 2**-half * np.sqrt(np.pi) / special.gamma((p + 1) / 2), rtol=1e-6)
    assert exact <= (3 / (p + 1)) ** half
    # t and u reproduce the failure probability.
    t, u = (4 / 0.01) ** (1 / p), np.sqrt(2 * np.log(2 / 0.01))
    np.testing.assert_allclose(2 * t**-p + np.exp(-(u**2) / 2), 0.01)
    spread = np.e * np.sqrt(3 + p) / (p + 1)
    expected = (1 + t * np.sqrt(9 / (p + 1))) * np.sqrt(2) + u * t * spread
    np.testing.assert_allclose(range_finder_frobenius_tail(np.ones(5), 3, p, 0.01), expected)


def test_limits_fall_with_the_failure_probability():
    s = 1 / np.arange(1.0, 50)
    limits = [range_finder_spectral_tail(s, 5, 10, failure) for failure in (1e-9, 1e-3, 0.1)]
    assert np.all(np.diff(limits) < 0)
    # A fixed test matrix that misses the leading direction is outside the hypotheses.
    s = np.concatenate([[1.0], np.full(19, 1e-3)])
    q = np.eye(20)[:, 1:10]
    error = np.diag(s) - q @ (q.T * s)
    assert np.linalg.norm(error, 2) > range_finder_spectral_tail(s, 1, 8, 1e-3)
    assert np.linalg.norm(error) > range_finder_frobenius_tail(s, 1, 8, 1e-3)
