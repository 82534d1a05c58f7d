"""The same small dense computation for many matrices."""

from collections.abc import Callable
from typing import Any

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["over_matrices"]


@kernel
def over_matrices(*arrays: Array, function: Callable[..., tuple[Any, ...]], axes: int = 2) -> tuple[Any, ...]:
    """Apply a function that treats its leading axes one by one, such as a factorisation.

    Parameters
    ----------
    *arrays : array, shape (..., *own)
        All with the same `axes` leading axes.
    function : callable
        Takes the arrays, with or without the leading axes, and returns a tuple of arrays that have as many of them.
    axes : int, default 2

    Returns
    -------
    tuple of array
        ``function(*arrays)``. Backends may call it for one matrix at a time, several at once: a single one has too
        little to do for several threads.
    """
    return function(*arrays)
