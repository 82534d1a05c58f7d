"""Points in blocks of equal size, neighbours in some order together."""

from typing import NamedTuple

import array_api_compat

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import concrete_or
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array, Namespace

__all__ = ["SortedBlocks", "sort_into_blocks"]


class SortedBlocks(NamedTuple):
    """The points of each block.

    Attributes
    ----------
    index : integer array, shape (..., blocks, size)
        The point in each place; where no point is left, the one in the last place that has one.
    used : boolean array, shape (..., blocks, size)
        False where a place holds no valid point.
    inverse : integer array, shape (..., n)
        The place of each point: block ``inverse // size``, and there ``inverse % size``.
    """

    index: Array  # type: ignore[assignment]  # which hides the method `index` of tuples
    used: Array
    inverse: Array


@on_numpy
def sort_into_blocks(codes: Array, size: int, *, valid: Array | None = None) -> SortedBlocks:
    """Sort points by their codes, and cut the sequence into blocks.

    Parameters
    ----------
    codes : array, shape (..., n)
        What to sort by: integers, e.g. hash codes or their `gray_rank`, or real numbers without NaN.
    size : int
        Places in a block. It need not divide n: places at the end stay empty.
    valid : boolean array, broadcasts to (..., n), default all True
        Points that are not valid come last, whatever their code.

    Returns
    -------
    SortedBlocks
        ceil(n / size) blocks. Points with equal codes keep their order.

    Notes
    -----
    Costs a stable sort, linear in n on NumPy where the codes fit 16 bits, and one to invert it.

    Examples
    --------
    >>> import numpy as np, nlattn.cluster
    >>> index, used, inverse = nlattn.cluster.sort_into_blocks(np.asarray([2, 0, 1, 0, 2]), 2)
    >>> index, inverse
    (array([[1, 3],
           [2, 0],
           [4, 4]]), array([3, 0, 2, 1, 4]))
    >>> used[-1]
    array([ True, False])
    """
    xp = namespace(codes=codes) if valid is None else namespace(codes=codes, valid=valid)
    size = check_integer("size", size)
    if codes.ndim == 0:
        raise ValueError("codes must have at least one axis, got a number")
    if not xp.isdtype(codes.dtype, ("integral", "real floating")):
        raise TypeError(f"codes must be integers or real numbers, got {codes.dtype}")
    n = codes.shape[-1]
    order = xp.argsort(_narrow(xp, codes), axis=-1, stable=True)
    if valid is not None:
        if not xp.isdtype(valid.dtype, "bool"):
            raise TypeError(f"valid must be boolean, got {valid.dtype}")
        valid = _broadcast(xp, valid, codes)
        late = xp.astype(~xp.take_along_axis(valid, order, axis=-1), xp.int8)
        order = xp.take_along_axis(order, xp.argsort(late, axis=-1, stable=True), axis=-1)
    inverse = xp.argsort(order, axis=-1)
    blocks = -(-n // size)
    place = xp.arange(blocks * size, dtype=order.dtype, device=codes.device)
    lead = codes.shape[:-1]
    if n == 0:
        shape = (*lead, 0, size)
        index = xp.zeros(shape, dtype=order.dtype, device=codes.device)
        return SortedBlocks(index, xp.zeros(shape, dtype=xp.bool, device=codes.device), inverse)
    index = xp.take(order, xp.clip(place, None, n - 1), axis=-1)
    used = xp.broadcast_to(place < n, index.shape)
    if valid is not None:
        used = used & xp.take_along_axis(valid, index, axis=-1)
    shape = (*lead, blocks, size)
    return SortedBlocks(xp.reshape(index, shape), xp.reshape(used, shape), inverse)


def _broadcast(xp: Namespace, valid: Array, codes: Array) -> Array:
    try:
        return xp.broadcast_to(valid, codes.shape)
    except (ValueError, RuntimeError):
        raise ValueError(
            f"valid must have a shape that broadcasts to {tuple(codes.shape)}, that of codes, got {tuple(valid.shape)}"
        ) from None


def _narrow(xp: Namespace, codes: Array) -> Array:
    """The codes in 16 bits if they fit: NumPy then sorts them in linear time."""
    if not (array_api_compat.is_numpy_array(codes) and xp.isdtype(codes.dtype, "integral") and 0 not in codes.shape):
        return codes
    fits = concrete_or((xp.min(codes) >= -(2**15)) & (xp.max(codes) < 2**15), otherwise=False)
    return xp.astype(codes, xp.int16) if fits else codes
