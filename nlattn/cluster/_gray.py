"""Codes in an order in which neighbours differ by one bit."""

from typing import Any

from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array

__all__ = ["gray_rank"]


@on_numpy
def gray_rank(codes: Array) -> Array:
    """The place of each binary code in the reflected Gray sequence.

    Parameters
    ----------
    codes : integer array
        Not negative, e.g. from `hyperplane_codes`.

    Returns
    -------
    array, shape and dtype of `codes`
        Codes whose ranks are r and r + 1 differ in exactly one bit: points sorted by rank have a neighbourhood of
        close codes.

    Notes
    -----
    This is the inverse of the map c -> c ^ (c >> 1) from ranks to codes. That map itself, used as the rank, does not
    do it from three bits on.

    Examples
    --------
    >>> import numpy as np, nlattn.cluster
    >>> nlattn.cluster.gray_rank(np.asarray([0b000, 0b001, 0b011, 0b010, 0b110, 0b111, 0b101, 0b100]))
    array([0, 1, 2, 3, 4, 5, 6, 7])
    """
    xp = namespace(codes=codes)
    if not xp.isdtype(codes.dtype, "integral"):
        raise TypeError(f"codes must be integers, got {codes.dtype}; see hyperplane_codes")
    rank: Any = codes
    shift = 1
    while shift < xp.iinfo(codes.dtype).bits:
        rank = rank ^ (rank >> shift)
        shift *= 2
    return rank
