"""What multipole attention prepares, and attention of rows that starts from it."""

from typing import NamedTuple

import numpy as np

from nlattn.arrays.host import concrete_or
from nlattn.arrays.typing import Array
from nlattn.methods.sparse.multipole.layouts import Grid, Layout, attend_on_layout, with_key_heads
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem

__all__ = ["State", "attend_from", "full_blocks", "rows_of_blocks"]


class State(NamedTuple):
    """Layouts, and for each head which of them it takes and how many near keys.

    Attributes
    ----------
    layouts : list of Layout
    choice : integer array, shape (B, H)
        Which layout each head takes; -1 leaves a head out.
    near : integer array, shape (B, H)
    weight : array, shape (B, K, S), or None
        Log-weights of the keys; K is G, or H where masks differ within a group.
    grid : Grid
    overhead : int
        What it costs to meet a cluster, beyond its keys and in units of a key.
    """

    layouts: list[Layout]
    choice: Array
    near: Array
    weight: Array | None
    grid: Grid
    overhead: int


def attend_from(state: State, rows: Problem, numbers: np.ndarray | None = None) -> Partial:
    """Attention of all rows, or of those that `rows_of_blocks` lists for the blocks `numbers`."""
    xp = rows.xp
    rows, _ = with_key_heads(rows)
    found: Partial | None = None
    for i, layout in enumerate(state.layouts):
        mine = state.choice == i
        last = i == len(state.layouts) - 1
        if len(state.layouts) > 1 and not concrete_or(xp.any(mine), otherwise=True) and not (last and found is None):
            continue
        near = xp.where(mine, state.near, -1)
        part = attend_on_layout(state.grid, layout, rows, near, state.weight, state.overhead, numbers)
        # In heads that take another layout, `part` has output 0 and lse -inf.
        if found is not None:
            part = Partial(found.out + part.out, xp.where(mine[..., None], part.lse, found.lse))
        found = part
    assert found is not None
    return found


def full_blocks(grid: Grid) -> range:
    """The numbers of the blocks that are full."""
    return range(1, grid.length // grid.block)


def rows_of_blocks(state: State, problem: Problem, numbers: np.ndarray) -> Array:
    """The rows (B, H, m) of the full blocks `numbers`."""
    xp, grid = problem.xp, state.grid
    b, h, _, length, s = problem.shape
    place = (np.asarray(numbers)[:, None] * grid.block + np.arange(grid.block)).reshape(-1)
    places = xp.asarray(place, device=state.near.device)
    rows: Array | None = None
    for i, layout in enumerate(state.layouts):
        if layout.query_order is None:
            mine = xp.broadcast_to(places - (s - length) % grid.block, (b, h, place.size))
        else:
            mine = xp.take(layout.query_order, places, axis=2)
        rows = mine if rows is None else xp.where((state.choice == i)[..., None], mine, rows)
    assert rows is not None
    return rows
