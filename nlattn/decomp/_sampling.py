"""Rows of a Khatri-Rao product drawn by products of leverage scores."""

import math
from collections.abc import Sequence

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.random import weighted_draws
from nlattn.arrays.typing import Array

__all__ = ["draw_rows", "row_probabilities", "selected_rows"]


def row_probabilities(a: Array) -> Array:
    """Squared row norms of an orthonormal basis that spans the columns of `a`, divided by their sum; float64.

    Where `a` has full column rank these are its leverage scores over their sum; else they stay at least the scores over
    the number of columns, which is all that sampling needs.
    """
    xp = array_namespace(a)
    q = xp.abs(xp.linalg.qr(a)[0])
    return xp.sum(xp.astype(q * q, xp.float64), axis=1) / min(a.shape)


def draw_rows(factors: Sequence[Array], samples: int, rng: np.random.Generator) -> tuple[list[Array], Array]:
    """Row numbers in each factor, drawn independently, and the probability (float64) of each combination."""
    xp = array_namespace(*factors)
    indices, probabilities = [], []
    for a in factors:
        p = row_probabilities(a)
        drawn = weighted_draws(rng, p, samples)
        indices.append(drawn)
        probabilities.append(xp.take(p, drawn, axis=0) / xp.sum(p))
    return indices, math.prod(probabilities[1:], start=probabilities[0])


def selected_rows(factors: Sequence[Array], indices: Sequence[Array]) -> Array:
    """Those rows of the Khatri-Rao product of the factors, shape (samples, R)."""
    xp = array_namespace(*factors)
    rows = [xp.take(a, i, axis=0) for a, i in zip(factors, indices, strict=True)]
    return math.prod(rows[1:], start=rows[0])
