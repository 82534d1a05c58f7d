"""Errors of partial Cholesky factorisations."""

import numpy as np
import pytest

from nlattn.bounds import (
    pivoted_cholesky_entries,
    pivoted_cholesky_spectral,
    random_pivot_count,
    random_pivot_step,
    random_pivoted_cholesky,
)
from nlattn.bounds.catalogue.data import psd
from nlattn.linalg import pivoted_cholesky


def without(a, j):
    return a - np.outer(a[:, j], a[j]) / a[j, j]


def mean_trace(a, pivots):
    """The mean trace of what is left, over all sequences of pivots."""
    d = np.diag(a)
    if pivots == 0 or np.sum(d) < 1e-12:
        return np.sum(d)
    return sum(d[j] / np.sum(d) * mean_trace(without(a, j), pivots - 1) for j in range(len(a)) if d[j] > 1e-12)


def test_step_over_all_pivots():
    """The mean over all pivots with their probabilities is random_pivot_step, as a matrix."""
    a = psd([3.0, 1.0, 0.4, 0.0], np.random.default_rng(0))
    mean = sum(a[j, j] / np.trace(a) * without(a, j) for j in range(4))
    np.testing.assert_allclose(mean, random_pivot_step(a), atol=1e-14)


@pytest.mark.parametrize("pivots", [0, 1, 2, 3])
def test_recursion_against_all_paths(pivots):
    values = np.asarray([3.0, 1.0, 0.4, 0.1, 0.05])
    exact = mean_trace(psd(values, np.random.default_rng(1)), pivots)
    bound = random_pivoted_cholesky(values, pivots)
    assert exact <= bound * (1 + 1e-12)
    if pivots <= 1:
        np.testing.assert_allclose(exact, bound)


def test_greedy_pivots_break_the_recursion():
    """The largest diagonal entries can be the least useful: random_pivoted_cholesky needs its random pivots."""
    a = np.zeros((130, 130))
    a[:30, :30] = 1.001 * np.eye(30)
    a[30:, 30:] = 1.0
    left = pivoted_cholesky(a, 5, pivoting="greedy").error * np.trace(a)
    assert left > random_pivoted_cholesky(np.linalg.eigvalsh(a), 5)


@pytest.mark.parametrize("decay", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("rank", [1, 3, 10])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_count_is_enough_for_the_recursion(decay, rank, epsilon):
    """random_pivot_count satisfies the sharper recursion; from rank 2 on a third of that number does not."""
    values = 1 / np.arange(1.0, 300) ** decay
    aim = (1 + epsilon) * np.sum(values[rank:])
    assert random_pivoted_cholesky(values, random_pivot_count(values, rank, epsilon)) <= aim
    flat = np.concatenate([np.full(rank, 1e3), np.full(5000, 1e-3)])
    count = random_pivot_count(flat, rank, epsilon)
    assert rank == 1 or random_pivoted_cholesky(flat, count // 3) > (1 + epsilon) * np.sum(flat[rank:])


def test_residual_bounds_are_attained():
    """A remainder of rank 1 attains pivoted_cholesky_spectral and pivoted_cholesky_entries."""
    v = np.asarray([1.0, 1.0, 2.0])
    residual = v**2
    np.testing.assert_allclose(pivoted_cholesky_spectral(residual), np.linalg.norm(np.outer(v, v), 2))
    np.testing.assert_array_equal(pivoted_cholesky_entries(residual), np.outer(v, v))
    indefinite = np.asarray([[1.0, 3.0], [3.0, 1.0]])
    assert np.linalg.norm(indefinite, 2) > pivoted_cholesky_spectral(np.diag(indefinite))
    assert np.any(np.abs(indefinite) > pivoted_cholesky_entries(np.diag(indefinite)))
