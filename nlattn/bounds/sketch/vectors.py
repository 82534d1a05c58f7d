"""Vectors on which sketches of inner products are measured."""

import numpy as np

from nlattn.bounds.catalogue.typing import Floats

__all__ = ["unit_pair"]


def unit_pair(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Two unit vectors at about 60 degrees."""
    x, y = rng.standard_normal((2, n))
    y = x / np.linalg.norm(x) + 1.7 * y / np.linalg.norm(y)
    return x / np.linalg.norm(x), y / np.linalg.norm(y)
