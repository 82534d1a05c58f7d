"""Attention matrices of low rank: two factors of softmax weights with landmarks, and a core that joins them."""

from array_api_compat import array_namespace

from nlattn.arrays.guards import exp_weights, nonzero
from nlattn.arrays.typing import Array
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.linalg._pseudo_inverse import iterated_inverse, solve_truncated
from nlattn.problem.problem import Problem

__all__ = ["attend_to_landmarks", "join_factors"]


def join_factors(
    q: Array,
    k: Array,
    q_used: Array,
    k_used: Array,
    right: Array,
    *,
    scale: float,
    rcond: float | None,
    iterations: int,
) -> tuple[Array, Array]:
    """pinv(softmax(scale q k^T)) @ right, and the rank of that core, whose unused landmarks have no rows and columns.

    Parameters
    ----------
    q, k : array, shape (..., m, E)
        Landmarks of queries and keys.
    q_used, k_used : boolean array, shape (..., m)
    right : array, shape (..., m, Ev)
    scale : float
    rcond : float or None
        Where singular values are cut off, relative to the largest; None for the iteration.
    iterations : int

    Returns
    -------
    joined : array, shape (..., m, Ev)
    rank : integer array, shape (...)
    """
    xp = array_namespace(q, k)
    scores = scale * (xp.astype(q, xp.float64) @ xp.matrix_transpose(xp.astype(k, xp.float64)))
    core, _ = exp_weights(xp.where(k_used[..., None, :], scores, -xp.inf))
    core = core / nonzero(xp.sum(core, axis=-1, keepdims=True))
    core = xp.where(q_used[..., None], core, xp.zeros_like(core))
    wide = xp.astype(right, xp.float64)
    wide = xp.where(q_used[..., None], wide, xp.zeros_like(wide))
    if rcond is not None:
        joined, rank = solve_truncated(core, wide, rcond)
    else:
        inverse = iterated_inverse(xp.astype(core, right.dtype), iterations)
        joined = xp.astype(inverse, xp.float64) @ wide
        rank = xp.sum(xp.astype(q_used, xp.int64), axis=-1)
    return xp.astype(joined, right.dtype), rank


def attend_to_landmarks(rows: Problem, key: Array, value: Array, bias: Array) -> Array:
    """softmax(scale query key^T + bias) value, (B, H, L, Ev).

    key (B, G, m, E) and bias (B, G, m) belong to a group, value (B, H, m, Ev) to a head.
    """
    xp = rows.xp
    b, h, g, length, _ = rows.shape
    _, _, landmarks, e = key.shape
    ev = value.shape[3]
    # Values belong to a query head here, but keys to its group. With groups as batch elements one call suffices.
    lead = (b * g, h // g)
    stop = xp.full((*lead, length), landmarks, dtype=xp.int64, device=rows.start.device)
    out, _ = softmax_attention(
        xp.reshape(xp.astype(rows.query, rows.accumulator, copy=False), (*lead, length, e)),
        xp.broadcast_to(xp.reshape(key, (b * g, 1, landmarks, e)), (*lead, landmarks, e)),
        xp.reshape(value, (*lead, landmarks, ev)),
        xp.zeros_like(stop),
        stop,
        scale=rows.scale,
        bias=xp.reshape(bias, (b * g, 1, 1, landmarks)),
    )
    return xp.reshape(out, (b, h, length, ev))
