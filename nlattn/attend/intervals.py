"""Exact attention of each row over the interval of keys that it may see."""

from typing import Any

from nlattn.arrays.host import all_finite
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem

__all__ = ["attend"]


def attend(problem: Problem, *, checked: bool = True) -> Partial:
    """Exact attention of a checked problem, in its accumulator, in the layout of the kernels."""
    xp = problem.xp
    value = problem.value
    spoiled = None if checked or all_finite(xp, value) else ~xp.isfinite(value)
    if spoiled is not None:
        value = xp.where(spoiled, xp.zeros_like(value), value)
    part = Partial(*_softmax(problem, value))
    if spoiled is not None:
        # 0 * NaN is NaN in a product of tiles: the spoiled entries are kept out and marked where they have weight.
        reach = _softmax(problem, xp.astype(spoiled, value.dtype))[0]
        part = Partial(xp.where(reach > 0, xp.nan, part.out), part.lse)
    return part


def _softmax(problem: Problem, value: Any) -> tuple[Any, Any]:
    return softmax_attention(
        problem.query,
        problem.key,
        value,
        problem.start,
        problem.stop,
        scale=problem.scale,
        mask=problem.mask,
        bias=problem.bias,
    )
