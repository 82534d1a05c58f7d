"""Alternating least squares on sampled rows of the Khatri-Rao product."""

import math
from functools import reduce
from operator import add

import numpy as np

from nlattn.arrays.host import to_float
from nlattn.arrays.random import moved
from nlattn.arrays.typing import Array
from nlattn.decomp._alternating import Rules
from nlattn.decomp._columnwise import columnwise
from nlattn.decomp._least_squares import gram, updated
from nlattn.decomp._sampling import draw_rows, selected_rows
from nlattn.decomp._sweeps import Model, Sweeper
from nlattn.decomp._unfolding import unfold
from nlattn.linalg._magnitudes import squared_norm

__all__ = ["Sampler", "alternate_on_samples"]

# Entries of the tensor on which errors are estimated: enough to know the mean of their squares to about 1 %.
ENTRIES = 1 << 14

# Sweeps without a new best error after which the fit ends.
PATIENCE = 5


class Sampler:
    """Least-squares updates from sampled fibres of the tensor of a Sweeper."""

    def __init__(self, sweeper: Sweeper, samples: int, rng: np.random.Generator) -> None:
        self.sweeper, self.samples, self.rng, self.xp = sweeper, samples, rng, sweeper.xp
        shape = sweeper.x.shape
        self.flat = self.xp.reshape(sweeper.x, (math.prod(shape),))
        self.strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        self.checked = [moved(rng.integers(0, size, ENTRIES), self.flat) for size in shape]
        self.entries = self.xp.take(self.flat, self._places(self.checked, self.strides), axis=0)

    def update(self, model: Model, mode: int, damping: float) -> Model:
        """The model with one factor replaced; by the exact solution where there are no more rows than samples."""
        xp, x = self.xp, self.sweeper.x
        others = [k for k in range(x.ndim) if k != mode]
        factors = [model.factors[k] for k in others]
        if math.prod(a.shape[0] for a in factors) <= self.samples:
            rows = columnwise(factors) if factors else xp.ones_like(model.factors[mode][:1, :])
            fibres, weighted = unfold(x, mode), rows
        else:
            indices, probability = draw_rows(factors, self.samples, self.rng)
            rows = selected_rows(factors, indices)
            weighted = rows * xp.astype(1 / (self.samples * probability), model.weights.dtype)[:, None]
            places = self._places(indices, [self.strides[k] for k in others])
            along = self.strides[mode] * xp.arange(x.shape[mode], dtype=places.dtype, device=x.device)
            fibres = xp.reshape(
                xp.take(self.flat, xp.reshape(along[:, None] + places, (-1,)), axis=0), (x.shape[mode], self.samples)
            )
        if self.sweeper.complex:
            weighted = xp.conj(weighted)
        normal = xp.matrix_transpose(rows) @ weighted
        factor, weights = updated(xp, fibres @ weighted, normal, model.factors[mode] * model.weights, damping)
        factors, grams = list(model.factors), list(model.grams)
        factors[mode], grams[mode] = factor, gram(xp, factor)
        return Model(weights, tuple(factors), tuple(grams))

    def error(self, model: Model) -> float:
        """The relative error estimated from the same entries each time."""
        fitted = selected_rows(model.factors, self.checked) @ self.xp.astype(model.weights, self.flat.dtype)
        share = math.prod(self.sweeper.x.shape) / ENTRIES
        return math.sqrt(share * to_float(squared_norm(self.entries - fitted))) / self.sweeper.norm

    def _places(self, indices: list[Array], strides: list[int]) -> Array:
        """The places in the flat tensor of entries given by their indices along some modes."""
        return reduce(add, (stride * index for index, stride in zip(indices, strides, strict=True)))


def alternate_on_samples(sampler: Sampler, model: Model, rules: Rules) -> tuple[Model, int, bool]:
    """The best model by estimated errors after one exact sweep, the number of sweeps, and whether they have settled."""
    best, least, since = model, math.inf, 0
    for sweep in range(1, rules.iterations):
        for mode in range(len(model.factors)):
            model = sampler.update(model, mode, rules.damping)
        error = sampler.error(model)
        since = 0 if error < (1 - rules.tol) * least else since + 1
        if error < least:
            best, least = model, error
        if error <= rules.rtol or (rules.tol > 0 and since >= PATIENCE):
            return sampler.sweeper.sweep(best, rules.damping), sweep + 1, True
    return sampler.sweeper.sweep(best, rules.damping), rules.iterations, rules.tol == 0
