"""Softmax matrices: their norms, and their product with sampled values."""

import itertools

import numpy as np
import pytest

from nlattn.bounds import sampled_attention_spectral, sampled_product_error, stable_rank_limit, stochastic_norm

rng = np.random.default_rng(0)
P, V = rng.dirichlet(np.full(5, 0.5), size=6), rng.standard_normal((5, 2)) * np.asarray([[4], [1], [1], [0.3], [0.1]])
SCALE = np.linalg.norm(P, 2) * np.linalg.norm(V, 2)
SQUARES = np.sum(V**2, axis=1) / np.sum(V**2)


def test_sampled_attention_spectral_over_all_draws():
    terms = [np.outer(P[:, j], V[j]) / SQUARES[j] for j in range(5)]
    draws = list(itertools.product(range(5), repeat=4))
    chance = np.asarray([np.prod(SQUARES[list(draw)]) for draw in draws])
    errors = [np.linalg.norm(sum(terms[j] for j in draw) / 4 - P @ V, ord) for draw in draws for ord in ("fro", 2)]
    frobenius, spectral = np.asarray(errors).reshape(-1, 2).T / SCALE
    assert np.all(spectral <= frobenius * (1 + 1e-12))
    for failure in (0.5, 0.2, 0.05, 0.01):
        assert np.sum(chance[frobenius > sampled_attention_spectral(P, V, 4, failure)]) <= failure


@pytest.mark.parametrize("quality", [1.0, 0.5, 0.1])
def test_sampled_attention_spectral_for_mixtures(quality):
    """Draws from mixtures have the second moment that Markov's inequality needs."""
    p = quality * SQUARES + (1 - quality) / 5
    limit = sampled_attention_spectral(P, V, 7, 0.2, quality) * SCALE
    assert sampled_product_error(P, V, p, 7) <= 0.2 * limit**2
    # Nearly attained: draws that are wasted on a value of 0.
    one, p = np.asarray([[1.0, 0.0]]), np.asarray([quality, 1 - quality])
    limit = sampled_attention_spectral(one, one.T, 7, 0.2, quality)
    assert sampled_product_error(one, one.T, p, 7) == pytest.approx((1 - quality) * 0.2 * limit**2, abs=1e-15)


def test_sampled_attention_spectral_needs_the_norms():
    """Uniform draws for values of which one is large have a far larger second moment than that of b = 1."""
    values = np.zeros((50, 1))
    values[0] = 1
    spiked = np.zeros((3, 50))
    spiked[:, 0] = 1
    limit = sampled_attention_spectral(spiked, values, 10, 0.1) * np.linalg.norm(spiked, 2)
    assert sampled_product_error(spiked, values, np.full(50, 0.02), 10) > 40 * 0.1 * limit**2


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((P, V, 0, 0.1), "size"), ((P, V, 3, 1.0), "failure"), ((P, V, 3, 0.1, 0.0), "quality")],
)
def test_sampled_attention_spectral_refuses(arguments, name):
    with pytest.raises(ValueError, match=rf"\A{name} must "):
        sampled_attention_spectral(*arguments)


def test_stochastic_norm_is_attained():
    """Rows that all attend to one key attain the bound, and uniform rows the lower limit."""
    one = np.zeros((7, 4))
    one[:, 2] = 1
    assert np.linalg.norm(one, 2) == pytest.approx(stochastic_norm(one))
    for rows, keys in ((7, 4), (4, 7)):
        least = np.sqrt(rows / keys)
        assert np.linalg.norm(np.full((rows, keys), 1 / keys), 2) == pytest.approx(least)
        assert np.linalg.norm(rng.dirichlet(np.ones(keys), size=rows), 2) >= least


def test_stochastic_norm_needs_normalised_rows():
    assert np.linalg.norm(np.ones((2, 2)), 2) > stochastic_norm(np.ones((2, 2)))


def test_stable_rank_limit_is_attained():
    """The identity and uniform rows attain the bound, unnormalised rows break it, and it can be far off."""

    def stable_rank(weights):
        return (np.linalg.norm(weights) / np.linalg.norm(weights, 2)) ** 2

    for weights in (np.eye(4), np.full((3, 5), 0.2)):
        assert stable_rank(weights) == pytest.approx(stable_rank_limit(weights))
    assert stable_rank(0.1 * np.eye(4)) > stable_rank_limit(0.1 * np.eye(4))
    one = np.zeros((6, 6))
    one[:, 0] = 1
    assert stable_rank(one) == pytest.approx(1)
    assert stable_rank_limit(one) == pytest.approx(36)
