"""Attention of blocks of rows over ranges of keys: an online softmax over tiles that lie in one range each."""

from nlattn.backends.numba_cpu.runtime.layout import NumpyArray
from nlattn.backends.numba_cpu.vector.hidden import Masks
from nlattn.backends.numba_cpu.vector.row_blocks import attend_blocks

__all__ = ["block_attention"]


def block_attention(
    query: NumpyArray,
    key: NumpyArray,
    value: NumpyArray,
    begin: NumpyArray,
    end: NumpyArray,
    *,
    scale: float,
    size: int,
    start: NumpyArray | None = None,
    stop: NumpyArray | None = None,
    position: NumpyArray | None = None,
    weight: NumpyArray | None = None,
    met: tuple[NumpyArray, NumpyArray] | None = None,
    initial: tuple[NumpyArray, NumpyArray] | None = None,
) -> tuple[NumpyArray, NumpyArray]:
    """See :func:`nlattn.kernels.block_attention.block_attention`."""
    if 0 in (*query.shape[:3], key.shape[2], value.shape[3], begin.shape[3]):
        return NotImplemented
    masks = Masks(start=start, stop=stop, position=position, weight=weight, met=met)
    return attend_blocks((query, key, value), (begin, end), masks, scale=scale, size=size, initial=initial)
