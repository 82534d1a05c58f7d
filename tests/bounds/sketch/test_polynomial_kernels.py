"""Exact moments of polynomial sketches: by enumeration and quadrature, and where they fail."""

import itertools
import math

import numpy as np
import pytest
from scripted import Scripted, side_by_side, words

from nlattn.bounds import (
    count_sketch_variance,
    polynomial_sketch_variance,
    self_tensored_mean,
    tensor_sketch_kernel_error,
    tensor_sketch_variance,
)
from nlattn.sketch import PolynomialSketch, TensorSketch


@pytest.mark.parametrize(("m", "degree"), [(1, 2), (2, 2), (3, 2), (4, 2), (2, 3)])
def test_tensor_sketch_variance_by_enumeration(m, degree):
    x, y = np.asarray([1.0, -2.0]), np.asarray([0.5, 1.5])
    hashes, signs = ([word.reshape(degree, 2) for word in words(range(k), 2 * degree)] for k in (m, 2))
    estimates = []
    for copies, rng in side_by_side(itertools.product(hashes, signs), axis=1):
        sketch = TensorSketch(2 * copies, m, degree, rng=rng)
        u, v = (sketch.apply(np.kron(np.eye(copies), z)) for z in (x, y))
        estimates.extend(np.sum(u * v, axis=1))
    exact = (x @ y) ** degree
    np.testing.assert_allclose(np.mean(estimates), exact, rtol=1e-12)
    variance = np.mean((np.asarray(estimates) - exact) ** 2)
    np.testing.assert_allclose(variance, tensor_sketch_variance(x, y, m, degree), rtol=1e-12)


def test_tensor_sketch_variance_of_degree_one():
    x, y = np.random.default_rng(0).standard_normal((2, 7))
    np.testing.assert_allclose(tensor_sketch_variance(x, y, 6, 1), count_sketch_variance(x, y, 6), rtol=1e-13)


def test_tensor_sketch_variance_needs_independent_hashes():
    """One hash used twice makes (x.y)^2 a sum of all pairs that collide: even the mean is wrong."""
    x = np.asarray([1.0, 2.0])
    estimates = []
    for h in words(range(2), 2):
        for s in words((0, 1), 2):
            u = TensorSketch(2, 2, 2, rng=Scripted(np.stack([h, h]), np.stack([s, s]))).apply(x)
            estimates.append(u @ u)
    exact = (x @ x) ** 2
    assert np.mean(estimates) > 1.2 * exact
    assert np.mean((np.asarray(estimates) - exact) ** 2) > 1.2 * tensor_sketch_variance(x, x, 2, 2)


def test_tensor_sketch_kernel_error_is_above_the_exact_one():
    rng = np.random.default_rng(0)
    for degree in (1, 2, 3, 5):
        for m in (1, 2, 7, 8):
            x, y = rng.standard_normal((2, 4, 3))
            exact = sum(tensor_sketch_variance(a, b, m, degree) for a in x for b in y)
            assert exact <= tensor_sketch_kernel_error(x, y, m, degree)
            assert m == 1 or tensor_sketch_kernel_error(np.eye(1), np.eye(1), m, degree) <= (3**degree - 1) / m
    # A spread vector nearly attains it.
    z = np.full((1, 500), 500**-0.5)
    for m in (7, 1000):
        assert tensor_sketch_variance(z[0], z[0], m, 3) > 0.95 * tensor_sketch_kernel_error(z, z, m, 3)


def test_tensor_sketch_kernel_error_of_a_repeated_hash():
    """With dependent hashes the error exceeds tensor_sketch_kernel_error as m grows: it does not vanish."""
    x = np.eye(2)[:1] + 0.9 * np.eye(2)[1:]
    m, errors = 64, []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        h, s = rng.integers(0, m, 2), rng.integers(0, 2, 2)
        phi = TensorSketch(2, m, 2, rng=Scripted(np.stack([h, h]), np.stack([s, s]))).apply(x)
        errors.append(np.sum((phi @ phi.T - (x @ x.T) ** 2) ** 2))
    assert np.mean(errors) > tensor_sketch_kernel_error(x, x, m, 2)


def quadrature(r, degree, nonnegative, x, y):
    """Means of z and z^2, z = phi(x).phi(y) for scalar inputs, over Gauss-Hermite nodes for the draws."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    half = degree // 2 if nonnegative else degree
    shapes = node_shapes(half, r)
    sizes = [math.prod(shape) for shape in shapes]
    total, first, second = 0.0, 0.0, 0.0
    for which in itertools.product(range(3), repeat=sum(sizes)):
        draws = nodes[list(which)]
        parts = np.split(draws, np.cumsum(sizes)[:-1])
        rng = Scripted(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)))
        sketch = PolynomialSketch(1, r, degree, nonnegative=nonnegative, rng=rng)
        phi = sketch.apply(np.asarray([[x], [y]]))
        weight = np.prod(weights[list(which)])
        z = phi[0] @ phi[1]
        total, first, second = total + weight, first + weight * z, second + weight * z**2
    return first / total, second / total


def node_shapes(degree, r):
    """Shapes of the Gaussian matrices, in the order in which they are drawn: children before their parent."""
    if degree == 1:
        return []
    halves = degree - degree // 2, degree // 2
    return [s for half in halves for s in node_shapes(half, r)] + [(r, 1 if half == 1 else r) for half in halves]


@pytest.mark.parametrize(("r", "degree"), [(1, 2), (2, 2), (1, 3), (1, 4)])
def test_polynomial_sketch_variance_by_quadrature(r, degree):
    x, y = 0.8, -1.3
    mean, square = quadrature(r, degree, False, x, y)
    np.testing.assert_allclose(mean, (x * y) ** degree, rtol=1e-12)
    variance = polynomial_sketch_variance(np.asarray([x]), np.asarray([y]), r, degree)
    np.testing.assert_allclose(square - mean**2, variance, rtol=1e-11)


@pytest.mark.parametrize("r", [1, 2])
def test_self_tensored_mean_by_quadrature(r):
    x, y = 0.8, -1.3
    mean, _ = quadrature(r, 4, True, x, y)
    np.testing.assert_allclose(mean, self_tensored_mean(np.asarray([x]), np.asarray([y]), r, 4), rtol=1e-12)
    assert mean > 1.5 * (x * y) ** 4


def test_self_tensored_mean_is_exact_for_degree_two():
    x, y = np.random.default_rng(0).standard_normal((2, 5))
    phi = PolynomialSketch(5, 3, 2, nonnegative=True, rng=0).apply(np.stack([x, y]))
    np.testing.assert_allclose(phi[0] @ phi[1], (x @ y) ** 2, rtol=1e-12)
    np.testing.assert_allclose(self_tensored_mean(x, y, 3, 2), (x @ y) ** 2, rtol=1e-12)


def test_polynomial_sketch_variance_of_unit_vectors():
    """The variance is (1 + 8/r)^(p-1) - 1, about linear in p, where a TensorSketch with r features has 2^(p+1) / r."""
    x, r = np.full(400, 0.05), 10**4
    for degree in (1, 2, 3, 4, 7, 8):
        exact = (1 + 8 / r) ** (degree - 1) - 1
        np.testing.assert_allclose(polynomial_sketch_variance(x, x, r, degree), exact, rtol=1e-9, atol=1e-12)
    assert tensor_sketch_variance(x, x, r, 8) > 8 * polynomial_sketch_variance(x, x, r, 8)


def test_polynomial_sketch_variance_needs_two_factors():
    """(G x)^2 in place of (G x)(H x) is biased: its mean is 3 |x|^4, and polynomial_sketch_variance says nothing."""
    r, x = 200, np.asarray([0.6, 0.8])
    errors = []
    for seed in range(200):
        u = (np.random.default_rng(seed).standard_normal((r, 2)) @ x) ** 2 / math.sqrt(r)
        errors.append((u @ u - 1) ** 2)
    assert np.mean(errors) > 20 * polynomial_sketch_variance(x, x, r, 2)


def test_padding_raises_the_polynomial_sketch_variance():
    """Padding the degree to a power of two with constant leaves gives more than polynomial_sketch_variance."""

    def joined(one, two, r):
        (u, w), (t, v) = one, two
        g = (u + 2 * w) * (t + 2 * v) / r
        return (1 - 1 / r) * u * t + g, (1 - 1 / r) * w * v + g

    for s in (0.0, 0.5, 1.0):
        x, y = np.asarray([1.0, 0.0]), np.asarray([s, math.sqrt(1 - s**2)])
        for degree, r in itertools.product((3, 5, 6, 7), (8, 64)):
            leaves = [(1.0, s**2)] * degree + [(1.0, 1.0)] * ((1 << (degree - 1).bit_length()) - degree)
            while len(leaves) > 1:
                leaves = [joined(*pair, r) for pair in zip(leaves[::2], leaves[1::2], strict=True)]
            assert leaves[0][1] - s ** (2 * degree) > polynomial_sketch_variance(x, y, r, degree)
