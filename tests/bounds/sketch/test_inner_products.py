"""Exact second moments of linear sketches: by enumeration of all draws, and where they fail."""

import itertools

import numpy as np
import pytest
from scripted import Scripted, side_by_side, words

from nlattn.bounds import (
    balanced_count_sketch_variance,
    count_sketch_variance,
    gaussian_variance,
    sketched_product,
    sparse_sign_variance,
    srht_variance,
)
from nlattn.sketch import count_sketch, gaussian_sketch, sketch_operator, sparse_sign_sketch, srht_sketch

X, Y = np.asarray([1.0, -2.0, 0.5]), np.asarray([2.0, 1.0, 3.0])


def moments(products, weights=None):
    """Mean and mean squared distance from x.y."""
    products = np.asarray(products)
    return np.average(products, weights=weights), np.average((products - X @ Y) ** 2, weights=weights)


def product(sketch):
    return (sketch @ X) @ (sketch @ Y)


def products_of_columns(draw, draws):
    """Sx.Sy for each of the given draws of a sketch of three columns that are independent of each other."""
    found = []
    for copies, rng in side_by_side(draws):
        sketch = draw(3 * copies, rng)
        u, v = (sketch @ np.kron(np.eye(copies), z[:, None]) for z in (X, Y))
        found.append(np.sum(u * v, axis=0))
    return np.concatenate(found)


def test_gaussian_variance_by_quadrature():
    """With Gauss-Hermite nodes in place of draws the moments are exact: they have degree 4 in each entry."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    x, y, m = np.asarray([1.0, -2.0]), np.asarray([2.0, 0.5]), 2
    which = words(range(3), 2 * m)
    products = np.asarray([(s @ x) @ (s @ y) for s in (_gaussian(nodes[w], m) for w in which)])
    weights = np.asarray([np.prod(weights[w]) for w in which])
    np.testing.assert_allclose(np.average(products, weights=weights), x @ y, rtol=1e-13)
    variance = np.average((products - x @ y) ** 2, weights=weights)
    np.testing.assert_allclose(variance, gaussian_variance(x, y, m), rtol=1e-13)


def _gaussian(draws, m):
    return gaussian_sketch(m, draws.size // m, rng=Scripted(draws.reshape(m, -1)))


@pytest.mark.parametrize("m", [1, 2, 3])
def test_count_sketch_variance_by_enumeration(m):
    draws = ((h, s[:, None]) for h, s in itertools.product(words(range(m), 3), words((0, 1), 3)))
    mean, variance = moments(products_of_columns(lambda n, rng: count_sketch(m, n, rng=rng), draws))
    np.testing.assert_allclose([mean, variance], [X @ Y, count_sketch_variance(X, Y, m)], rtol=1e-13)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_balanced_count_sketch_variance_by_enumeration(m):
    places = itertools.permutations(range(m * -(-3 // m)))
    draws = itertools.product(map(np.asarray, places), words((0, 1), 3))
    products = [product(count_sketch(m, 3, balanced=True, rng=Scripted(p, s[:, None]))) for p, s in draws]
    mean, variance = moments(products)
    exact = balanced_count_sketch_variance(X, Y, m)
    np.testing.assert_allclose([mean, variance], [X @ Y, exact], rtol=1e-13, atol=1e-12)
    assert (exact == 0) == (m >= 3)


@pytest.mark.parametrize(("m", "nonzeros"), [(2, 2), (3, 1), (3, 2)])
def test_sparse_sign_variance_by_enumeration(m, nonzeros):
    """Floyd's sampling makes sets of equal probability; all its draws are enumerated."""
    steps = [words(range(m - nonzeros + k + 1), 3) for k in range(nonzeros)]
    signs = [word.reshape(3, nonzeros) for word in words((0, 1), 3 * nonzeros)]
    draws = itertools.product(*steps, signs)
    mean, variance = moments(products_of_columns(lambda n, rng: sparse_sign_sketch(m, n, nonzeros, rng=rng), draws))
    np.testing.assert_allclose([mean, variance], [X @ Y, sparse_sign_variance(X, Y, m)], rtol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_srht_variance_by_enumeration(m):
    draws = itertools.product(words((0, 1), 3), map(np.asarray, itertools.combinations(range(4), m)))
    mean, variance = moments([product(srht_sketch(m, 3, rng=Scripted(s, rows))) for s, rows in draws])
    exact = srht_variance(X, Y, m)
    np.testing.assert_allclose([mean, variance], [X @ Y, exact], rtol=1e-13, atol=1e-12)
    assert (exact == 0) == (m == 4)


def test_variances_need_independent_vectors():
    """For vectors chosen after the sketch, in its kernel, none of the variances means anything.

    gaussian_variance, count_sketch_variance, sparse_sign_variance, balanced_count_sketch_variance, srht_variance.
    """
    n, m = 64, 8
    bounds = {
        "gaussian": gaussian_variance,
        "count": count_sketch_variance,
        "sparse_sign": sparse_sign_variance,
        "balanced_count": balanced_count_sketch_variance,
        "srht": srht_variance,
    }
    for kind, bound in bounds.items():
        sketch = sketch_operator(kind, m, n, rng=0)
        x = np.linalg.svd(sketch.matrix(np.zeros(1)))[2][-1]  # S x = 0
        error = (np.sum((sketch @ x) ** 2) - 1) ** 2
        assert error > 3 * bound(x, x, m)


def test_unsigned_count_sketch_is_biased():
    """Without signs, count_sketch_variance fails: collisions of positive entries only add up."""
    x = np.ones(3)
    products = []
    for h in words(range(2), 3):
        sketched = np.bincount(h, weights=x, minlength=2)
        products.append(sketched @ sketched)
    assert np.mean((np.asarray(products) - x @ x) ** 2) > 1.5 * count_sketch_variance(x, x, 2)


def test_without_replacement_matters():
    """Rows drawn with replacement give the variance without the factor (N - m) / (N - 1) of srht_variance."""
    products = []
    for s in words((0, 1), 3):
        full = srht_sketch(4, 3, rng=Scripted(s, np.arange(4)))
        u, v = 2 * (full @ X), 2 * (full @ Y)
        products += [np.mean(u[rows] * v[rows]) for rows in words(range(4), 2)]
    np.testing.assert_allclose(moments(products)[1], srht_variance(X, Y, 2) * 3 / 2, rtol=1e-13)


@pytest.mark.parametrize("kind", ["gaussian", "sparse_sign", "count", "balanced_count", "srht"])
def test_sketched_product_is_the_sum_of_its_entries(kind):
    variances = {
        "gaussian": gaussian_variance,
        "sparse_sign": sparse_sign_variance,
        "count": count_sketch_variance,
        "balanced_count": balanced_count_sketch_variance,
        "srht": srht_variance,
    }
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((11, 3)), rng.standard_normal((11, 2))
    total = sum(variances[kind](a, b, 4) for a in A.T for b in B.T)
    np.testing.assert_allclose(sketched_product(A, B, 4, kind), total, rtol=1e-13)
    # One row: signs cancel, and nothing is lost.
    assert (sketched_product(A[:1], B[:1], 1, kind) == 0) == (kind != "gaussian")


def test_sampling_a_coherent_basis_loses_it():
    """Uniform row sampling, scaled like a sketch, has no such bound: it misses sketched_product by the factor n / m."""
    n, m, k = 400, 40, 3
    U, rng = np.eye(n)[:, :k], np.random.default_rng(0)
    errors = []
    for _ in range(400):
        rows = rng.choice(n, m, replace=False)
        errors.append(np.sum((n / m * U[rows].T @ U[rows] - np.eye(k)) ** 2))
    assert np.mean(errors) > 50 * sketched_product(U, U, m, "srht")
