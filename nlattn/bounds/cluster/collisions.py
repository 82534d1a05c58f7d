"""How often hash codes of two points agree."""

import math

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured, RealOnAny
from nlattn.cluster import (
    cross_polytope_codes,
    cross_polytope_collision_probability,
    hyperplane_codes,
    hyperplane_collision_probability,
    p_stable_codes,
    p_stable_collision_probability,
)

__all__ = ["cross_polytope_collision", "hyperplane_collision", "p_stable_collision"]

#: Hash functions in one experiment.
REPLICATES = 20_000
#: Angle of the two points that are hashed, in radians.
ANGLE = 0.8
NOT_ZERO = "neither point is 0"


@bound(
    "moment",
    "P(codes of r bits agree) = (1 - theta / pi)^r at angle theta",
    hypotheses=("the normals of the hyperplanes are independent N(0, I_d) vectors", NOT_ZERO),
    source="Goemans and Williamson, DOI 10.1145/227683.227684; Charikar, DOI 10.1145/509907.509965",
)
def hyperplane_collision(angle: RealOnAny, bits: int) -> RealOnAny:
    """Probability that two hyperplane codes agree.

    Parameters
    ----------
    angle : float or array
        Angle of the two points, in radians.
    bits : int

    Returns
    -------
    float or array
        `nlattn.cluster.hyperplane_collision_probability`.

    Examples
    --------
    >>> import math, nlattn
    >>> nlattn.bounds.hyperplane_collision(math.pi / 2, 3)
    0.125
    """
    return hyperplane_collision_probability(angle, bits)


@experiment(hyperplane_collision, trials=200_000, band=(0.95, 1.05))
def hyperplane_collision_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    bits = 3
    codes = hyperplane_codes(_points(rng), rng.standard_normal((REPLICATES, bits, 5)))
    return codes[:, 0] == codes[:, 1], hyperplane_collision(ANGLE, bits)


@bound(
    "moment",
    "P(codes agree) = 2 m E[F(X, Y)^(m-1); X, Y > 0], (X, Y) normal with correlation cos theta, "
    "F(x, y) = P(|X| <= x, |Y| <= y)",
    hypotheses=("the m rows of the projection are independent N(0, I_d) vectors", NOT_ZERO),
    source="Derived; the hash is that of arXiv 1509.02897",
)
def cross_polytope_collision(angle: RealOnAny, size: int) -> RealOnAny:
    """Probability that two cross-polytope codes agree.

    Parameters
    ----------
    angle : float or array
        Angle of the two points, in radians.
    size : int
        m.

    Returns
    -------
    float or array
        `nlattn.cluster.cross_polytope_collision_probability`.

    Examples
    --------
    >>> import math, nlattn
    >>> round(nlattn.bounds.cross_polytope_collision(math.pi / 3, 8), 4)
    0.2325
    """
    return cross_polytope_collision_probability(angle, size)


@experiment(cross_polytope_collision, trials=200_000, band=(0.95, 1.05))
def cross_polytope_collision_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    size = 6
    codes = cross_polytope_codes(_points(rng), rng.standard_normal((REPLICATES, size, 5)))
    return codes[:, 0] == codes[:, 1], cross_polytope_collision(ANGLE, size)


@bound(
    "moment",
    "P(strips agree) = 2 Phi(t) - 1 - (2 / pi)^(1/2) (1 - e^(-t^2 / 2)) / t, t = width / ||x - y||",
    hypotheses=(
        "the projection has one row, an N(0, I_d) vector",
        "the offset is uniform on [0, width), independent of it",
    ),
    source="Datar, Immorlica, Indyk and Mirrokni, DOI 10.1145/997817.997857",
)
def p_stable_collision(distance: RealOnAny, width: float) -> RealOnAny:
    """Probability that two points fall into one strip.

    Parameters
    ----------
    distance : float or array
    width : float

    Returns
    -------
    float or array
        `nlattn.cluster.p_stable_collision_probability`.

    Examples
    --------
    >>> import nlattn
    >>> round(float(nlattn.bounds.p_stable_collision(2.0, 4.0)), 4)
    0.6095
    """
    return p_stable_collision_probability(distance, width)


@experiment(p_stable_collision, trials=200_000, band=(0.95, 1.05))
def p_stable_collision_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, width = rng.standard_normal((2, 5)), 3.0
    rows, offsets = rng.standard_normal((REPLICATES, 5)), width * rng.random(REPLICATES)
    codes = p_stable_codes(x, rows, offsets, width)
    return codes[0] == codes[1], p_stable_collision(float(np.linalg.norm(x[0] - x[1])), width)


def _points(rng: np.random.Generator) -> Floats:
    """Two points in five dimensions at ANGLE, of different norms."""
    axes, _ = np.linalg.qr(rng.standard_normal((5, 2)))
    x, y = axes[:, 0], math.cos(ANGLE) * axes[:, 0] + math.sin(ANGLE) * axes[:, 1]
    return np.stack([2 * x, 0.3 * y])
