"""Which entries of each row are the largest, in the order in which they stand."""

from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel
from nlattn.kernels.top_k import top_k

__all__ = ["choose_largest"]


@kernel
def choose_largest(x: Array, k: int) -> tuple[Array, Any]:
    """The k largest entries along the last axis, not sorted by size: a selection is cheaper than a sort.

    Parameters
    ----------
    x : array, shape (..., n)
        Real floating, without NaN.
    k : int
        0 <= k <= n.

    Returns
    -------
    values, indices : array, shape (..., k)
        Indices ascend, in the default integer dtype. Of equal entries those with the smaller indices are chosen.
    """
    xp = array_namespace(x)
    indices = xp.sort(top_k(x, k)[1], axis=-1)
    return xp.take_along_axis(x, indices, axis=-1), indices
