"""Stabilised denominators, optimal covariances, balanced arguments."""

import numpy as np
import pytest

from nlattn.bounds import balanced_mean, optimal_second_moment, stabilised_denominator, weighted_positive_variance
from nlattn.sketch import (
    balance_query_key,
    optimal_covariance,
    optimal_variance,
    orthogonal_projection,
    positive_log_features,
    stabilised_features,
)

rng = np.random.default_rng(0)


def test_stabilised_denominator_is_attained():
    """One key and one feature attain the bound."""
    query, key, _ = stabilised_features(np.asarray([[3.0], [-5.0]]), np.asarray([[7.0]]))
    assert np.array_equal(1 / (query @ key.sum(axis=0)), stabilised_denominator(2))


def test_stabilised_denominator_needs_both_maxima():
    """One maximum over all keys and features, as is usual, leaves denominators that underflow."""
    x = 5 * rng.standard_normal((30, 16))
    W = orthogonal_projection(32, 16, rng=0)
    a, b = positive_log_features(x, W), positive_log_features(rng.permutation(x), W)
    usual = np.exp(a - a.max(axis=-1, keepdims=True)) @ np.exp(b - b.max()).sum(axis=0)
    assert (1 / usual).max() > 1e10 * stabilised_denominator(1)[0]
    query, key, _ = stabilised_features(a, b)
    assert (1 / (query @ key.sum(axis=0))).max() <= stabilised_denominator(1)[0]


def test_optimal_second_moment_is_that_of_the_variance():
    """It is the mean over pairs of log(1 + weighted_positive_variance) for one direction."""
    x, y = rng.standard_normal((6, 3)), rng.standard_normal((5, 3)) / 2
    variance = np.asarray([0.8, 1.0, 1.5])
    basis, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    logs = [np.log1p(weighted_positive_variance((p + q) @ basis, 1, variance)) for p in x for q in y]
    np.testing.assert_allclose(optimal_second_moment(x, y, variance, basis), np.mean(logs), rtol=1e-12)


def test_optimal_second_moment_orders_the_choices():
    """The optimal covariance <= the optimal variance <= variance 1."""
    for scale in (0.1, 1.0, 3.0):
        x, y = scale * rng.standard_normal((6, 4)) * [2, 1, 1, 0.1], scale * rng.standard_normal((5, 4)) + 0.2
        eye = np.eye(4)
        values = [
            optimal_second_moment(x, y, *optimal_covariance(x, y)),
            optimal_second_moment(x, y, np.full(4, optimal_variance(x, y)[0]), eye),
            optimal_second_moment(x, y, np.ones(4), eye),
        ]
        assert values[0] < values[1] < values[2]


@pytest.mark.parametrize("n", [40, 5])
def test_balanced_mean_is_the_least(n):
    query, key = rng.standard_normal((n, 4)) * [3, 1, 1, 0.2] + 1, rng.standard_normal((30, 4)) - 1
    best = balanced_mean(query, key)

    def mean(x, y):
        return np.mean(np.sum((x[:, None] + y) ** 2, axis=-1))

    balanced = balance_query_key(query, key)
    np.testing.assert_allclose(mean(balanced.query, balanced.key), best, rtol=1e-6)
    x, y = balanced.query, balanced.key
    for step in (0.01, 0.1, 1.0):
        T = np.eye(4) + step * rng.standard_normal((4, 4))
        shift = step * rng.standard_normal(4)
        assert mean(x @ T + shift, y @ np.linalg.inv(T).T) >= best
    assert mean(query, key) > best


def test_balanced_mean_needs_centring():
    query, key = rng.standard_normal((40, 3)) + 2, rng.standard_normal((30, 3)) + 1
    raw = balance_query_key(query, key, centre=False)
    assert np.mean(np.sum((raw.query[:, None] + raw.key) ** 2, axis=-1)) > 2 * balanced_mean(query, key)
