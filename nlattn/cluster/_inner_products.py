"""Queries and keys with extra coordinates, such that large inner products become small angles or distances."""

from typing import Literal, get_args

from nlattn.arrays.arguments import check_choice
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.guards import nonzero
from nlattn.arrays.rows import unit_rows
from nlattn.arrays.typing import Array, Namespace
from nlattn.sketch._points import paired_points

__all__ = ["augment_for_inner_products"]

Kind = Literal["xbox", "xbox+", "simple"]


@on_numpy
def augment_for_inner_products(
    query: Array, key: Array, *, kind: Kind = "xbox", check_finite: bool = True
) -> tuple[Array, Array]:
    """Make nearest-neighbour search find the keys with the largest inner products.

    Parameters
    ----------
    query : array, shape (..., n, d)
    key : array, shape (..., s, d)
    kind : {"xbox", "xbox+", "simple"}, default "xbox"
        With Q and K the largest norms of a query and of a key:
        "xbox": (q, 0) and (k, (K^2 - ||k||^2)^(1/2)). All keys have norm K; for each query, the order of distances
        and of angles is that of inner products.
        "xbox+": (q, 0, (Q^2 + K^2 - ||q||^2)^(1/2)) and (k, (Q^2 + K^2 - ||k||^2)^(1/2), 0). All have the same
        norm, and the squared distance is 2 (Q^2 + K^2 - q.k) for all pairs.
        "simple": (q / ||q||, 0) and (k / K, (1 - ||k||^2 / K^2)^(1/2)). All have norm 1; a zero query stays zero.
    check_finite : bool, default True

    Returns
    -------
    query, key : array, shape (..., n, d + 1) and (..., s, d + 1), or d + 2 for "xbox+"
        Inner products are those of `query` and `key`, except "simple": q.k / (||q|| K).

    Notes
    -----
    Source: Bachrach et al., DOI 10.1145/2645710.2645741 (xbox); arXiv 2010.05315 (xbox+); arXiv 1410.5518 (simple).
    Bounds: ``transformed_distance`` ("xbox+").

    Examples
    --------
    >>> import numpy as np, nlattn.cluster
    >>> q, k = nlattn.cluster.augment_for_inner_products(np.asarray([[1.0, 0.0]]), np.asarray([[0.0, 5.0], [3.0, 0.0]]))
    >>> k
    array([[0., 5., 0.],
           [3., 0., 4.]])
    """
    xp, query, key = paired_points("query", query, "key", key, check_finite=check_finite)
    check_choice("kind", kind, get_args(Kind))
    key_square, key_most = _squares(xp, key)
    zero = xp.zeros_like(query[..., :1])
    if kind == "xbox+":
        query_square, query_most = _squares(xp, query)
        both = query_most + key_most
        q_root, k_root = (xp.sqrt(both - square) for square in (query_square, key_square))
        return xp.concat([query, zero, q_root], axis=-1), xp.concat([key, k_root, xp.zeros_like(k_root)], axis=-1)
    root = xp.sqrt(key_most - key_square)
    if kind == "xbox":
        return xp.concat([query, zero], axis=-1), xp.concat([key, root], axis=-1)
    most = xp.sqrt(key_most)
    # Keys that are all 0 become the pole.
    root = xp.where(most == 0, xp.ones_like(root), root / nonzero(most))
    key = key / nonzero(most)
    return xp.concat([unit_rows(query)[0], zero], axis=-1), xp.concat([key, root], axis=-1)


def _squares(xp: Namespace, x: Array) -> tuple[Array, Array]:
    """Squared norms, and the largest of each set, below which rounding puts none of them; 0 for an empty set."""
    squares = xp.sum(x * x, axis=-1, keepdims=True)
    if x.shape[-2] == 0:
        return squares, xp.zeros((*x.shape[:-2], 1, 1), dtype=x.dtype, device=x.device)
    return squares, xp.max(squares, axis=-2, keepdims=True)
