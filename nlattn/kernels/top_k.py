"""The largest entries of each row."""

from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["top_k"]


@kernel
def top_k(x: Array, k: int) -> tuple[Array, Any]:
    """The k largest entries along the last axis, largest first.

    Parameters
    ----------
    x : array, shape (..., n)
        Real floating, without NaN.
    k : int
        0 <= k <= n.

    Returns
    -------
    values, indices : array, shape (..., k)
        Of equal entries the one with the smaller index comes first; indices are of the default integer dtype.
    """
    xp = array_namespace(x)
    if not 0 <= k <= x.shape[-1]:
        raise ValueError(f"k must lie between 0 and {x.shape[-1]}, got {k}")
    # Negated and ascending: a stable descending sort is not the same on all libraries.
    indices = xp.argsort(-x, axis=-1, stable=True)[..., :k]
    return xp.take_along_axis(x, indices, axis=-1), indices
