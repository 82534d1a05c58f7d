"""Products of matrices column by column, and of a tensor with them."""

import math
from collections.abc import Sequence
from functools import reduce

from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.typing import Array, Namespace
from nlattn.decomp._arguments import check_mode, common
from nlattn.kernels.contract_columns import contract_columns
from nlattn.kernels.khatri_rao import khatri_rao as pairwise

__all__ = ["columnwise", "khatri_rao", "mttkrp"]


@on_numpy
def khatri_rao(matrices: Sequence[Array]) -> Array:
    """The Khatri-Rao product: the Kronecker product of the columns of the same number.

    Parameters
    ----------
    matrices : sequence of array, shapes (I_k, R)
        At least one.

    Returns
    -------
    array, shape (product of I_k, R)
        The index of the first matrix varies slowest, as in ``scipy.linalg.khatri_rao``.

    Notes
    -----
    The leverage scores of its rows are at most the products of those of the factors: ``khatri_rao_leverage`` in
    ``nlattn.bounds``.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import khatri_rao
    >>> khatri_rao([np.array([[1.0], [2.0]]), np.array([[1.0], [10.0]])]).T
    array([[ 1., 10.,  2., 20.]])
    """
    matrices = list(matrices)
    if not matrices:
        raise ValueError("matrices must hold at least one matrix, got none")
    _, matrices = common(**{f"matrices[{k}]": matrix for k, matrix in enumerate(matrices)})
    shapes = [tuple(matrix.shape) for matrix in matrices]
    if any(len(shape) != 2 or shape[1] != shapes[0][1] for shape in shapes):
        raise ValueError(f"matrices must have 2 axes and the same number of columns, got shapes {shapes}")
    return columnwise(matrices)


def columnwise(matrices: Sequence[Array]) -> Array:
    """`khatri_rao` of checked matrices."""
    return reduce(pairwise, matrices)


@on_numpy
def mttkrp(x: Array, factors: Sequence[Array | None], mode: int) -> Array:
    """The matricised tensor times Khatri-Rao product: ``unfold(x, mode) @ conj(khatri_rao(factors without mode))``.

    Parameters
    ----------
    x : array, shape (I_0, ..., I_N-1)
    factors : sequence of array, shapes (I_k, R)
        One for each mode; the one of `mode` itself may be None.
    mode : int

    Returns
    -------
    array, shape (I_mode, R)
        In the dtype that holds all; integers become float64.

    Notes
    -----
    Neither the unfolding nor the Khatri-Rao product of all factors is formed: one matrix product, of 2 R prod(I)
    operations, sums over the modes on the longer side of `mode`, and one pass over its result over the others.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.decomp import mttkrp
    >>> mttkrp(np.ones((2, 3, 4)), [None, np.ones((3, 1)), np.ones((4, 1))], 0)
    array([[12.],
           [12.]])
    """
    factors = list(factors)
    given = {k: a for k, a in enumerate(factors) if a is not None}
    xp, arrays = common(x=x, **{f"factors[{k}]": a for k, a in given.items()})
    x, given = arrays[0], dict(zip(given, arrays[1:], strict=True))
    mode = check_mode(mode, x.ndim)
    if len(factors) != x.ndim:
        raise ValueError(f"factors must hold {x.ndim} matrices, one for each axis of x, got {len(factors)}")
    others = [k for k in range(x.ndim) if k != mode]
    shapes = [tuple(given[k].shape) if k in given else None for k in others]
    wanted = [x.shape[k] for k in others]
    known = next((given[k] for k in (*others, mode) if k in given), None)
    rank = None if known is None else known.shape[-1]
    if rank is None or shapes != [(size, rank) for size in wanted]:
        raise ValueError(
            f"factors must have {wanted} rows beside mode {mode} and columns in common, got shapes {shapes}"
        )
    if not others:
        return x[:, None] + xp.zeros((1, rank), dtype=x.dtype, device=x.device)
    conjugate = xp.isdtype(x.dtype, "complex floating")
    matrices = [xp.conj(given[k]) if conjugate else given[k] for k in others]
    return _summed(xp, x, matrices[:mode], matrices[mode:], rank)


def _summed(xp: Namespace, x: Array, before: list[Array], after: list[Array], rank: int) -> Array:
    """The sum of a tensor against the columns of matrices for the modes before one mode, and for those after it."""
    left, right = (math.prod(a.shape[0] for a in matrices) for matrices in (before, after))
    size = x.shape[len(before)]
    if not before:
        return xp.reshape(x, (size, right)) @ columnwise(after)
    if not after:
        return xp.matrix_transpose(xp.reshape(x, (left, size))) @ columnwise(before)
    if right >= left:
        part = xp.reshape(x, (left * size, right)) @ columnwise(after)
        return contract_columns(xp.reshape(part, (1, left, size, rank)), columnwise(before))[0, ...]
    part = xp.matrix_transpose(xp.reshape(x, (left, size * right))) @ columnwise(before)
    return contract_columns(xp.reshape(part, (size, right, 1, rank)), columnwise(after))[:, 0, :]
