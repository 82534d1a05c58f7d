"""Directions of one length, in the plane: by quadrature over the angle."""

import numpy as np
import pytest
from scipy.special import hyp0f1

from nlattn.bounds import regularised_softmax, regularised_softmax_variance
from nlattn.sketch import positive_log_features

X = np.asarray([0.5, -0.2])


@pytest.mark.parametrize("y", [(0.3, 0.9), (-0.5, 0.2), (1.0, 1.0)])
def test_mean_and_variance(y):
    y = np.asarray(y)
    phi = np.sum((X + y) ** 2)
    angle = np.arange(64) * (2 * np.pi / 64)
    first, second = (
        np.stack([np.cos(angle), np.sin(angle)], axis=-1),
        np.stack([-np.sin(angle), np.cos(angle)], axis=-1),
    )
    W = np.sqrt(2) * np.stack([first, second], axis=1)
    a, b = (np.exp(positive_log_features(p[None, None], W))[:, 0] for p in (X, y))
    estimates = np.sum(a * b, axis=-1)
    mean = np.exp(-(X @ X + y @ y) / 2) * hyp0f1(1, 2 * phi / 4)
    np.testing.assert_allclose(np.mean(estimates), mean, rtol=1e-12)
    exact = regularised_softmax_variance(phi, 2, 2)
    np.testing.assert_allclose(np.mean((estimates / mean - 1) ** 2), exact, rtol=1e-10, atol=1e-15)
    bias = 1 - mean / np.exp(X @ y)
    assert 0 <= bias <= regularised_softmax(phi, 2) + 1e-15


def test_regularised_softmax_on_a_grid():
    for d in (1, 2, 8, 64, 1024):
        phi = np.linspace(0.01, 2 * np.sqrt(d), 30)
        bias = 1 - np.exp(-phi / 2) * hyp0f1(d / 2, d * phi / 4)
        assert np.all(bias > 0)
        assert np.all(bias <= regularised_softmax(phi, d))


def test_regularised_softmax_needs_that_length():
    """Unit directions, as some code draws them, estimate something else by far."""
    d, phi = 64, 4.0
    bias = 1 - np.exp(-phi / 2) * hyp0f1(d / 2, phi / 4)
    assert bias > 5 * regularised_softmax(phi, d)
