"""Tensors on which bounds are measured, and what their singular values leave beyond given ranks."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nlattn.bounds.catalogue.typing import Floats
from nlattn.decomp import mode_product

__all__ = ["Spectra", "mixed", "noisy", "tail_energies"]

#: Singular values, descending, for each of several matrices.
Spectra: TypeAlias = Sequence[NDArray[np.floating[Any]] | Sequence[float]]


def tail_energies(spectra: Spectra, ranks: Sequence[int]) -> list[float]:
    """For each mode the sum of the squared singular values beyond the rank."""
    return [float(np.sum(np.square(np.asarray(s)[r:]))) for s, r in zip(spectra, ranks, strict=True)]


def mixed(rng: np.random.Generator, shape: tuple[int, ...], factor: Callable[[int], Floats]) -> Floats:
    """A random tensor, multiplied along each mode by ``factor(size)``, a square matrix."""
    x = rng.standard_normal(shape)
    for mode, size in enumerate(shape):
        x = np.asarray(mode_product(x, factor(size), mode))
    return x


def noisy(rng: np.random.Generator, y: Floats) -> Floats:
    """The tensor y and a tenth of its norm in noise."""
    return y + 0.1 * rng.standard_normal(y.shape) * np.linalg.norm(y) / math.sqrt(y.size)
