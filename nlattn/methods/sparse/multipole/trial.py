"""Trials: layouts and numbers of near keys are compared on a few blocks of rows."""

from typing import NamedTuple

import numpy as np

from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import concrete_or
from nlattn.arrays.typing import Array
from nlattn.attend.intervals import interval_attention
from nlattn.methods.sparse.multipole.layouts import without_gradient
from nlattn.methods.sparse.multipole.policy import POLICY
from nlattn.methods.sparse.multipole.state import State, attend_from, full_blocks, rows_of_blocks
from nlattn.problem.problem import Problem

__all__ = ["best_layouts", "fitted"]


class Trial(NamedTuple):
    """Blocks of rows, some of which were computed exactly.

    Attributes
    ----------
    numbers : NumPy array of int
        Which blocks these are.
    rows : Problem
        All their rows.
    exact : array, shape (B, H, m, Ev)
        The exact output of one in `stride` of their rows.
    stride : int
    size : array, shape (B, H)
        The squared norm of `exact`.
    """

    numbers: np.ndarray
    rows: Problem
    exact: Array
    stride: int
    size: Array


def _trial(problem: Problem, state: State, exact: Array | None = None) -> Trial:
    """A trial on evenly spaced full blocks, with their exact output if that is known already."""
    xp = problem.xp
    full = full_blocks(state.grid)
    count = min(POLICY.trials, len(full))
    numbers = full.start + np.arange(count) * len(full) // max(1, count) + len(full) // max(1, 2 * count)
    index = rows_of_blocks(state, problem, numbers)
    stride = 4 if state.grid.length < 16384 else 2
    if exact is None:
        exact = interval_attention(problem.rows(index[..., ::stride])).out
    size = xp.sum(xp.astype(exact, xp.float64) ** 2, axis=(-2, -1))
    return Trial(numbers, problem.rows(index), exact, stride, size)


def _squares(state: State, trial: Trial) -> Array:
    """The squared errors of the rows of a trial (B, H, m), over the mean squared norm of the rows of their head."""
    xp = trial.rows.xp
    exact = xp.astype(trial.exact, xp.float64)
    found = xp.astype(attend_from(state, trial.rows, trial.numbers).out[:, :, :: trial.stride, :], xp.float64)
    mean = trial.size[..., None] / max(1, exact.shape[2])
    return xp.sum((found - exact) ** 2, axis=-1) / nonzero(mean)


def best_layouts(problem: Problem, state: State) -> Array:
    """The number of the layout with the smallest error on a few blocks, for each head (B, H)."""
    xp = problem.xp
    errors, consecutive = [], None
    for layout in state.layouts:
        one = state._replace(layouts=[layout], choice=xp.zeros_like(state.choice))
        trial = _trial(problem, one, consecutive if layout.query_order is None else None)
        consecutive = trial.exact if layout.query_order is None else consecutive
        errors.append(xp.mean(_squares(one, trial), axis=-1))
    return xp.argmin(xp.stack(errors), axis=0)


def fitted(problem: Problem, state: State, rtol: float) -> State:
    """The state with the least number of near keys for each head that seems to keep the tolerance `rtol`."""
    xp, s = problem.xp, problem.key.shape[2]
    near = state.near
    if len(full_blocks(state.grid)) == 0:
        # There are too few rows for a trial.
        return state._replace(near=xp.full_like(near, s))
    trial = _trial(without_gradient(problem), state)
    left = xp.ones_like(near) > 0
    while concrete_or(xp.any(left), otherwise=False):
        squares = _squares(state._replace(near=near, choice=xp.where(left, state.choice, -1)), trial)
        # One standard error is added for what rare rows may contribute.
        error = xp.mean(squares, axis=-1) + xp.std(squares, axis=-1) / max(1, squares.shape[-1]) ** 0.5
        error = xp.sqrt(error) / (POLICY.goal * rtol)
        left = left & (error > 1)
        growth = xp.clip(xp.clip(error, POLICY.step, None) ** (1 / POLICY.fall), None, 2.0)
        larger = xp.astype(near, xp.float64) * growth
        larger = xp.astype(xp.ceil(larger / POLICY.most_block), near.dtype) * POLICY.most_block
        near = xp.where(left, larger, near)
        # Where more than half of the keys would have to be near, exact attention costs less.
        lost = left & (2 * near > s)
        near, left = xp.where(lost, s, near), left & ~lost
    return state._replace(near=near)
