"""With which probability two points get the same hash code."""

import functools
import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj
from scipy.special import ndtr, owens_t

from nlattn.arrays.arguments import check_integer, check_number

__all__ = [
    "cross_polytope_collision_probability",
    "hyperplane_collision_probability",
    "p_stable_collision_probability",
]

# Nodes of the quadrature along each axis: nine digits for up to 1000 coordinates, five for 10^6.
NODES = 96


def hyperplane_collision_probability(angle: Any, bits: int = 1) -> Any:
    """Probability that two points at an angle get the same code of `hyperplane_codes`.

    Parameters
    ----------
    angle : float or array
        In radians, from 0 to pi. Arrays of any library.
    bits : int, default 1
        Length of the codes.

    Returns
    -------
    float or array
        (1 - angle / pi)^bits.

    Notes
    -----
    For independent standard normal rows of the projection. Source: Goemans and Williamson, DOI 10.1145/227683.227684;
    Charikar, DOI 10.1145/509907.509965. Bounds: ``hyperplane_collision``.

    Examples
    --------
    >>> import math, nlattn.cluster
    >>> nlattn.cluster.hyperplane_collision_probability(math.pi / 4, bits=2)
    0.5625
    """
    bits = check_integer("bits", bits)
    if not is_array_api_obj(angle):
        return (1 - check_number("angle", angle, least=0, most=math.pi) / math.pi) ** bits
    xp = array_namespace(angle)
    return xp.clip(1 - angle / math.pi, 0, 1) ** bits


def cross_polytope_collision_probability(angle: Any, size: int) -> Any:
    """Probability that two points at an angle get the same digit of `cross_polytope_codes`.

    Parameters
    ----------
    angle : float or NumPy array
        In radians, from 0 to pi.
    size : int
        Rows of the projection; there are twice as many codes. For a product form, the product of the probabilities
        of its groups.

    Returns
    -------
    float or array, shape of `angle`

    Notes
    -----
    For independent standard normal rows. With (X, Y) two standard normal variables with correlation cos(angle), it is
    2 size E [F(X, Y)^(size - 1); X > 0, Y > 0], where F(x, y) = P(|X| <= x, |Y| <= y); computed to about nine digits by
    9,216 evaluations of F for each angle. Source of the hash: arXiv 1509.02897. Bounds: ``cross_polytope_collision``.

    Examples
    --------
    >>> import math, nlattn.cluster
    >>> round(nlattn.cluster.cross_polytope_collision_probability(math.pi / 6, 32), 4)
    0.4413
    >>> round(nlattn.cluster.cross_polytope_collision_probability(math.pi / 2, 32), 10)
    0.015625
    """
    size = check_integer("size", size)
    angles = np.asarray(angle, np.float64)
    if not np.all((angles >= 0) & (angles <= math.pi)):
        raise ValueError("angle must lie between 0 and pi")
    flat = [_cross_polytope(float(a), size) for a in angles.ravel()]
    return flat[0] if np.ndim(angle) == 0 else np.reshape(flat, angles.shape)


def p_stable_collision_probability(distance: Any, width: float) -> Any:
    """Probability that two points at a distance get the same code of `p_stable_codes` from one row.

    Parameters
    ----------
    distance : float or NumPy array
        Not negative.
    width : float
        Positive.

    Returns
    -------
    float or array, shape of `distance`
        2 Phi(t) - 1 - (2 / pi)^(1/2) (1 - exp(-t^2 / 2)) / t with t = width / distance; 1 at distance 0.

    Notes
    -----
    For standard normal rows, and offsets that are uniform on [0, width). Source: Datar, Immorlica, Indyk and Mirrokni,
    DOI 10.1145/997817.997857. Bounds: ``p_stable_collision``.

    Examples
    --------
    >>> import nlattn.cluster
    >>> round(float(nlattn.cluster.p_stable_collision_probability(1.0, 4.0)), 4)
    0.8005
    """
    width = check_number("width", width, above=0)
    distance = np.asarray(distance, np.float64)
    if not np.all(distance >= 0):
        raise ValueError("distance must not be negative")
    t = width / np.where(distance == 0, 1.0, distance)
    probability = 2 * ndtr(t) - 1 + math.sqrt(2 / math.pi) * np.expm1(-(t**2) / 2) / t
    return np.where(distance == 0, 1.0, probability)[()]


@functools.cache
def _nodes() -> tuple[Any, Any]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def _cross_polytope(angle: float, size: int) -> float:
    """In polar coordinates (X, Y) = r (cos b, cos(b - angle)); both are positive for angle - pi/2 < b < pi/2."""
    nodes, weights = _nodes()
    b = angle - math.pi / 2 + (math.pi - angle) * nodes[:, None]
    # Beyond this radius the rest of 2 size copies of the plane is below 1e-16.
    radius = math.sqrt(2 * math.log(2 * size) + 76)
    r = radius * nodes
    x, y = r * np.cos(b), r * np.cos(b - angle)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Slopes (y -+ x cos) / (x sin) and the same with x and y exchanged; the first kind simplifies.
        far_x = (y + math.cos(angle) * x) / (x * math.sin(angle))
        far_y = (x + math.cos(angle) * y) / (y * math.sin(angle))
    tails = owens_t(x, np.tan(b)) + owens_t(y, np.tan(angle - b)) + owens_t(x, far_x) + owens_t(y, far_y)
    inside = np.clip(1 - 2 * tails, 0, 1) ** (size - 1)
    integral = np.sum(weights[:, None] * inside * (weights * r * np.exp(-(r**2) / 2)))
    return float(2 * size * radius * (math.pi - angle) * integral / (2 * math.pi))
