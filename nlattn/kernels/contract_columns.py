"""Contraction of one axis, column by column: what is left of an MTTKRP after its matrix product."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["contract_columns"]


@kernel
def contract_columns(x: Array, matrix: Array) -> Array:
    """Sum over b of ``x[a, b, c, r] * matrix[b, r]``.

    Parameters
    ----------
    x : array, shape (a, b, c, r)
        Floating or complex.
    matrix : array, shape (b, r)
        Of the dtype of `x`.

    Returns
    -------
    array, shape (a, c, r)
        Of the dtype of `x`.
    """
    xp = array_namespace(x, matrix)
    return xp.sum(x * matrix[:, None, :], axis=1)
