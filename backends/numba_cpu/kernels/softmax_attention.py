"""Streaming softmax attention: blocks of rows over the range of keys that they see between them."""

import numpy as np

from nlattn.backends.numba_cpu.runtime.layout import NumpyArray
from nlattn.backends.numba_cpu.vector.hidden import Masks
from nlattn.backends.numba_cpu.vector.row_blocks import ROWS, attend_blocks

__all__ = ["softmax_attention"]

# Blocks that are enough to be shared out evenly, where there are so many rows.
ENOUGH = 16
# Rows of a block, at least.
LEAST = 16


def softmax_attention(
    query: NumpyArray,
    key: NumpyArray,
    value: NumpyArray,
    start: NumpyArray,
    stop: NumpyArray,
    *,
    scale: float,
    mask: NumpyArray | None = None,
    bias: NumpyArray | None = None,
    strict: bool = False,
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.softmax_attention.softmax_attention`."""
    (b, h, length, _), (s, ev) = query.shape, (key.shape[2], value.shape[3])
    if min(b, h, length, s, ev) == 0:
        return NotImplemented
    size = ROWS
    while size > LEAST and b * h * -(-length // size) < ENOUGH:
        size //= 2
    blind = start >= stop
    edges = np.arange(0, length, size)
    begin = np.minimum.reduceat(np.where(blind, s, start), edges, axis=2)[..., None]
    end = np.maximum.reduceat(np.where(blind, 0, stop), edges, axis=2)[..., None]
    mask, bias = (None if x is None else np.broadcast_to(x, (b, h, length, s)) for x in (mask, bias))
    masks = Masks(start=start, stop=stop, mask=mask, bias=bias)
    return attend_blocks((query, key, value), (begin, end), masks, scale=scale, size=size, strict=strict)
