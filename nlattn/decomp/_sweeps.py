"""Sweeps of alternating least squares over all modes of a tensor.

The modes are halved into a left and a right group. One product of the unfolded tensor with the Khatri-Rao product of
one group serves all modes of the other: two large products a sweep, whatever the number of modes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._columnwise import columnwise
from nlattn.decomp._cp_tensor import halves
from nlattn.decomp._least_squares import gram, hadamard, normalised, updated
from nlattn.kernels.contract_columns import contract_columns
from nlattn.linalg._magnitudes import CANCELLED, residual_norm

__all__ = ["Model", "Sweeper"]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Weights, factors with normalised columns, their Gram matrices, and the relative error, inf if it is not known."""

    weights: Array
    factors: tuple[Array, ...]
    grams: tuple[Array, ...]
    error: float = math.inf


class Sweeper:
    """Least-squares updates for a tensor `x` of norm `norm`, which is not 0."""

    def __init__(self, xp: Namespace, x: Array, norm: float) -> None:
        self.xp, self.x, self.norm = xp, x, norm
        self.floor = CANCELLED * float(xp.finfo(x.dtype).eps)
        self.complex = xp.isdtype(x.dtype, "complex floating")
        self.real = xp.real(x).dtype if self.complex else x.dtype
        shape = x.shape
        # Where two halvings are equally even, the one with more rows is taken, whose products are faster.
        self.at = min(range(max(x.ndim - 1, 1), 0, -1), key=lambda k: math.prod(shape[:k]) + math.prod(shape[k:]))
        self.matrix = xp.reshape(x, (math.prod(shape[: self.at]), math.prod(shape[self.at :])))

    def model(self, weights: Array, factors: Sequence[Array]) -> Model:
        """The model of given weights and factors, whose columns may have any norm."""
        pairs = [normalised(self.xp, factor) for factor in factors]
        weights = reduce(lambda product, pair: product * pair[1], pairs, weights)
        return Model(weights, tuple(a for a, _ in pairs), tuple(gram(self.xp, a) for a, _ in pairs))

    def left_part(self, factors: Sequence[Array]) -> Array:
        """The tensor summed against the factors of the right group, shape (rows of self.matrix, R)."""
        if self.at == len(factors):
            return self.xp.broadcast_to(self.matrix, (self.matrix.shape[0], factors[0].shape[1]))
        return self.matrix @ self._conj(columnwise(factors[self.at :]))

    def measured(self, model: Model, part: Array) -> Model:
        """The model with its error, for the given `left_part`."""
        return self._measured(model, self._mttkrp(part, model.factors[: self.at], 0), 0)

    def sweep(self, model: Model, damping: float = 0.0, part: Array | None = None) -> Model:
        """Update all factors in turn, beginning with the given `left_part` if there is one.

        With `damping` each update stays closer to the factor that it replaces; the error still does not grow.
        """
        xp, factors, grams = self.xp, list(model.factors), list(model.grams)
        weights = model.weights
        part = self.left_part(factors) if part is None else part
        for k in range(len(factors)):
            if k == self.at:
                part = xp.matrix_transpose(self.matrix) @ self._conj(columnwise(factors[: self.at]))
            first, last = (0, self.at) if k < self.at else (self.at, len(factors))
            products = self._mttkrp(part, factors[first:last], k - first)
            normal = hadamard(xp, grams[:k] + grams[k + 1 :], grams[k])
            factors[k], weights = updated(xp, products, normal, factors[k] * weights, damping)
            grams[k] = gram(xp, factors[k])
        return self._measured(Model(weights, tuple(factors), tuple(grams)), products, len(factors) - 1)

    def _measured(self, model: Model, products: Array, mode: int) -> Model:
        squared, floor = self._squared(model, products, mode)
        if squared > floor:
            error = math.sqrt(squared)
        else:
            error = residual_norm(self.x, *halves(model.weights, model.factors)) / self.norm
        return Model(model.weights, model.factors, model.grams, error)

    def _squared(self, model: Model, products: Array, mode: int) -> tuple[float, float]:
        """The squared relative error from the MTTKRP of one mode, and the size below which rounding may hide it."""
        xp, weights = self.xp, model.weights
        inner = xp.sum(products * self._conj(model.factors[mode]), axis=0)
        inner = weights * (xp.real(inner) if self.complex else inner)
        cosines = hadamard(xp, list(model.grams), model.grams[0])
        pairs = weights[:, None] * weights * (xp.real(cosines) if self.complex else cosines)
        squared = to_float(xp.sum(pairs) - 2 * xp.sum(inner)) / self.norm**2 + 1
        terms = to_float(xp.sum(xp.abs(pairs)) + 2 * xp.sum(xp.abs(inner))) / self.norm**2 + 1
        return squared, self.floor * terms

    def _mttkrp(self, part: Array, factors: Sequence[Array], k: int) -> Array:
        """The sum of a partial product over all modes of its group but number `k`."""
        xp, rank = self.xp, part.shape[-1]
        before, size = math.prod(a.shape[0] for a in factors[:k]), factors[k].shape[0]
        if k + 1 < len(factors):
            others = self._conj(columnwise(factors[k + 1 :]))
            part = contract_columns(xp.reshape(part, (before * size, others.shape[0], 1, rank)), others)
        if k > 0:
            others = self._conj(columnwise(factors[:k]))
            part = contract_columns(xp.reshape(part, (1, before, size, rank)), others)
        return xp.reshape(part, (size, rank))

    def _conj(self, a: Array) -> Array:
        return self.xp.conj(a) if self.complex else a
