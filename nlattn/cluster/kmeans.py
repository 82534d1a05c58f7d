"""Lloyd's k-means, batched."""

from typing import Any

from array_api_compat import array_namespace

__all__ = ["kmeans"]


def kmeans(x: Any, centres: Any, weights: Any = None, *, iterations: int = 5) -> tuple[Any, Any]:
    """Refine centres by Lloyd's iteration.

    Parameters
    ----------
    x : array, shape (..., n, d)
    centres : array, shape (..., k, d)
        Where to begin, e.g. a sample of the points.
    weights : array, shape (..., n), default all 1
        0 leaves a point out.
    iterations : int, default 5

    Returns
    -------
    centres : array, shape (..., k, d)
        A centre that no point is nearest to stays where it is.
    counts : array, shape (..., k)
        The weight of the points nearest to each centre before the last step.

    Notes
    -----
    Costs 2 n k d operations an iteration, as two products, and a work array of n x k.
    """
    xp = array_namespace(x, centres)
    k = centres.shape[-2]
    numbers = xp.arange(k, device=x.device)
    counts = xp.zeros(centres.shape[:-1], dtype=x.dtype, device=x.device)
    for _ in range(iterations):
        distance = xp.sum(centres * centres, axis=-1)[..., None, :] - 2.0 * (x @ xp.matrix_transpose(centres))
        nearest = xp.argmin(distance, axis=-1)
        member = xp.astype(nearest[..., None] == numbers, x.dtype)
        if weights is not None:
            member = member * weights[..., None]
        counts = xp.sum(member, axis=-2)
        sums = xp.matrix_transpose(member) @ x
        filled = (counts > 0)[..., None]
        centres = xp.where(filled, sums / xp.where(filled, counts[..., None], xp.ones_like(sums[..., :1])), centres)
    return centres, counts
