"""Arrays as the compiled kernels want them."""

from typing import Any

import numpy as np

__all__ = ["rows_contiguous"]


def rows_contiguous(array: Any, dtype: Any) -> Any:
    """`array` in native `dtype`, its rows contiguous and one BLAS leading dimension apart; copied only where needed.

    Leading axes of stride 0 (keys that a batch shares) stay so: the copy has one element along them.
    """
    array = np.asarray(array)
    item = array.itemsize
    row, last = array.strides[-2:]
    fits = last == item and row % item == 0 and row >= item * array.shape[-1]
    if fits and array.dtype == dtype and array.dtype.isnative and array.flags.aligned:
        return array
    shared = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides[:-2])
    return np.broadcast_to(np.ascontiguousarray(array[shared], dtype=dtype), array.shape)
