"""Exact attention of each row over the interval of keys that it may see."""

from nlattn.arrays.host import all_finite
from nlattn.arrays.typing import Array
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem

__all__ = ["interval_attention"]


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
    if problem.finite or all_finite(xp, value):
        return _softmax(problem, value)
    # In a product of tiles 0 * NaN is NaN. So spoiled entries are kept out, and NaN is written where they have weight.
    spoiled = ~xp.isfinite(value)
    part = _softmax(problem, xp.where(spoiled, xp.zeros_like(value), value))
    reach = _softmax(problem, xp.astype(spoiled, value.dtype)).out
    return Partial(xp.where(reach > 0, xp.nan, part.out), part.lse)


def _softmax(problem: Problem, value: Array) -> Partial:
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
        )
    )
