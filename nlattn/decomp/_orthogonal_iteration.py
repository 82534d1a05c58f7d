"""Higher-order orthogonal iteration: a Tucker decomposition improved one mode at a time."""

from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._subspaces import leading_basis
from nlattn.decomp._unfolding import multiplied, unfold
from nlattn.linalg._magnitudes import squared_norm
from nlattn.linalg._operators import adjoint

__all__ = ["orthogonal_iteration"]


def orthogonal_iteration(
    xp: Namespace, x: Array, norm: float, core: Array, factors: list[Array], *, iterations: int, tol: float
) -> tuple[Array, list[Array], int, bool]:
    """Core and factors whose error is no larger, the number of sweeps made, and whether the last one changed little."""
    factors, rounding = list(factors), 8 * float(xp.finfo(x.dtype).eps) * norm**2
    energy = to_float(squared_norm(core))
    for sweep in range(1, iterations + 1):
        core = x
        for k in range(x.ndim):
            part = core
            for m in sorted(range(k + 1, x.ndim), key=lambda m: factors[m].shape[1] / x.shape[m]):
                part = multiplied(xp, part, adjoint(factors[m]), m)
            factors[k] = leading_basis(xp, unfold(part, k), factors[k].shape[1])
            core = multiplied(xp, core, adjoint(factors[k]), k)
        before, energy = energy, to_float(squared_norm(core))
        if energy - before <= 2 * tol * (norm**2 - energy) + rounding:
            return core, factors, sweep, True
    return core, factors, iterations, False
