"""Intervals of keys that rows see."""

from nlattn.arrays.typing import Array
from nlattn.problem.problem import Problem

__all__ = ["window_around"]


def window_around(rows: Problem, window: int) -> tuple[Array, Array]:
    """The interval of visible keys at distances below `window` from each row's position: its start and stop (B, H, L).

    Where a row sees no such key, both are equal.
    """
    xp, s = rows.xp, rows.key.shape[2]
    start = xp.clip(rows.position - (window - 1), 0, s)
    stop = xp.minimum(rows.stop, xp.clip(rows.position + window, 0, s))
    return xp.minimum(start, stop), stop
