"""Traces, limits of norms, and leave-one-out errors."""

import itertools

import numpy as np
from scipy import integrate, stats

from nlattn.bounds import frobenius_norm_limit, leave_one_out_mean, spectral_norm_limit, trace_variance
from nlattn.linalg import leave_one_out_range


def test_trace_variance_over_all_signs():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 5))
    a = a + a.T
    forms = [np.asarray(w) @ a @ np.asarray(w) for w in itertools.product([-1.0, 1.0], repeat=5)]
    np.testing.assert_allclose(np.var(forms), trace_variance(a, 1))
    values = np.linalg.eigvalsh(a)
    # A normal vector in the basis of eigenvectors: a sum of independent chi-squares.
    np.testing.assert_allclose(np.sum(values**2) * stats.chi2.var(1), trace_variance(a, 1, "gaussian"))


def test_power_method_is_no_limit():
    """The largest image alone is often below the norm; spectral_norm_limit raises it as far as is needed."""
    rng = np.random.default_rng(0)
    images = [np.asarray([[1.0], [0.0]]) * rng.standard_normal(3) for _ in range(2000)]
    below = np.mean([np.max(np.linalg.norm(each, axis=0)) < 1 for each in images])
    np.testing.assert_allclose(below, stats.chi2.cdf(1, 1) ** 3, atol=0.04)
    missed = np.mean([spectral_norm_limit(each, 0.1) < 1 for each in images])
    exact = stats.chi2.cdf(0.1 ** (2 / 3) * np.pi / 2, 1) ** 3
    np.testing.assert_allclose(missed, exact, atol=0.02)
    assert exact <= 0.1


def test_rank_one_is_the_worst_case():
    """For rank 1 the failure probability of frobenius_norm_limit is exact; for a flat spectrum it is far below."""
    for count in (1, 4, 10):
        factor = frobenius_norm_limit(np.ones((1, count)), 0.05) ** -2
        assert 0.2 * 0.05 < stats.chi2.cdf(factor * count, count) <= 0.05
        assert stats.chi2.cdf(factor * 6 * count, 6 * count) < stats.chi2.cdf(factor * count, count)


def test_leave_one_out_against_deleted_columns():
    """Means of leave_one_out_mean, by quadrature, and of the error itself, for a 2 x 2 matrix and two vectors."""
    a = np.diag([2.0, 1.0])

    def right(angle):
        return leave_one_out_mean(a, np.asarray([[np.cos(angle)], [np.sin(angle)]])) / (2 * np.pi)

    exact, _ = integrate.quad(right, 0, 2 * np.pi)
    rng = np.random.default_rng(0)
    squares = np.asarray([leave_one_out_range(a @ rng.standard_normal((2, 2))) ** 2 for _ in range(1500)])
    assert abs(squares.mean() - exact) < 5 * squares.std() / np.sqrt(squares.size)
