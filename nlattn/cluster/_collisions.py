"""With which probability two points get the same hash code."""

import functools
import math
from typing import overload

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer, check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import to_host
from nlattn.arrays.namespaces import is_array
from nlattn.arrays.random import moved
from nlattn.arrays.typing import Array

__all__ = [
    "cross_polytope_collision_probability",
    "hyperplane_collision_probability",
    "p_stable_collision_probability",
]

# Nodes of the quadrature along each axis: they give nine digits for up to 1000 coordinates, five for 10^6.
NODES = 96


@overload
def hyperplane_collision_probability(angle: float, bits: int = 1) -> float: ...
@overload
def hyperplane_collision_probability(angle: Array, bits: int = 1) -> Array: ...
@on_numpy(same_dtype=True)
def hyperplane_collision_probability(angle: float | Array, bits: int = 1) -> float | Array:
    """Probability that two points at an angle get the same code of `hyperplane_codes`.

    Parameters
    ----------
    angle : float or array
        In radians, from 0 to pi.
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
    if is_array(angle):
        return array_namespace(angle).clip(1 - angle / math.pi, 0, 1) ** bits
    return (1 - check_number("angle", angle, least=0, most=math.pi) / math.pi) ** bits


@overload
def cross_polytope_collision_probability(angle: float, size: int) -> float: ...
@overload
def cross_polytope_collision_probability(angle: Array, size: int) -> Array: ...
@on_numpy
def cross_polytope_collision_probability(angle: float | Array, size: int) -> float | Array:
    """Probability that two points at an angle get the same digit of `cross_polytope_codes`.

    Parameters
    ----------
    angle : float or array
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
    angles = _on_host(angle)
    if not np.all((angles >= 0) & (angles <= math.pi)):
        raise ValueError("angle must lie between 0 and pi")
    flat = [_cross_polytope(float(a), size) for a in np.ravel(angles)]
    return flat[0] if angles.ndim == 0 else _beside(np.reshape(flat, angles.shape), angle)


@overload
def p_stable_collision_probability(distance: float, width: float) -> float: ...
@overload
def p_stable_collision_probability(distance: Array, width: float) -> Array: ...
@on_numpy
def p_stable_collision_probability(distance: float | Array, width: float) -> float | Array:
    """Probability that two points at a distance get the same code of `p_stable_codes` from one row.

    Parameters
    ----------
    distance : float or array
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
    from scipy.special import ndtr  # nlattn.METHODS is listed without SciPy

    width = check_number("width", width, above=0)
    distances = _on_host(distance)
    if not np.all(distances >= 0):
        raise ValueError("distance must not be negative")
    t = width / nonzero(distances)
    probability = 2 * ndtr(t) - 1 + math.sqrt(2 / math.pi) * np.expm1(-(t**2) / 2) / t
    probability = np.where(distances == 0, 1.0, probability)
    return _beside(probability, distance) if probability.ndim else float(probability)


def _on_host(values: float | Array) -> Array:
    """Numbers as a NumPy array in float64."""
    return np.asarray(to_host(values) if is_array(values) else values, np.float64)


def _beside(host: Array, values: float | Array) -> Array:
    """A NumPy array in the library and on the device of `values`, if these are an array."""
    return moved(host, values) if is_array(values) else host


@functools.cache
def _nodes() -> tuple[Array, Array]:
    """Nodes and weights of the Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def _cross_polytope(angle: float, size: int) -> float:
    """In polar coordinates (X, Y) = r (cos b, cos(b - angle)); both are positive for angle - pi/2 < b < pi/2."""
    from scipy.special import owens_t

    nodes, weights = _nodes()
    b = angle - math.pi / 2 + (math.pi - angle) * nodes[:, None]
    # What lies beyond this radius is below 1e-16, also 2 size times.
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
