"""The nearest of a few centres for each point."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["nearest_centre"]


@kernel
def nearest_centre(x: Array, centres: Array, offset: Array) -> tuple[Array, Array]:
    """The centre j with the smallest offset_j - 2 x.c_j.

    Parameters
    ----------
    x : array, shape (..., n, d)
        Real floating, without NaN.
    centres : array, shape (..., k, d)
        k >= 1; in the dtype and with the leading axes of `x`.
    offset : array, shape (..., k)
        ||c_j||^2 makes it the nearest centre.

    Returns
    -------
    labels : array, shape (..., n)
        Of equal centres the first; of the default integer dtype.
    least : array, shape (..., n)
        That smallest value; ||x||^2 less than the squared distance.
    """
    xp = array_namespace(x, centres, offset)
    values = offset[..., None, :] - 2 * (x @ xp.matrix_transpose(centres))
    return xp.argmin(values, axis=-1), xp.min(values, axis=-1)
