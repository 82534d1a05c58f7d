"""Truncations of a tensor mode by mode, and the error that they leave."""

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._allowances import Allowance
from nlattn.decomp._errors import projection_error
from nlattn.decomp._subspaces import leading_basis, signed
from nlattn.decomp._unfolding import multiplied, unfold
from nlattn.linalg._operators import adjoint

__all__ = ["Basis", "Method", "truncated", "tucker_error"]

Method = Literal["sthosvd", "hosvd", "hooi", "randomized"]

#: Namespace, unfolding, rank or allowance -> orthonormal columns.
Basis: TypeAlias = Callable[[Namespace, Array, int | Allowance], Array]


def truncated(
    xp: Namespace, x: Array, ranks: list[int] | Allowance, order: list[int], basis: Basis, method: Method
) -> tuple[Array, list[Array]]:
    """The core and the factors of a tensor whose modes are truncated in an order, by what `basis` keeps of each."""
    factors: dict[int, Array] = {}
    core = x
    for k in order:
        unfolded = unfold(x if method == "hosvd" else core, k)
        factors[k] = basis(xp, unfolded, ranks if isinstance(ranks, Allowance) else ranks[k])
        core = multiplied(xp, core, adjoint(factors[k]), k)
    for k in range(x.ndim):
        others = math.prod(core.shape) // core.shape[k]
        # With a tolerance a mode may have kept more directions than the later truncations of the other modes have left
        # room for; the surplus goes without loss.
        if core.shape[k] > others:
            factor = signed(xp, factors[k] @ leading_basis(xp, unfold(core, k), others))
            core = multiplied(xp, core, adjoint(factor) @ factors[k], k)
            factors[k] = factor
    return core, [factors[k] for k in range(x.ndim)]


def tucker_error(xp: Namespace, x: Array, norm: float, core: Array, factors: list[Array], *, exact: bool) -> float:
    """The relative error of a core with orthonormal factors."""

    def halves() -> tuple[Array, Array]:
        right = core
        for k in range(1, x.ndim):
            right = multiplied(xp, right, factors[k], k)
        return factors[0], xp.reshape(right, (right.shape[0], math.prod(x.shape[1:])))

    return projection_error(xp, x, norm, core, halves, exact=exact)
