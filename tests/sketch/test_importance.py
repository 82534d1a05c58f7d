"""The covariance from which to draw the directions of positive features."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from nlattn.sketch import (
    optimal_covariance,
    optimal_variance,
)
from nlattn.testing import assert_close, assert_same_kind

rng = np.random.default_rng(0)


def test_optimal_variance_is_the_minimiser(backend):
    x, y = rng.standard_normal((9, 6)) + 0.2, rng.standard_normal((7, 6)) / 2
    mean = np.mean(np.sum((x[:, None] + y) ** 2, axis=-1))
    d = 6

    def objective(v):
        return d * (np.log(v) - 0.5 * np.log(2 * v - 1)) + mean / (2 * v - 1)

    best = minimize_scalar(objective, bounds=(0.51, 20), method="bounded", options={"xatol": 1e-10}).x
    found = optimal_variance(backend.array(x), backend.array(y))
    assert tuple(found.shape) == (1,)
    assert_close(found, np.asarray([best]), rtol=1e-6, like=backend.array(x))
    # A = (1 - variance) / 4, in the form of the paper.
    ratio = mean / d
    paper = (1 - 2 * ratio - np.sqrt((2 * ratio + 1) ** 2 + 8 * ratio)) / 16
    assert_close(backend.to_numpy(found), np.asarray([1 - 4 * paper]), rtol=1e-12)


def test_optimal_covariance(backend):
    x, y = rng.standard_normal((2, 9, 4)) * [2, 1, 0.5, 0.1] + 0.3, rng.standard_normal((2, 7, 4)) * [1, 1, 0.2, 0.2]
    variance, basis = optimal_covariance(backend.array(x), backend.array(y))
    assert_same_kind(variance, backend.array(x))
    variance, basis = backend.to_numpy(variance), backend.to_numpy(basis)
    for i in range(2):
        sums = (x[i][:, None] + y[i]).reshape(-1, 4)
        moment = basis[i].T @ (sums.T @ sums / len(sums)) @ basis[i]
        assert_close(moment, np.diag(np.diag(moment)), rtol=0, atol=1e-12)
        assert_close(basis[i].T @ basis[i], np.eye(4), rtol=0, atol=1e-12)
        squares = np.diag(moment)
        # The derivative of log v - log(2 v - 1) / 2 + s / (2 v - 1) vanishes.
        v = variance[i]
        slope = 1 / v - 1 / (2 * v - 1) - 2 * squares / (2 * v - 1) ** 2
        assert_close(slope, np.zeros(4), rtol=0, atol=1e-10)
        assert np.all(np.diff(v) <= 0)
        assert np.all(v >= 1)


def test_nothing_to_gain_where_sums_vanish():
    x = rng.standard_normal((1, 3))
    assert optimal_variance(x, -x) == pytest.approx(1, abs=1e-14)
    assert_close(optimal_covariance(x, -x).variance, np.ones(3), rtol=1e-12)
    with pytest.raises(ValueError, match=r"x must hold at least one point, got shape \(0, 3\)"):
        optimal_variance(x[:0], x)
    with pytest.raises(ValueError, match="y must hold at least one point"):
        optimal_covariance(x, x[:0])
