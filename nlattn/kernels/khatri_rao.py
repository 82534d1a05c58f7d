"""The Khatri-Rao product of two matrices."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["khatri_rao"]


@kernel
def khatri_rao(a: Array, b: Array) -> Array:
    """Row i * J + j is the entrywise product of row i of `a` and row j of `b`.

    Parameters
    ----------
    a : array, shape (I, R)
        Floating or complex.
    b : array, shape (J, R)
        Of the dtype of `a`.

    Returns
    -------
    array, shape (I * J, R)
        Of the dtype of `a`.
    """
    xp = array_namespace(a, b)
    return xp.reshape(a[:, None, :] * b[None, :, :], (a.shape[0] * b.shape[0], a.shape[1]))
