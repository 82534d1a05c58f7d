"""Probabilities of equal codes."""

import math

import numpy as np
import pytest

from nlattn.cluster import (
    cross_polytope_collision_probability,
    hyperplane_collision_probability,
    p_stable_collision_probability,
)
from nlattn.testing import assert_close


def test_hyperplane_collision_probability(backend):
    angles = np.linspace(0, np.pi, 7)
    got = hyperplane_collision_probability(backend.array(angles), 3)
    assert_close(got, backend.array((1 - angles / np.pi) ** 3), rtol=1e-14, atol=1e-15)
    assert hyperplane_collision_probability(0.0) == 1
    assert hyperplane_collision_probability(math.pi, 5) == 0
    with pytest.raises(ValueError, match=r"angle must be >= 0 and <= 3\.14159, got 4"):
        hyperplane_collision_probability(4)
    with pytest.raises(ValueError, match="bits must be at least 1"):
        hyperplane_collision_probability(1.0, 0)


def test_cross_polytope_collision_probability():
    angles = np.asarray([0.0, 1e-8, 0.01, 0.3, 1.0, 2.0, 3.1, np.pi])
    np.testing.assert_allclose(cross_polytope_collision_probability(angles, 1), 1 - angles / np.pi, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        cross_polytope_collision_probability(angles, 2), (1 - angles / np.pi) ** 2, rtol=0, atol=1e-9
    )
    for size in (1, 3, 32, 1000):
        assert cross_polytope_collision_probability(np.pi / 2, size) == pytest.approx(1 / (2 * size), rel=1e-8)
        assert cross_polytope_collision_probability(0.0, size) == pytest.approx(1, abs=1e-8)
        assert cross_polytope_collision_probability(np.pi, size) == pytest.approx(0, abs=1e-14)
    assert np.all(np.diff(cross_polytope_collision_probability(angles, 8)) < 0)
    with pytest.raises(ValueError, match="angle must lie between 0 and pi"):
        cross_polytope_collision_probability(-0.1, 8)
    with pytest.raises(ValueError, match="size must be at least 1"):
        cross_polytope_collision_probability(0.1, 0)


def test_p_stable_collision_probability():
    assert p_stable_collision_probability(0.0, 1.0) == 1
    distances = np.asarray([0.0, 1e-3, 1.0, 5.0, 1e6])
    got = p_stable_collision_probability(distances, 2.0)
    # The mean over the offset, by quadrature, of the probability that both points fall into the strip.
    t = (np.arange(200_000) + 0.5) / 200_000 * 2
    for distance, p in zip(distances[1:4], got[1:4], strict=True):
        density = np.sqrt(2 / np.pi) / distance * np.exp(-0.5 * (t / distance) ** 2)
        np.testing.assert_allclose(p, np.mean(density * (1 - t / 2)) * 2, rtol=1e-5)
    assert 0 < got[-1] < 1e-5
    with pytest.raises(ValueError, match="width must be > 0"):
        p_stable_collision_probability(1.0, 0.0)
    with pytest.raises(ValueError, match="distance must not be negative"):
        p_stable_collision_probability(-1.0, 1.0)
