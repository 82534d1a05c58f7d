"""Independent estimates of a kernel by random features, on which their moments are measured."""

import math
from typing import Literal, TypeAlias

import numpy as np

from nlattn.bounds.catalogue.typing import Floats
from nlattn.sketch import (
    hyperbolic_log_features,
    orthogonal_projection,
    positive_log_features,
    trigonometric_features,
)

__all__ = ["DIRECTIONS", "kernel_estimates", "pair_at", "squared_relative_errors"]

#: Directions of each estimate.
DIRECTIONS = 8
#: Estimates in one experiment: formed together, they take a tenth of a second.
REPLICATES = 20_000

FeatureKind: TypeAlias = Literal["positive", "hyperbolic", "trigonometric"]


def pair_at(rng: np.random.Generator, d: int, norm: float, *, apart: bool = False) -> tuple[Floats, Floats]:
    """Random vectors x and y with ||x + y||^2 = norm, or ||x - y||^2 = norm where they are `apart`."""
    half = rng.standard_normal(d)
    half *= math.sqrt(norm / (half @ half)) / 2
    shift = 0.3 * rng.standard_normal(d)
    return half + shift, shift - half if apart else half - shift


def kernel_estimates(
    rng: np.random.Generator,
    x: Floats,
    y: Floats,
    features: FeatureKind,
    *,
    rows: Literal["haar", "iid"],
    lengths: Literal["chi", "sqrt"] = "chi",
    variance: float | Floats = 1.0,
) -> Floats:
    """REPLICATES independent estimates of the kernel of x and y."""
    W = orthogonal_projection(DIRECTIONS, len(x), kind=rows, lengths=lengths, batch=(REPLICATES,), rng=rng)
    if features == "trigonometric":
        a, b = (trigonometric_features(point[None, None], W) for point in (x, y))
    else:
        log_features = positive_log_features if features == "positive" else hyperbolic_log_features
        a, b = (np.exp(log_features(point[None, None], W, variance=variance)) for point in (x, y))
    return np.sum(a * b, axis=-1)[:, 0]


def squared_relative_errors(
    rng: np.random.Generator,
    x: Floats,
    y: Floats,
    features: FeatureKind,
    *,
    rows: Literal["haar", "iid"],
    variance: float | Floats = 1.0,
) -> Floats:
    """Squares of the relative errors of the estimates."""
    exact = math.exp(-np.sum((x - y) ** 2) / 2 if features == "trigonometric" else x @ y)
    return (kernel_estimates(rng, x, y, features, rows=rows, variance=variance) / exact - 1) ** 2
