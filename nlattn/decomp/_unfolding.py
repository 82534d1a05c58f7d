"""Tensors as matrices, and matrices applied to tensors."""

import math

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._arguments import check_mode, common

__all__ = ["fold", "mode_product", "unfold"]

# Entries behind a mode from which on a product takes it where it stands. With fewer the mode is moved to the front
# first, since a batch of such narrow products is slow.
NARROW = 16


def unfold(x: Array, mode: int) -> Array:
    """The matrix whose columns are the fibres of a tensor along one mode.

    Parameters
    ----------
    x : array, shape (I_0, ..., I_N-1)
        Any dtype; at least one axis.
    mode : int
        Negative ones count from the last axis.

    Returns
    -------
    array, shape (I_mode, product of the others)
        The other modes in their order, the last one varying fastest: ``moveaxis(x, mode, 0)`` reshaped. A view where
        the library allows it.

    Notes
    -----
    Kolda and Bader (DOI 10.1137/07070111X) let the first of the other modes vary fastest; only the order of the columns
    differs.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import unfold
    >>> unfold(np.arange(8).reshape(2, 2, 2), 1)
    array([[0, 1, 4, 5],
           [2, 3, 6, 7]])
    """
    xp = namespace(x=x)
    mode = check_mode(mode, x.ndim)
    size = x.shape[mode]
    rest = math.prod(x.shape[:mode]) * math.prod(x.shape[mode + 1 :])
    if mode == x.ndim - 1:
        return xp.matrix_transpose(xp.reshape(x, (rest, size)))
    return xp.reshape(xp.moveaxis(x, mode, 0), (size, rest))


def fold(matrix: Array, mode: int, shape: tuple[int, ...]) -> Array:
    """The tensor of a given shape whose `unfold` along `mode` is a given matrix.

    Parameters
    ----------
    matrix : array, shape (shape[mode], product of the others)
    mode : int
    shape : tuple of int

    Returns
    -------
    array, shape `shape`

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import fold, unfold
    >>> x = np.arange(24).reshape(2, 3, 4)
    >>> bool(np.all(fold(unfold(x, 1), 1, x.shape) == x))
    True
    """
    xp = namespace(matrix=matrix)
    shape = tuple(check_integer(f"shape[{k}]", size, least=0) for k, size in enumerate(shape))
    mode = check_mode(mode, len(shape))
    others = shape[:mode] + shape[mode + 1 :]
    if tuple(matrix.shape) != (shape[mode], math.prod(others)):
        raise ValueError(
            f"matrix must have shape {(shape[mode], math.prod(others))} to be mode {mode} of {shape}, "
            f"got {tuple(matrix.shape)}"
        )
    return xp.moveaxis(xp.reshape(matrix, (shape[mode], *others)), 0, mode)


@on_numpy
def mode_product(x: Array, matrix: Array, mode: int) -> Array:
    """A tensor multiplied by a matrix along one mode: ``unfold(y, mode) = matrix @ unfold(x, mode)``.

    Parameters
    ----------
    x : array, shape (I_0, ..., I_N-1)
    matrix : array, shape (J, I_mode)
        Not conjugated.
    mode : int

    Returns
    -------
    y : array, shape (I_0, ..., J, ..., I_N-1)
        In the dtype that holds both; integers become float64.

    Notes
    -----
    Costs 2 J prod(I) operations in matrix products. Copies of `x` are made only where fewer than 16 entries lie behind
    the mode.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import mode_product
    >>> mode_product(np.ones((2, 3, 4)), np.ones((5, 3)), 1).shape
    (2, 5, 4)
    """
    xp, (x, matrix) = common(x=x, matrix=matrix)
    mode = check_mode(mode, x.ndim)
    if matrix.ndim != 2 or matrix.shape[1] != x.shape[mode]:
        raise ValueError(
            f"matrix must have {x.shape[mode]} columns, the size of mode {mode} of x, got shape {tuple(matrix.shape)}"
        )
    return multiplied(xp, x, matrix, mode)


def multiplied(xp: Namespace, x: Array, matrix: Array, mode: int) -> Array:
    """`mode_product` of checked arguments."""
    before, after = tuple(x.shape[:mode]), tuple(x.shape[mode + 1 :])
    left, size, right = math.prod(before), x.shape[mode], math.prod(after)
    shape = (*before, matrix.shape[0], *after)
    if right == 1:
        return xp.reshape(xp.reshape(x, (left, size)) @ xp.matrix_transpose(matrix), shape)
    if left == 1:
        return xp.reshape(matrix @ xp.reshape(x, (size, right)), shape)
    if right >= NARROW:
        return xp.reshape(matrix @ xp.reshape(x, (left, size, right)), shape)
    return fold(matrix @ unfold(x, mode), mode, shape)
