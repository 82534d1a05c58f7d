"""Alternating least squares on sampled rows."""

import numpy as np
import pytest
from cp_tensors import normal, planted, reconstructed, relative

from nlattn.decomp import cp
from nlattn.decomp._sampling import draw_rows, row_probabilities


def test_sampled_is_nearly_as_good():
    x, _ = planted((40, 50, 45), 4, noise=0.3)
    exact = cp(x, 4, rng=0, tol=1e-9, iterations=500).error
    result = cp(x, 4, rng=0, method="sampled")
    assert exact * (1 - 1e-9) <= result.error < 1.01 * exact
    few = cp(x, 4, rng=0, method="sampled", samples=12, iterations=30, tol=0)
    assert few.error > 1.001 * exact


def test_rows_are_drawn_with_the_probabilities_given():
    """Combinations of rows are drawn in proportion to the product of leverage scores, and rows of zeros never."""
    a, b = normal((4, 2), seed=1), normal((3, 2), seed=2)
    a[2] = 0
    scores = [np.sum(np.linalg.qr(m)[0] ** 2, axis=1) / 2 for m in (a, b)]
    np.testing.assert_allclose(row_probabilities(a), scores[0], atol=1e-15)
    indices, probability = draw_rows([a, b], 40_000, np.random.default_rng(0))
    product = np.outer(*scores)
    np.testing.assert_allclose(probability, product[indices[0], indices[1]], rtol=1e-12)
    counts = np.zeros((4, 3))
    np.add.at(counts, (indices[0], indices[1]), 1)
    assert np.all(counts[2] == 0)
    chi = np.sum((counts - 40_000 * product)[product > 1e-12] ** 2 / (40_000 * product[product > 1e-12]))
    assert chi < 30


class Constant:
    """A generator that draws one number again and again."""

    def __init__(self, number):
        self.number = number

    def random(self, n):
        return np.full(n, self.number)


# 1 stands for a product with the sum of all probabilities that rounding has raised to that sum.
@pytest.mark.parametrize(("number", "row"), [(0.0, 2), (np.nextafter(1.0, 0.0), 98), (1.0, 98)])
def test_rows_of_zeros_at_the_ends_are_not_drawn(number, row):
    a = np.full((104, 1), 0.1, np.float32)
    a[:2], a[99:] = 0, 0
    (indices,), probability = draw_rows([a], 3, Constant(number))
    assert np.all(indices == row)
    assert np.all(probability > 0)


def test_sampled_fits_settle_to_rounding():
    x, _ = planted((6, 7, 5), 2, seed=1)
    result = cp(x, 2, method="sampled", samples=20, tol=0, iterations=70, rng=1)
    assert relative(reconstructed(result), x) < 500 * np.finfo(float).eps
    assert 0 <= result.error < 500 * np.finfo(float).eps
