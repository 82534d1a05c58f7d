"""One matrix after the other on each thread of the pool, with a BLAS that does not thread by itself."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nlattn.backends.numba_cpu.runtime.layout import NumpyArray
from nlattn.backends.numba_cpu.runtime.pool import run

__all__ = ["over_matrices"]


def over_matrices(*arrays: NumpyArray, function: Callable[..., tuple[Any, ...]], axes: int = 2) -> tuple[Any, ...]:
    """See :func:`nlattn.kernels.over_matrices.over_matrices`."""
    lead = arrays[0].shape[:axes]
    count = math.prod(lead)
    if count == 0:
        return NotImplemented
    flat = [np.asarray(array).reshape(count, *array.shape[axes:]) for array in arrays]
    results: list[tuple[Any, ...]] = [()] * count

    def task(i: int) -> None:
        results[i] = function(*(array[i] for array in flat))

    run(task, [(i,) for i in range(count)])
    return tuple(np.stack(parts).reshape(*lead, *np.shape(parts[0])) for parts in zip(*results, strict=True))
