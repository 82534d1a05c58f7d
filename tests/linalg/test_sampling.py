"""Importance sampling and sampled products."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from spectra import spiked

from nlattn.linalg import importance_sample, product_probabilities, sampled_product


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_draws_follow_their_weights(dtype):
    weights = np.asarray([0, 1, 0, 3, 6, 0], dtype)
    index, log_weight = importance_sample(weights, 6000, rng=0)
    counts = np.bincount(index, minlength=6)
    assert np.all(counts[weights == 0] == 0)
    assert scipy.stats.chisquare(counts[weights > 0], 600 * weights[weights > 0].astype(float)).pvalue > 1e-4
    assert log_weight.dtype == dtype
    np.testing.assert_allclose(np.exp(log_weight), 10 / weights[index] / 6000, rtol=1e-5)


def test_priority_sampling_is_unbiased_and_distinct():
    rng = np.random.default_rng(0)
    weights, values = rng.exponential(size=12) ** 2, rng.standard_normal(12)
    weights[[2, 5]] = 0
    values[[2, 5]] = 0
    estimates = []
    for _ in range(1500):
        index, log_weight = importance_sample(weights, 4, replace=False, rng=rng)
        assert len(set(index.tolist())) == 4
        estimates.append(np.sum(np.exp(log_weight) * values[index]))
    assert abs(np.mean(estimates) - values.sum()) < 5 * np.std(estimates) / np.sqrt(1500)
    index, log_weight = importance_sample(weights, 50, replace=False, rng=0)
    assert sorted(index.tolist()) == np.flatnonzero(weights).tolist()
    np.testing.assert_array_equal(log_weight, 0)


def test_tiny_and_huge_weights():
    weights = np.full(100_000, 1e-30, np.float32)
    weights[17] = 1.0
    index, _ = importance_sample(weights, 500, rng=0)
    assert np.all(index == 17)
    assert importance_sample(np.full(3, 1e300), 4, rng=0).index.shape == (4,)
    assert importance_sample(np.ones(3), 0).index.shape == (0,)
    assert importance_sample([1, 2] * np.ones(2, int), 3, rng=0).log_weight.dtype == np.float64


@pytest.mark.parametrize("kind", ["optimal", "rows", "uniform"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_sampled_product(kind, dtype):
    a, b = (
        np.sqrt(np.abs(spiked(30, 6, dtype))).T.astype(dtype),
        np.cos(spiked(30, 3, dtype, seed=1).real).astype(dtype),
    )
    probabilities = product_probabilities(a, b, kind)
    np.testing.assert_allclose(probabilities.sum(), 1)
    rng = np.random.default_rng(0)
    estimates = np.stack([sampled_product(a, b, 10, kind=kind, rng=rng) for _ in range(500)])
    error = np.mean(np.abs(estimates - a @ b) ** 2, axis=0).sum()
    norms = np.linalg.norm(a, axis=0) ** 2 * np.linalg.norm(b, axis=1) ** 2
    exact = (np.sum(norms / probabilities) - np.linalg.norm(a @ b) ** 2) / 10
    np.testing.assert_allclose(error, exact, rtol=0.3)
    assert np.linalg.norm(estimates.mean(axis=0) - a @ b) < 5 * np.sqrt(exact / 500)


def test_products_of_nothing():
    assert sampled_product(np.ones((2, 0)), np.ones((0, 3)), 4).shape == (2, 3)
    np.testing.assert_array_equal(sampled_product(np.zeros((2, 5)), np.zeros((5, 3)), 4, rng=0), np.zeros((2, 3)))


def test_terms_of_opposite_scales():
    found = product_probabilities(np.asarray([[1, 1e-180]]), np.asarray([[1.0], [1e180]]))
    np.testing.assert_allclose(found, [0.5, 0.5])


def test_probabilities_by_their_formulas():
    a, b = spiked(9, 3).T, spiked(9, 2, seed=1)
    left, right = np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=1)
    for kind, weights in (("optimal", left * right), ("rows", right**2), ("uniform", np.ones(9))):
        np.testing.assert_allclose(product_probabilities(a, b, kind), weights / weights.sum(), rtol=1e-12)


class Scripted(np.random.Generator):
    """A generator whose draws are given."""

    def __init__(self, *draws):
        super().__init__(np.random.PCG64(0))
        self.draws = draws

    def random(self, size):
        assert size == len(self.draws)
        return np.asarray(self.draws)


def test_draws_at_the_ends():
    draws = Scripted(0.0, 0.25, 0.5, 1 - 2**-53)
    assert importance_sample(np.asarray([0.0, 1, 1, 0, 2, 0]), 4, rng=draws).index.tolist() == [1, 2, 4, 4]


@pytest.mark.parametrize("weights", [[1e308, 1e308], [5e-324, 0, 5e-324], [1e308, 1e-300], [1e300, 0, 1e300]])
def test_weights_at_the_limits_of_floats(weights):
    weights = np.asarray(weights)
    positive = weights[weights > 0]
    with np.errstate(all="ignore"):
        share = positive / weights.max()
    index, log_weight = importance_sample(weights, 8, rng=0)
    assert np.all(weights[index] > 0)
    np.testing.assert_allclose(log_weight, np.log(share.sum() / 8 / (weights[index] / weights.max())), atol=1e-12)
    index, log_weight = importance_sample(weights, 2, replace=False, rng=0)
    assert sorted(index.tolist()) == np.flatnonzero(weights).tolist()
    np.testing.assert_array_equal(log_weight, 0)
    index, log_weight = importance_sample(weights, 1, replace=False, rng=0)
    assert index.shape == (1,)
    assert np.isfinite(log_weight[0])


def test_priority_by_its_definition():
    weights, uniform = np.asarray([4.0, 1.0, 0.0, 2.0]), np.asarray([0.5, 0.75, 0.1, 0.2])
    index, log_weight = importance_sample(weights, 2, replace=False, rng=Scripted(*(1 - uniform)))
    assert index.tolist() == [3, 0]  # priorities 8, 4/3, 0, 10
    np.testing.assert_allclose(log_weight, 0, atol=1e-15)
    index, log_weight = importance_sample(weights, 1, replace=False, rng=Scripted(*(1 - uniform)))
    np.testing.assert_allclose(log_weight, [np.log(8 / 2)])
