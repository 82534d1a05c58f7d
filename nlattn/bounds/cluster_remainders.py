"""What the moments of a cluster leave of its keys, on any array library.

Everything is scaled by e^-radius, so that it overflows only where the result does.
"""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

__all__ = ["mass_limits", "output_remainder"]

# Numbers formed at a time.
NUMBERS = 1 << 22


def mass_limits(radius: Any, variance: Any = None, least_variance: Any = None) -> tuple[Any, Any]:
    """Limits of e^-radius (mean e^x - 1), for x of mean 0 with |x| <= radius and a variance within the given limits."""
    xp = array_namespace(radius)
    decay = xp.exp(-radius)
    if variance is None:
        # cosh(radius) - 1.
        most = xp.expm1(-radius) ** 2 / 2
    else:
        share, tip = _atoms(xp, radius, variance)
        most = (1 - share) * xp.expm1(-tip) * decay - share * xp.expm1(-radius)
    if least_variance is None:
        return xp.zeros_like(radius), most
    share, tip = _atoms(xp, radius, least_variance)
    return (1 - share) * (xp.exp(tip - radius) - decay) + share * xp.expm1(-radius) * decay, most


def output_remainder(
    log_weights: Any,
    radius: Any,
    spread: Any,
    centres: Any,
    out: Any,
    variance: Any = None,
    least_variance: Any = None,
    log_factor: Any = None,
    dipole: bool = False,
) -> Any:
    """A bound of the error of attention with moments of clusters in place of keys: `nlattn.bounds.multipole_output`."""
    xp = array_namespace(log_weights, radius, spread, centres, out)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        least, most = mass_limits(radius, variance, least_variance)
        positive = radius > 0
        deviation = radius if variance is None else xp.minimum(xp.sqrt(variance), radius)
        relative = xp.where(positive, deviation / xp.where(positive, radius, xp.ones_like(radius)), 0.0)
        decay = xp.exp(-radius)
        if dipole:
            shape = xp.clip(relative, None, 0.5) * xp.clip(-xp.expm1(-radius) - radius * decay, 0.0, None)
        else:
            shape = xp.minimum(-xp.expm1(-2 * radius) / 2, -xp.expm1(-radius) * relative)
        change = xp.zeros_like(radius)
        scale = log_weights + radius
        if log_factor is not None:
            # Factors above e^radius set the scale.
            shift = xp.clip(log_factor - radius, 0.0, None)
            damped = xp.exp(-shift)
            change = xp.exp(log_factor - radius - shift) - decay * damped
            shape, most, least = shape * damped, most * damped, least * damped
            scale = scale - log_factor + shift
            if dipole:
                shape = shape + xp.abs(change) * deviation
        scale = xp.exp(scale)
        terms = shape * spread[..., None, :] + xp.maximum(most - change, change - least) * _distances(xp, out, centres)
        over = xp.clip(change - least, 0.0, None)
        # Where these are 0 the scale may be inf.
        error, lost = (xp.sum(xp.where(x > 0, scale * x, 0.0), axis=-1) for x in (terms, over))
        return xp.where(lost < 1, error / (1 - lost), xp.inf)


def _atoms(xp: Any, radius: Any, variance: Any) -> tuple[Any, Any]:
    """The two values, radius and -tip, of mean 0 and the given variance: the share of the first, and tip."""
    square = radius * radius
    variance = xp.minimum(variance, square)
    positive = square > 0
    tip = xp.where(positive, variance / xp.where(positive, radius, xp.ones_like(radius)), xp.zeros_like(radius))
    total = xp.where(positive, square + variance, xp.ones_like(square))
    return variance / total, tip


def _distances(xp: Any, out: Any, centres: Any) -> Any:
    """(..., rows, clusters), by differences, which do not cancel."""
    rows = out.shape[-2]
    step = max(1, NUMBERS // max(1, math.prod(out.shape[:-2]) * centres.shape[-2] * out.shape[-1]))
    parts = []
    for first in range(0, max(rows, 1), step):
        difference = out[..., first : min(first + step, rows), None, :] - centres[..., None, :, :]
        parts.append(xp.sqrt(xp.sum(difference * difference, axis=-1)))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)
