"""Where alternating least squares begins."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from nlattn.arrays.arguments import check_choice, floating
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.random import standard_normal
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._cp_tensor import CPTensor
from nlattn.decomp._subspaces import leading_basis
from nlattn.decomp._sweeps import Model, Sweeper
from nlattn.decomp._unfolding import unfold

__all__ = ["Init", "extended", "grown", "started"]

Named = Literal["random", "hosvd"]
Init: TypeAlias = Named | CPTensor | tuple[Array | None, Sequence[Array]]


def started(sweeper: Sweeper, rank: int, init: Init, scale: float, rng: np.random.Generator) -> Model:
    """The model that `init` names or is; the weights of one that is given belong to `scale` times the tensor."""
    x, xp = sweeper.x, sweeper.xp
    ones = xp.ones((rank,), dtype=sweeper.real, device=x.device)
    if not isinstance(init, str):
        weights, factors = _given(sweeper, rank, init)
        return sweeper.model(ones if weights is None else xp.astype(weights, ones.dtype) / scale, factors)
    check_choice("init", init, get_args(Named))
    factors = [standard_normal(rng, (size, rank), x) for size in x.shape]
    if init == "hosvd":
        factors = [_led(xp, unfold(x, k), factor) for k, factor in enumerate(factors)]
    return sweeper.model(ones, factors)


def _given(
    sweeper: Sweeper, rank: int, init: CPTensor | tuple[Array | None, Sequence[Array]]
) -> tuple[Array | None, list[Array]]:
    """Weights, or None, and factors of an `init` that holds them, checked."""
    x, xp = sweeper.x, sweeper.xp
    if isinstance(init, CPTensor):
        init = init.weights, init.factors
    if not isinstance(init, tuple | list) or len(init) != 2:
        raise TypeError(f"init must be 'random', 'hosvd', a CPTensor or (weights, factors), got {type(init).__name__}")
    weights, factors = init[0], list(init[1])
    namespace(x=x, **{f"init[1][{k}]": factor for k, factor in enumerate(factors)})
    factors = [floating(f"init[1][{k}]", a, allow_complex=sweeper.complex) for k, a in enumerate(factors)]
    wanted, got = [(size, rank) for size in x.shape], [tuple(factor.shape) for factor in factors]
    if got != wanted or (weights is not None and tuple(weights.shape) != (rank,)):
        raise ValueError(f"init must have {rank} weights and factors of shapes {wanted}, got factors of shapes {got}")
    return weights, [xp.astype(factor, x.dtype) for factor in factors]


def _led(xp: Namespace, y: Array, factor: Array) -> Array:
    """`factor` with its first columns replaced by the leading left singular vectors of `y`."""
    first = leading_basis(xp, y, min(factor.shape[1], *y.shape))
    return xp.concat([first, factor[:, first.shape[1] :]], axis=1)


def extended(sweeper: Sweeper, model: Model, rank: int, rng: np.random.Generator) -> Model:
    """The model with random components of weight 0 added."""
    xp, x = sweeper.xp, sweeper.x
    more = rank - model.weights.shape[0]
    factors = [xp.concat([a, standard_normal(rng, (a.shape[0], more), x)], axis=1) for a in model.factors]
    extended = sweeper.model(xp.ones((rank,), dtype=sweeper.real, device=x.device), factors)
    return replace(extended, weights=xp.concat([model.weights, xp.zeros_like(extended.weights[:more])]))


def grown(
    fit: Callable[[int, Model | None], tuple[Model, int, bool]], limit: int, rtol: float
) -> tuple[Model, int, bool]:
    """The fit of the smallest rank found that reaches `rtol`, else that of the largest."""

    def best(rank: int, lower: Model | None) -> tuple[Model, int, bool]:
        """The fit that starts from a model of lower rank; if it fails, the better of it and one that starts anew."""
        found = fit(rank, lower)
        if lower is None or found[0].error <= rtol:
            return found
        return min(found, fit(rank, None), key=lambda result: result[0].error)

    failed: Model | None = None
    low, rank = 0, 1
    found = best(rank, failed)
    while found[0].error > rtol and rank < limit:
        failed, low, rank = found[0], rank, min(2 * rank, limit)
        found = best(rank, failed)
    while found[0].error <= rtol and rank - low > 1:
        middle = (low + rank) // 2
        trial = best(middle, failed)
        if trial[0].error <= rtol:
            found, rank = trial, middle
        else:
            failed, low = trial[0], middle
    return found
