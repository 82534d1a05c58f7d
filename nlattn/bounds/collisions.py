"""How often hash codes of two points agree."""

import math
from typing import Any

import numpy as np

from nlattn.bounds.registry import bound, experiment
from nlattn.cluster._codes import cross_polytope_codes, hyperplane_codes, p_stable_codes
from nlattn.cluster._collisions import (
    cross_polytope_collision_probability,
    hyperplane_collision_probability,
    p_stable_collision_probability,
)

__all__ = ["cross_polytope_collision", "hyperplane_collision", "p_stable_collision"]

REPLICATES = 20_000


@bound(
    "moment",
    "P(codes of r bits agree) = (1 - theta / pi)^r at angle theta",
    hypotheses=("the normals of the hyperplanes are independent N(0, I_d) vectors", "neither point is 0"),
    source="Goemans and Williamson, DOI 10.1145/227683.227684; Charikar, DOI 10.1145/509907.509965",
    trials=200_000,
    band=(0.95, 1.05),
)
def hyperplane_collision(angle: Any, bits: int) -> Any:
    """Probability that two hyperplane codes agree.

    Parameters
    ----------
    angle : float or array
        Of the two points, in radians.
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


@bound(
    "moment",
    "P(codes agree) = 2 m E[F(X, Y)^(m-1); X, Y > 0], (X, Y) normal with correlation cos theta, "
    "F(x, y) = P(|X| <= x, |Y| <= y)",
    hypotheses=("the m rows of the projection are independent N(0, I_d) vectors", "neither point is 0"),
    source="Derived; the hash is that of arXiv 1509.02897",
    trials=200_000,
    band=(0.95, 1.05),
)
def cross_polytope_collision(angle: Any, size: int) -> Any:
    """Probability that two cross-polytope codes agree.

    Parameters
    ----------
    angle : float or array
        Of the two points, in radians.
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


@bound(
    "moment",
    "P(strips agree) = 2 Phi(t) - 1 - (2 / pi)^(1/2) (1 - e^(-t^2 / 2)) / t, t = width / ||x - y||",
    hypotheses=("the row is N(0, I_d)", "the offset is uniform on [0, width), independent of it"),
    source="Datar, Immorlica, Indyk and Mirrokni, DOI 10.1145/997817.997857",
    trials=200_000,
    band=(0.95, 1.05),
)
def p_stable_collision(distance: Any, width: float) -> Any:
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


def _pair(rng: np.random.Generator, d: int, angle: float) -> Any:
    """Two points at an angle, of different norms."""
    axes, _ = np.linalg.qr(rng.standard_normal((d, 2)))
    x, y = axes[:, 0], math.cos(angle) * axes[:, 0] + math.sin(angle) * axes[:, 1]
    return np.stack([2 * x, 0.3 * y])


@experiment(hyperplane_collision)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    angle, bits = 0.8, 3
    codes = hyperplane_codes(_pair(rng, 5, angle), rng.standard_normal((REPLICATES, bits, 5)))
    return codes[:, 0] == codes[:, 1], hyperplane_collision(angle, bits)


@experiment(cross_polytope_collision)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    angle, size = 0.8, 6
    codes = cross_polytope_codes(_pair(rng, 5, angle), rng.standard_normal((REPLICATES, size, 5)))
    return codes[:, 0] == codes[:, 1], cross_polytope_collision(angle, size)


@experiment(p_stable_collision)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    x, width = rng.standard_normal((2, 5)), 3.0
    rows, offsets = rng.standard_normal((REPLICATES, 5)), width * rng.random(REPLICATES)
    codes = p_stable_codes(x, rows, offsets, width)
    return codes[0] == codes[1], p_stable_collision(np.linalg.norm(x[0] - x[1]), width)
