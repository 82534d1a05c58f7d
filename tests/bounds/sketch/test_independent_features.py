"""Variances of random features with independent directions: by quadrature, without draws."""

import numpy as np
import pytest

from nlattn.bounds import (
    hyperbolic_variance,
    positive_variance,
    trigonometric_variance,
    weighted_positive_variance,
)
from nlattn.sketch import hyperbolic_log_features, positive_log_features, trigonometric_features

PAIRS = {
    1: [(0.3, 0.5), (0.3, -0.5), (-0.7, -0.2), (0.0, 0.0)],
    2: [((0.3, 0.1), (0.5, -0.2)), ((0.6, 0.4), (-0.5, -0.4)), ((0.2, -0.3), (0.2, 0.7))],
}


def hermite(d, count=48):
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    weights = weights / weights.sum()
    if d == 1:
        return nodes[:, None], weights
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    return np.stack([first.ravel(), second.ravel()], axis=-1), np.outer(weights, weights).ravel()


def moments(d, x, y, features, **options):
    """Mean and relative variance of the estimate from one direction, as integrals over it; and the exact kernel."""
    W, mass = hermite(d)
    x, y = np.atleast_2d(x), np.atleast_2d(y)
    a, b = (features(p, W, **options)[0] for p in (x, y))
    if features is not trigonometric_features:
        a, b = np.exp(a), np.exp(b)
    estimates = len(W) * (a * b).reshape(-1, len(W)).sum(axis=0)
    exact = np.exp(-np.sum((x - y) ** 2) / 2) if features is trigonometric_features else np.exp(np.sum(x * y))
    mean = mass @ estimates
    np.testing.assert_allclose(mean, exact, rtol=1e-12)
    return mass @ (estimates / exact - 1) ** 2


CASES = [(d, x, y) for d, pairs in PAIRS.items() for x, y in pairs]


@pytest.mark.parametrize(("d", "x", "y"), CASES)
def test_positive(d, x, y):
    phi = np.sum((np.asarray(x) + y) ** 2)
    np.testing.assert_allclose(
        moments(d, x, y, positive_log_features), positive_variance(phi, 1), rtol=1e-10, atol=1e-13
    )
    assert positive_variance(phi, 7) == pytest.approx(positive_variance(phi, 1) / 7)


@pytest.mark.parametrize(("d", "x", "y"), CASES)
def test_hyperbolic(d, x, y):
    phi = np.sum((np.asarray(x) + y) ** 2)
    exact = hyperbolic_variance(phi, 1)
    np.testing.assert_allclose(moments(d, x, y, hyperbolic_log_features), exact, rtol=1e-10, atol=1e-13)
    # Two features of one direction, never worse than two of two directions.
    assert exact <= positive_variance(phi, 2)


@pytest.mark.parametrize(("d", "x", "y"), CASES)
def test_trigonometric(d, x, y):
    u = np.sum((np.asarray(x) - y) ** 2)
    exact = trigonometric_variance(u, 1)
    np.testing.assert_allclose(moments(d, x, y, trigonometric_features), exact, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("d", "x", "y"), CASES)
@pytest.mark.parametrize("variance", [0.8, 1.0, 1.6])
def test_weighted(d, x, y, variance):
    for spread in (variance, variance * np.linspace(1, 1.3, d)):
        total = np.atleast_1d(np.asarray(x) + y)
        for opposite, features in ((False, positive_log_features), (True, hyperbolic_log_features)):
            exact = weighted_positive_variance(total, 1, spread, opposite=opposite)
            measured = moments(d, x, y, features, variance=np.atleast_1d(spread))
            np.testing.assert_allclose(measured, exact, rtol=1e-7, atol=1e-12)
    phi = np.sum(total**2)
    assert weighted_positive_variance(total, 3, 1.0) == pytest.approx(positive_variance(phi, 3), abs=1e-15)
    assert weighted_positive_variance(total, 3, 1.0, opposite=True) == pytest.approx(
        hyperbolic_variance(phi, 3), abs=1e-15
    )


def test_weighted_needs_more_than_half():
    """The second moment diverges as the variance of the directions falls to 1/2."""
    total = np.asarray([0.5])
    values = [weighted_positive_variance(total, 1, v) for v in (0.6, 0.51, 0.501)]
    assert values[0] < values[1] < values[2]
    assert values[2] > 1e50


def test_positive_needs_its_own_directions():
    """With two equal directions instead of independent ones the variance is twice positive_variance for m = 2."""
    W, mass = hermite(1)
    x = np.asarray([[0.4]])
    doubled = np.stack([W, W], axis=1)  # (nodes, 2, 1): both rows the same
    a = np.exp(positive_log_features(x[None], doubled))[:, 0]
    variance = mass @ (np.sum(a * a, axis=-1) / np.exp(0.16) - 1) ** 2
    np.testing.assert_allclose(variance, 2 * positive_variance(0.64, 2), rtol=1e-10)
