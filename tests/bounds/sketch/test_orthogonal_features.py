"""Variances of random features with orthogonal directions: by quadrature over rotations and lengths in the plane."""

import numpy as np
import pytest
from scipy.special import hyp1f1

from nlattn.bounds import (
    hyperbolic_variance,
    orthogonal_hyperbolic_variance,
    orthogonal_moment,
    orthogonal_positive_variance,
    orthogonal_trigonometric_variance,
    positive_variance,
    trigonometric_variance,
    weighted_positive_variance,
)
from nlattn.bounds.sketch.orthogonal_features import pair_fraction
from nlattn.sketch import hyperbolic_log_features, positive_log_features, trigonometric_features

PAIRS = [((0.3, 0.1), (0.5, -0.2)), ((0.6, 0.4), (-0.5, -0.4)), ((0.2, -0.3), (0.2, 0.7)), ((0.0, 0.0), (0.0, 0.0))]


def plane():
    """Pairs of orthogonal directions of independent chi_2 lengths (N, 2, 2), and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    r = 4.6 * (nodes + 1)
    weights = 4.6 * weights * r * np.exp(-(r**2) / 2)
    angle = np.arange(48) * (2 * np.pi / 48)
    t, r1, r2 = np.meshgrid(angle, r, r, indexing="ij")
    first, second = np.stack([np.cos(t), np.sin(t)], axis=-1), np.stack([-np.sin(t), np.cos(t)], axis=-1)
    W = np.stack([r1[..., None] * first, r2[..., None] * second], axis=-2).reshape(-1, 2, 2)
    mass = np.broadcast_to(weights[:, None] * weights / 48, t.shape).ravel()
    return W, mass / mass.sum()


def variance(x, y, features, **options):
    W, mass = plane()
    x, y = np.asarray(x), np.asarray(y)
    a, b = (features(p[None, None], W, **options)[:, 0] for p in (x, y))
    if features is not trigonometric_features:
        a, b = np.exp(a), np.exp(b)
    exact = np.exp(-np.sum((x - y) ** 2) / 2) if features is trigonometric_features else np.exp(x @ y)
    estimates = np.sum(a * b, axis=-1) / exact
    np.testing.assert_allclose(mass @ estimates, 1, rtol=1e-8)
    return mass @ (estimates - 1) ** 2


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_positive(x, y):
    phi = np.sum((np.asarray(x) + y) ** 2)
    for v in (1.0, 1.2):
        exact = orthogonal_positive_variance(phi, 2, 2, variance=v)
        np.testing.assert_allclose(variance(x, y, positive_log_features, variance=v), exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_hyperbolic(x, y):
    phi = np.sum((np.asarray(x) + y) ** 2)
    exact = orthogonal_hyperbolic_variance(phi, 2, 2)
    np.testing.assert_allclose(variance(x, y, hyperbolic_log_features), exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_trigonometric(x, y):
    u = np.sum((np.asarray(x) - y) ** 2)
    exact = orthogonal_trigonometric_variance(u, 2, 2)
    np.testing.assert_allclose(variance(x, y, trigonometric_features), exact, rtol=1e-6, atol=1e-7)


def test_pairs_are_counted():
    for m in range(1, 15):
        for d in range(1, 6):
            block = np.arange(m) // d
            same = (block[:, None] == block) & ~np.eye(m, dtype=bool)
            assert pair_fraction(m, d) == pytest.approx(same.mean())


GRID = [(phi, m, d) for phi in (0.01, 0.5, 2.0, 10.0) for d in (2, 3, 8, 64) for m in (1, d, 2 * d + 1)]


@pytest.mark.parametrize(("phi", "m", "d"), GRID)
def test_orthogonal_moment_bounds_what_is_gained(phi, m, d):
    """orthogonal_positive_variance and its like are never above those of independent directions."""
    gain = pair_fraction(m, d) * (1 - orthogonal_moment(phi, d))
    for orthogonal, independent in (
        (orthogonal_positive_variance, positive_variance),
        (orthogonal_hyperbolic_variance, hyperbolic_variance),
    ):
        assert orthogonal(phi, m, d) <= independent(phi, m) - gain * (1 - 1e-9)
    weighted = weighted_positive_variance(np.full(d, np.sqrt(phi / d)), m, 1.3)
    assert orthogonal_positive_variance(phi, m, d, variance=1.3) <= weighted - gain * (1 - 1e-9)
    # Theorem 2 of arXiv 2009.14794 claims less.
    assert gain >= pair_fraction(m, d) * 2 / (d + 2) * (1 - np.exp(-phi / 2)) ** 2


def test_orthogonal_moment_is_attained_in_the_plane():
    phi = np.linspace(0, 20, 30)
    np.testing.assert_allclose(orthogonal_moment(phi, 2), np.exp(-phi) * hyp1f1(2, 1, phi / 2), rtol=1e-10)


def test_orthogonal_moment_needs_two_dimensions():
    """For d = 1 the formula is negative, but the moment is positive."""
    assert orthogonal_moment(10.0, 1) < 0 < np.exp(-10.0) * hyp1f1(1, 0.5, 5.0)


def test_orthogonal_trigonometric_variance_may_be_the_larger():
    """In 8 dimensions independent directions are better for points far apart, and orthogonal ones for near points."""
    for u, larger in ((1.0, False), (12.0, True)):
        orthogonal, independent = orthogonal_trigonometric_variance(u, 8, 8), trigonometric_variance(u, 8)
        assert bool(orthogonal > independent) == larger


def test_variances_as_tabulated():
    """Relative standard deviations for d = 64 and 256 features, phi = 1, computed independently."""
    found = (
        positive_variance(1.0, 256),
        orthogonal_positive_variance(1.0, 256, 64),
        orthogonal_hyperbolic_variance(1.0, 128, 64),
    )
    np.testing.assert_allclose(np.sqrt(found), (0.0819, 0.0701, 0.0252), atol=5e-5)
