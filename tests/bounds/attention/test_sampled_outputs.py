"""Ratios of sampled numerators and normalisers, over all draws."""

import numpy as np
import pytest

from nlattn.bounds import normaliser_variance, ratio_error, ratio_identity, ratio_variance

rng = np.random.default_rng(0)
P, VALUES = rng.dirichlet(np.ones(4), size=1), rng.standard_normal((4, 2))
OUT = P[0] @ VALUES


def ratios(heavy, probabilities, size, weights=P[0]):
    """Probability, d'/d and o' - o of each possible draw of `size` keys."""
    draws = np.indices((4,) * size).reshape(size, -1).T
    terms = np.where(heavy, 0, weights / np.where(probabilities > 0, probabilities, 1))
    exact = np.where(heavy, weights, 0)
    ratio = np.sum(exact) + np.mean(terms[draws], axis=1)
    sampled = np.mean(terms[draws][..., None] * VALUES[draws], axis=1)
    errors = (exact @ VALUES + sampled) / ratio[:, None] - weights @ VALUES
    return np.prod(probabilities[draws], axis=1), ratio, errors


@pytest.mark.parametrize("heavy", [[True, False, False, False], [False] * 4])
@pytest.mark.parametrize("size", [1, 3])
def test_all_draws(heavy, size):
    """ratio_variance is exact, and ratio_error above the mean squared error."""
    heavy, p = np.asarray(heavy), np.asarray([0.1, 0.2, 0.4, 0.3])
    chance, ratio, error = ratios(heavy, p, size)
    squares = np.sum(error**2, axis=1)
    expected = ratio_variance(P, VALUES, heavy[None], p, size)[0]
    assert np.sum(chance * ratio**2 * squares) == pytest.approx(expected, rel=1e-10)
    assert np.sum(chance * squares) <= ratio_error(P, VALUES, heavy[None], p, size)[0]
    # The weighting matters.
    assert np.sum(chance * squares) != pytest.approx(expected, rel=1e-2)


def test_ratio_identity_for_any_weights():
    heavy = np.asarray([True, False, False, False])
    index, weights = np.asarray([[1, 3, 3, 0], [2, 2, 0, 1]]), rng.uniform(0.1, 9, (2, 4))
    found = []
    for draw, w in zip(index, weights, strict=True):
        used = np.where(heavy[draw], 0, w * P[0, draw])
        found.append((P[0, 0] * VALUES[0] + used @ VALUES[draw]) / (P[0, 0] + np.sum(used)) - OUT)
    np.testing.assert_allclose(ratio_identity(P[0], VALUES, heavy, index, weights), found, rtol=1e-12)


def test_delta_method():
    """Where the normaliser is nearly exact, ratio_variance is nearly the mean squared error itself."""
    rng = np.random.default_rng(0)
    weights, values = rng.dirichlet(np.ones(80), size=1), rng.standard_normal((80, 3))
    heavy, size = weights > np.sort(weights)[:, -9:-8], 150
    assert normaliser_variance(weights, heavy, np.full(80, 1 / 80), size)[0] < 0.2**2
    index = rng.integers(80, size=(4000, size))
    error = ratio_identity(weights[0], values, heavy[0], index, np.full((4000, size), 80 / size))
    rms = np.sqrt(np.mean(np.sum(error**2, axis=1)))
    assert 0.9 < rms / np.sqrt(ratio_variance(weights, values, heavy, np.full(80, 1 / 80), size)[0]) < 1.1


def test_bias_falls_like_the_number_of_draws():
    """The bias is at most the root of normaliser_variance times the error; ratio_variance says how large that is."""
    heavy, p, weights = np.zeros(4, bool), np.full(4, 0.25), np.asarray([[0.4, 0.25, 0.2, 0.15]])
    products = []
    for size in (2, 4, 8):
        chance, _, error = ratios(heavy, p, size, weights[0])
        bias, square = np.linalg.norm(chance @ error), np.sum(chance * np.sum(error**2, axis=1))
        assert bias <= np.sqrt(normaliser_variance(weights, heavy[None], p, size)[0] * square)
        products.append(size * bias)
        assert bias**2 < ratio_variance(weights, VALUES, heavy[None], p, size)[0]
    assert products[2] == pytest.approx(products[1], rel=0.2)


def test_ratio_error_within_a_factor_of_two():
    """For one draw of two keys, both equally likely, the mean squared error is more than half of the bound."""
    weights, values, p = np.asarray([[0.1, 0.9]]), np.asarray([[0.0], [1.0]]), np.full(2, 0.5)
    bound = ratio_error(weights, values, np.zeros((1, 2), bool), p, 1)[0]
    assert bound == pytest.approx(0.9**2)
    assert bound / 2 < (0.9**2 + 0.1**2) / 2 < bound
