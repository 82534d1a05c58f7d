"""Circular convolutions of CountSketches, which sketch tensor products."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.random import moved
from nlattn.arrays.typing import Array
from nlattn.dispatch import backend_name
from nlattn.kernels.spectral_product import spectral_product
from nlattn.sketch._sparse import Sparse

__all__ = ["Convolution", "Route"]

Route = Literal["auto", "fft", "gemm"]

# The length of inputs and the number of features beyond which hashing and an FFT are faster than products, where a
# kernel does the hashing (measured on two CPUs).
LONG = 512
MANY = 128


class Convolution:
    """x_1, ..., x_p -> the circular convolution of C_1 x_1, ..., C_p x_p, in the Fourier domain.

    By Parseval the m real numbers that describe the transform of a real vector, with the right weights, are that
    vector in another orthonormal basis: their inner products are those of the convolution itself.

    Parameters
    ----------
    rows, weights : list of p arrays, shape (d_i,)
        Input j of x_i is added to entry rows[i][j], times weights[i][j].
    """

    def __init__(self, m: int, rows: Iterable[Array], weights: Iterable[Array]) -> None:
        self.m = m
        self._rows, self._weights = list(rows), list(weights)
        pairs = zip(self._rows, self._weights, strict=True)
        self._sketches = [Sparse("count", m, h[:, None], w[:, None]) for h, w in pairs]
        frequency = np.arange(m // 2 + 1)
        self._scale = np.sqrt(np.where(2 * frequency % m == 0, 1, 2) / m)

    def __call__(self, inputs: Sequence[Array], method: Route) -> Array:
        """Features (rows, m) of p matrices (rows, d_i)."""
        if method == "auto":
            long = max(x.shape[1] for x in inputs) > LONG and self.m > MANY
            method = "fft" if long and backend_name(type(inputs[0])) != "generic" else "gemm"
        return self._by_fft(inputs) if method == "fft" else self._by_product(inputs)

    @cached_property
    def _transforms(self) -> list[Array]:
        """The Fourier transforms of the hash matrices, (d_i, real parts then imaginary parts), in float64."""
        frequency = np.arange(self.m // 2 + 1)
        roots = np.exp(-2j * np.pi * np.arange(self.m) / self.m)
        transforms = []
        for k, (h, w) in enumerate(zip(self._rows, self._weights, strict=True)):
            e = w[:, None] * roots[h[:, None] * frequency % self.m]
            transforms.append(np.concatenate([e.real, e.imag], axis=1) * (np.tile(self._scale, 2) if k == 0 else 1))
        return transforms

    def _by_product(self, inputs: Sequence[Array]) -> Array:
        transforms = [moved(e, x, x.dtype) for e, x in zip(self._transforms, inputs, strict=True)]
        return spectral_product(*inputs, transforms=transforms, m=self.m)

    def _by_fft(self, inputs: Sequence[Array]) -> Array:
        xp = array_namespace(inputs[0])
        product = None
        for sketch, x in zip(self._sketches, inputs, strict=True):
            y = xp.fft.rfft(sketch.apply(x, axis=-1, check_finite=False), axis=-1)
            product = y if product is None else product * y
        scale = moved(self._scale, inputs[0], inputs[0].dtype)
        real, imag = xp.real(product) * scale, xp.imag(product) * scale
        return xp.concat([real, imag[:, 1 : math.ceil(self.m / 2)]], axis=1)
