"""Arrays as the compiled kernels want them."""

import functools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["NumpyArray", "contiguous", "frozen", "nothing", "rows_contiguous"]


#: What the kernels of this backend are given.
NumpyArray: TypeAlias = NDArray[Any]


def contiguous(array: Any, dtype: DTypeLike | None = None) -> NumpyArray:
    """`array`, contiguous and aligned, in native `dtype` if one is given; copied only where needed."""
    array = np.ascontiguousarray(array, dtype)
    return array if array.flags.aligned else array.copy()


def frozen(array: Any, dtype: DTypeLike) -> NumpyArray:
    """The same as a view that cannot be written to."""
    view = contiguous(array, dtype).view()
    view.setflags(write=False)
    return view


@functools.cache
def nothing(ndim: int, dtype: DTypeLike) -> NumpyArray:
    """A frozen array without elements, in place of one that a call does without."""
    return frozen(np.empty((0,) * ndim), dtype)


def rows_contiguous(array: Any, dtype: DTypeLike) -> NumpyArray:
    """`array` in native `dtype`, its rows contiguous and one BLAS leading dimension apart; copied only where needed.

    Leading axes of stride 0 (keys that a batch shares) stay so: the copy has one element along them.
    """
    array = np.asarray(array)
    item, width = array.itemsize, max(1, array.shape[-1])
    row, last = array.strides[-2:]
    fits = last == item and row % item == 0 and row >= item * width
    if fits and array.dtype == dtype and array.dtype.isnative and array.flags.aligned:
        return array
    shared = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides[:-2])
    copy = np.ascontiguousarray(array[shared], dtype=dtype)
    # Axes of size 1 may have any stride, 0 too, which is no leading dimension: those of rows are written out.
    lead = (0 if stride == 0 else own for stride, own in zip(array.strides[:-2], copy.strides[:-2], strict=True))
    strides = (*lead, copy.itemsize * width, copy.itemsize)
    return np.lib.stride_tricks.as_strided(copy, array.shape, strides, writeable=False)
