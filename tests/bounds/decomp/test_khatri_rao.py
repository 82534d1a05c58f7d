"""Sampling by products of leverage scores: the constants, and what breaks the bounds."""

import math

import numpy as np

from nlattn.bounds import khatri_rao_least_squares, khatri_rao_leverage
from nlattn.decomp import khatri_rao
from nlattn.decomp._sampling import row_probabilities


def leverage(a):
    u, values, _ = np.linalg.svd(a, full_matrices=False)
    return np.sum(u[:, values > 1e-10 * values[0]] ** 2, axis=1)


def test_khatri_rao_leverage_is_attained():
    """With one column the Khatri-Rao product is the Kronecker product."""
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((n, 1)) for n in (3, 4, 5)]
    limit = khatri_rao_leverage(*(leverage(a) for a in factors))
    np.testing.assert_allclose(leverage(khatri_rao(factors)), limit, rtol=1e-12)


def test_khatri_rao_leverage_needs_all_factors():
    """A row may matter in one factor only: scores of the other factor alone are no bound."""
    a, b = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.asarray([[1.0, 1.0], [1.0, 2.0]])
    scores = leverage(khatri_rao([a, b]))
    assert np.all(scores <= khatri_rao_leverage(leverage(a), leverage(b)) * (1 + 1e-12))
    assert np.any(scores > khatri_rao_leverage(leverage(a), np.asarray([0.1, 0.1])))


def test_khatri_rao_least_squares_constant():
    """The failure probabilities of the two events add up to the one that is claimed."""
    ranks, columns, samples, failure = [3, 4], 3, 2500, 0.05
    excess = khatri_rao_least_squares(ranks, columns, samples, failure)
    t = 1 - math.sqrt(10 * 12 / (9 * samples * failure * excess))
    chernoff = columns * (math.exp(-t) / (1 - t) ** (1 - t)) ** (samples / 12)
    markov = 12 / (samples * (1 - t) ** 2) / excess
    assert 0 < t < 1
    np.testing.assert_allclose([chernoff, markov], [failure / 10, 9 * failure / 10], rtol=1e-9)
    assert khatri_rao_least_squares(ranks, columns, 60, failure) == math.inf


def test_khatri_rao_least_squares_second_moment():
    """The mean of ||U^T S^T S b||^2 for one draw, summed over all rows, is at most K ||b||^2; as in the proof."""
    rng = np.random.default_rng(0)
    factors = [rng.standard_t(2, size=(n, 3)) for n in (6, 7)]
    u = np.linalg.qr(khatri_rao(factors))[0]
    b = rng.standard_t(2, size=42)
    b -= u @ (u.T @ b)
    p = np.kron(*(row_probabilities(a) for a in factors))
    np.testing.assert_allclose(np.sum(p), 1.0, rtol=1e-12)
    moment = np.sum(np.sum(u**2, axis=1) * b**2 / p)
    assert 0.05 * 9 * np.sum(b**2) < moment < 9 * np.sum(b**2)
    # khatri_rao_least_squares has this K: 3 * 3.
    assert khatri_rao_least_squares([9], 3, 5000) == khatri_rao_least_squares([3, 3], 3, 5000)


def test_khatri_rao_least_squares_needs_the_probabilities():
    """Uniform draws miss the one row that determines a coefficient, weighted or not."""
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.standard_normal((60, 2)), np.zeros((60, 1))], axis=1)
    a[7] = 0, 0, 1.0
    b = 0.1 * rng.standard_normal((3600, 1))
    full = khatri_rao([a, a])
    spike = 7 * 60 + 7
    b[spike] = 5.0
    least = np.linalg.norm(full @ np.linalg.lstsq(full, b)[0] - b) ** 2
    excess = []
    for _ in range(40):
        rows = rng.integers(0, 3600, 500)
        found = np.linalg.lstsq(full[rows], b[rows])[0]
        excess.append(np.linalg.norm(full @ found - b) ** 2 / least - 1)
    limit = khatri_rao_least_squares([3, 3], 3, 500)
    assert np.mean(np.asarray(excess) > min(limit, 0.5)) > 0.5
