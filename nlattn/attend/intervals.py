"""Exact attention of each row over the interval of keys that it may see."""

import numpy as np

from nlattn.arrays.host import all_finite
from nlattn.arrays.typing import Array
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.problem.masks import checked_finite
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem

__all__ = ["checked_interval_attention", "interval_attention"]

# Up to so many rows, to look at all keys takes as long as attention itself, which then does it on the way.
FEW_ROWS = 64


def interval_attention(problem: Problem) -> Partial:
    """Exact attention of each row of a problem over its interval of keys, with its mask.

    Where NaN and inf were not ruled out, they reach just the rows that give them weight.

    Parameters
    ----------
    problem : Problem
        All rows, or some of them (`Problem.rows`), or other intervals (``dataclasses.replace(problem, start=...)``).

    Returns
    -------
    Partial
        In the layout of the problem, (B, H, L, Ev) and (B, H, L), in the dtype in which sums are formed.

    Examples
    --------
    For the `apply` of a method of one's own; see the example of `nlattn.Method`.

    >>> import numpy as np, nlattn
    >>> from nlattn.problem.arguments import checked_problem
    >>> problem = checked_problem("example", np.ones((2, 3)), np.ones((4, 3)), np.arange(4.0)[:, None])
    >>> nlattn.interval_attention(problem).out.ravel()
    array([1.5, 1.5])
    """
    xp, value = problem.xp, problem.value
    if problem.finite:
        return _softmax(problem, value)
    with np.errstate(all="ignore"):
        part = _softmax(problem, value)
    if all_finite(xp, part.out):
        return part
    # In a product of tiles 0 * NaN is NaN. So spoiled entries are kept out, and NaN is written where they have weight.
    spoiled = ~xp.isfinite(value)
    part = _softmax(problem, xp.where(spoiled, xp.zeros_like(value), value))
    reach = _softmax(problem, xp.astype(spoiled, value.dtype)).out
    return Partial(xp.where(reach > 0, xp.nan, part.out), part.lse)


def checked_interval_attention(problem: Problem) -> Partial:
    """The same for a problem that was not looked at for NaN and inf: they raise where a row may see them.

    What is not finite in a value shows in the output, also where its weight is 0. So all values are looked at only if
    it does.
    """
    xp, few = problem.xp, problem.shape[3] <= FEW_ROWS
    if all_finite(xp, problem.query) and (few or all_finite(xp, problem.key)):
        with np.errstate(all="ignore"):
            part = _softmax(problem, problem.value, strict=few)
        if all_finite(xp, part.out):
            return part
    return interval_attention(checked_finite(problem))


def _softmax(problem: Problem, value: Array, *, strict: bool = False) -> Partial:
    return Partial(
        *softmax_attention(
            problem.query,
            problem.key,
            value,
            problem.start,
            problem.stop,
            scale=problem.scale,
            mask=problem.mask,
            bias=problem.bias,
            strict=strict,
        )
    )
