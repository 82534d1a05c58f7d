"""Sampled normalisers, over all draws."""

import itertools

import numpy as np
import pytest
from scipy import stats

from nlattn.bounds import normaliser_deviation, normaliser_mean, normaliser_variance, normaliser_variance_limit
from nlattn.linalg import importance_sample

SCORES = np.asarray([[2.0, 0.0, -1.0, 0.5]])
HEAVY = np.asarray([[True, False, False, False]])
P = np.exp(SCORES) / np.sum(np.exp(SCORES))


def normalisers(probabilities, size):
    """Probability and value of each draw of `size` keys."""
    weights = np.exp(SCORES[0])
    terms = np.where(HEAVY[0], 0, weights / np.where(probabilities > 0, probabilities, np.inf))
    for draw in itertools.product(range(4), repeat=size):
        draw = list(draw)
        yield np.prod(probabilities[draw]), weights[0] + np.mean(terms[draw])


@pytest.mark.parametrize("probabilities", [np.full(4, 0.25), np.asarray([0.0, 0.2, 0.5, 0.3])])
@pytest.mark.parametrize("size", [1, 3])
def test_all_draws(probabilities, size):
    """normaliser_mean and normaliser_variance are exact over all draws; a heavy key may have the probability 0."""
    chance, found = np.asarray(list(normalisers(probabilities, size))).T
    mean = normaliser_mean(SCORES)[0]
    assert np.sum(chance * found) == pytest.approx(mean, rel=1e-12)
    variance = np.sum(chance * (found / mean - 1) ** 2)
    assert variance == pytest.approx(normaliser_variance(P, HEAVY, probabilities, size)[0], rel=1e-10)
    assert variance <= normaliser_variance_limit(P, HEAVY, probabilities, size)[0]
    for failure in (0.3, 0.1, 0.01):
        limit = normaliser_deviation(P, HEAVY, probabilities, size, failure)[0]
        assert np.sum(chance[np.abs(found / mean - 1) > limit]) <= failure


def test_normaliser_mean_needs_a_chance_for_every_light_key():
    chance, found = np.asarray(list(normalisers(np.asarray([0.0, 0.0, 0.6, 0.4]), 2))).T
    assert np.sum(chance * found) == pytest.approx(normaliser_mean(SCORES)[0] - 1, rel=1e-12)


def test_error_falls_like_the_root_of_the_draws():
    """Root mean square errors agree with normaliser_variance, and fall like m^(-1/2)."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(60, 0.3), size=1)
    heavy = weights > 0.1
    sizes, errors = np.asarray([4, 16, 64, 256]), []
    for size in sizes:
        index, log_weight = importance_sample(np.ones(60), 2000 * size, rng=rng)
        terms = np.where(heavy[0], 0, weights[0])[index] * np.exp(log_weight) * 2000
        found = np.sum(weights[heavy]) + np.sum(terms.reshape(2000, size), axis=1)
        errors.append(np.sqrt(np.mean((found - 1) ** 2)))
        expected = np.sqrt(normaliser_variance(weights, heavy, np.full(60, 1 / 60), int(size))[0])
        assert errors[-1] == pytest.approx(expected, rel=0.1)
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.04)


def test_normaliser_variance_limit_is_attained_by_rare_draws():
    """For one light key of probability p the variance is 1 - p times the limit."""
    weights, heavy, p = np.asarray([[0.9, 0.1]]), np.asarray([[True, False]]), np.asarray([0.999, 0.001])
    limit = normaliser_variance_limit(weights, heavy, p, 7)
    np.testing.assert_allclose(normaliser_variance(weights, heavy, p, 7), (1 - 0.001) * limit)
    assert normaliser_variance_limit(weights, heavy, p, 7) == pytest.approx(0.1**2 / 0.001 / 7)


@pytest.mark.parametrize("p", [0.02, 0.2, 0.7])
@pytest.mark.parametrize("size", [5, 40, 300])
@pytest.mark.parametrize("failure", [0.2, 0.02, 1e-4])
def test_normaliser_deviation_against_binomial_tails(p, size, failure):
    """With one light key the number of its draws is binomial; for many draws the bound is within a factor of 1.8."""
    weights, heavy = np.asarray([[0.6, 0.4]]), np.asarray([[True, False]])
    t = normaliser_deviation(weights, heavy, np.asarray([1 - p, p]), size, failure)[0]
    shift = t * p * size / 0.4  # of the number of draws
    law = stats.binom(size, p)
    tail = law.sf(np.floor(size * p + shift + 1e-9)) + law.cdf(np.ceil(size * p - shift - 1e-9) - 1)
    assert tail <= failure
    if size == 300 and p > 0.1:
        assert t < 1.8 * stats.norm.isf(failure / 2) * 0.4 * np.sqrt((1 - p) / (p * size))


def test_draws_for_an_error():
    """The number of draws that normaliser_deviation's documentation gives is the least for which the formula holds."""
    weights, heavy, p = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]]), np.full(3, 1 / 3)
    e, failure = 0.07, 0.01
    log, ell = np.log(2 / failure), 0.5
    variance, b = 3 * (0.09 + 0.04) - ell**2, max(0.9 - ell, ell)
    size = int(np.ceil(2 * log * (variance + b * e / 3) / e**2))
    assert normaliser_deviation(weights, heavy, p, size, failure)[0] <= e
    assert normaliser_deviation(weights, heavy, p, size - 1, failure)[0] > e


@pytest.mark.parametrize("failure", [0.0, 1.0])
def test_normaliser_deviation_refuses_failure(failure):
    with pytest.raises(ValueError, match=r"\Afailure must "):
        normaliser_deviation(P, HEAVY, np.full(4, 0.25), 3, failure)
