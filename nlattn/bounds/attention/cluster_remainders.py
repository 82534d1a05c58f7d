"""What the moments of a cluster leave of its keys, on any array library.

Everything is scaled by e^-radius, so that it overflows only where the result does.
"""

import math

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.typing import Array

__all__ = ["distances", "mass_limits", "value_remainder"]

#: Numbers that are formed at a time: 32 MiB in double precision, whatever the number of rows and clusters.
NUMBERS = 1 << 22


def mass_limits(
    radius: Array, variance: Array | None = None, least_variance: Array | None = None
) -> tuple[Array, Array]:
    """Limits of e^-radius (mean e^x - 1), for x of mean 0 with |x| <= radius and a variance within the given limits."""
    xp = array_namespace(radius)
    decay = xp.exp(-radius)
    if variance is None:
        # cosh(radius) - 1.
        most = xp.expm1(-radius) ** 2 / 2
    else:
        share, tip = _two_values(radius, variance)
        most = (1 - share) * xp.expm1(-tip) * decay - share * xp.expm1(-radius)
    if least_variance is None:
        return xp.zeros_like(radius), most
    share, tip = _two_values(radius, least_variance)
    return (1 - share) * (xp.exp(tip - radius) - decay) + share * xp.expm1(-radius) * decay, most


def value_remainder(radius: Array, deviation: Array, *, dipole: bool) -> Array:
    """e^-radius times what the spread of the values counts for: after the term of first order with `dipole`.

    `deviation` is the standard deviation of the differences of the scores, or more, up to the radius.
    """
    xp = array_namespace(radius)
    relative = deviation / nonzero(radius)
    if dipole:
        second_order = -xp.expm1(-radius) - radius * xp.exp(-radius)
        return xp.clip(relative, None, 0.5) * xp.clip(second_order, 0.0, None)
    return xp.minimum(-xp.expm1(-2 * radius) / 2, -xp.expm1(-radius) * relative)


def distances(out: Array, centres: Array) -> Array:
    """Distances of all outputs from all centres, (..., rows, clusters), by differences, which do not cancel."""
    xp = array_namespace(out, centres)
    rows = out.shape[-2]
    step = max(1, NUMBERS // max(1, math.prod(out.shape[:-2]) * centres.shape[-2] * out.shape[-1]))
    parts = []
    for first in range(0, max(rows, 1), step):
        difference = out[..., first : min(first + step, rows), None, :] - centres[..., None, :, :]
        parts.append(xp.sqrt(xp.sum(difference * difference, axis=-1)))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)


def _two_values(radius: Array, variance: Array) -> tuple[Array, Array]:
    """How often a variable of mean 0 and the given variance is `radius`, if it is otherwise -tip; and tip."""
    xp = array_namespace(radius)
    square = radius * radius
    variance = xp.minimum(variance, square)
    return variance / nonzero(square + variance), variance / nonzero(radius)
