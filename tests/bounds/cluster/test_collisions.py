"""Collision laws: by enumeration of rotations in the plane, closed forms, and what breaks them."""

import numpy as np
import pytest

from nlattn.bounds import cross_polytope_collision, hyperplane_collision, p_stable_collision
from nlattn.cluster import cross_polytope_codes, hyperplane_codes, p_stable_codes

ANGLES = [0.3, 1.0, 2.0]
COUNT = 20_000


def turns():
    """Orthogonal pairs of directions (N, 2, 2) at equidistant angles."""
    t = (np.arange(COUNT) + 0.5) * (2 * np.pi / COUNT)
    return np.stack([np.stack([np.cos(t), np.sin(t)], axis=-1), np.stack([-np.sin(t), np.cos(t)], axis=-1)], axis=1)


def agreement(function, angle, W):
    x = np.asarray([[2.0, 0.0], [0.5 * np.cos(angle), 0.5 * np.sin(angle)]])
    codes = function(x, W)
    return np.mean(codes[..., 0] == codes[..., 1])


@pytest.mark.parametrize("angle", ANGLES)
def test_hyperplane_collision_by_enumeration(angle):
    """One bit over all directions of its normal, two bits over all pairs of directions."""
    W = turns()[:, :1]
    assert agreement(hyperplane_codes, angle, W) == pytest.approx(hyperplane_collision(angle, 1), abs=3 / COUNT)
    few = W[:: COUNT // 200, 0]
    pairs = np.stack(np.broadcast_arrays(few[:, None], few), axis=-2).reshape(-1, 2, 2)
    assert agreement(hyperplane_codes, angle, pairs) == pytest.approx(hyperplane_collision(angle, 2), abs=0.02)


def test_hyperplane_collision_needs_independent_normals():
    """Orthogonal normals give 1 - 2 theta / pi instead of (1 - theta / pi)^2."""
    angle = 1.0
    rate = agreement(hyperplane_codes, angle, turns())
    assert rate == pytest.approx(1 - 2 * angle / np.pi, abs=3 / COUNT)
    assert rate < hyperplane_collision(angle, 2) - 0.05


@pytest.mark.parametrize("angle", ANGLES)
def test_cross_polytope_collision_in_closed_form(angle):
    """One row is a hyperplane, and two rows are the two hyperplanes y1 + y2 and y1 - y2."""
    assert cross_polytope_collision(angle, 1) == pytest.approx(hyperplane_collision(angle, 1), abs=1e-12)
    assert cross_polytope_collision(angle, 2) == pytest.approx(hyperplane_collision(angle, 2), abs=1e-10)
    W = np.random.default_rng(0).standard_normal((500, 2, 2))
    turned = np.stack([W[:, 0] + W[:, 1], W[:, 0] - W[:, 1]], axis=1)
    x = np.random.default_rng(1).standard_normal((2, 2))
    vertices, sides = cross_polytope_codes(x, W), hyperplane_codes(x, turned)
    assert np.array_equal(vertices[:, 0] == vertices[:, 1], sides[:, 0] == sides[:, 1])


@pytest.mark.parametrize("size", [3, 8, 40])
def test_cross_polytope_collision_at_right_angles(size):
    assert cross_polytope_collision(np.pi / 2, size) == pytest.approx(1 / (2 * size), rel=1e-10)


def test_cross_polytope_collision_by_direct_integration():
    """The mean of F(X, Y)^(m-1), where F is a sum over a grid instead of Owen's function."""
    angle, size = 0.9, 5
    rho, s = np.cos(angle), np.sin(angle)
    from scipy.special import ndtr

    grid = (np.arange(240) + 0.5) * (6.0 / 240)
    u = grid[:, None]
    strip = ndtr((grid - rho * u) / s) - ndtr((-grid - rho * u) / s)
    density = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)
    cells = np.cumsum(2 * density * strip, axis=0) * (6.0 / 240)
    F = cells - density * strip * (6.0 / 240)  # up to the middle of the last cell
    both = np.exp(-(u**2 - 2 * rho * u * grid + grid**2) / (2 * s**2)) / (2 * np.pi * s)
    direct = 2 * size * np.sum(both * F ** (size - 1)) * (6.0 / 240) ** 2
    assert direct == pytest.approx(cross_polytope_collision(angle, size), rel=2e-3)


def test_cross_polytope_collision_needs_independent_rows():
    """The rows of a rotation of the plane give 1 - 2 theta / pi instead of (1 - theta / pi)^2."""
    angle = 1.0
    rate = agreement(cross_polytope_codes, angle, turns())
    assert rate == pytest.approx(1 - 2 * angle / np.pi, abs=3 / COUNT)
    assert rate < cross_polytope_collision(angle, 2) - 0.05


@pytest.mark.parametrize("width", [0.5, 2.0, 5.0])
def test_p_stable_collision_by_quadrature(width):
    """The mean over a grid of offsets and over quantiles of the direction."""
    from scipy.special import ndtri

    a = ndtri((np.arange(2000) + 0.5) / 2000)
    b = (np.arange(300) + 0.5) / 300 * width
    x = np.asarray([[0.7], [1.9]])
    W, offsets = np.broadcast_arrays(a[:, None], b)
    codes = p_stable_codes(x, W.reshape(-1, 1), offsets.ravel(), width)
    assert np.mean(codes[0] == codes[1]) == pytest.approx(p_stable_collision(1.2, width), abs=4e-3)


def test_p_stable_collision_needs_the_offset():
    """Without the offset, near points on two sides of the origin never collide."""
    x, W = np.asarray([[-0.01], [0.01]]), np.random.default_rng(0).standard_normal((500, 1))
    codes = p_stable_codes(x, W, np.zeros(500), 1.0)
    assert np.mean(codes[0] == codes[1]) == 0
    assert p_stable_collision(0.02, 1.0) > 0.98
