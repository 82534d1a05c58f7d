"""The softmax of the generic attention kernels: of rows of scores, and online, over tiles of keys."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import exp_weights, finite_or_zero, log_mass, nonzero
from nlattn.arrays.typing import Array

__all__ = ["Online", "absorb", "finish", "join_rows", "normalised_weights", "nothing_seen", "resume", "see_nothing"]


def see_nothing(query: Array, ev: int, dtype: Any) -> tuple[Array, Array]:
    """The output (..., L, Ev) and log-sum-exp (..., L) of rows (..., L, E) that see no key."""
    xp = array_namespace(query)
    out = xp.zeros((*query.shape[:-1], ev), dtype=dtype, device=query.device)
    return out, xp.full(query.shape[:-1], -xp.inf, dtype=dtype, device=query.device)


def normalised_weights(scores: Array) -> tuple[Array, Array]:
    """Weights along the last axis that sum to 1, or are all 0 where every score is -inf; and the log-sum-exp."""
    xp = array_namespace(scores)
    weights, shift = exp_weights(scores)
    total = xp.sum(weights, axis=-1, keepdims=True)
    return weights / nonzero(total), log_mass(shift, total)[..., 0]


def join_rows(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """One output (B, H, L, Ev) and log-sum-exp (B, H, L) from those of consecutive rows."""
    if len(parts) == 1:
        return parts[0]
    outs, lses = zip(*parts, strict=True)
    xp = array_namespace(*outs)
    return xp.concat(outs, axis=2), xp.concat(lses, axis=2)


class Online(NamedTuple):
    """What rows have seen so far.

    Attributes
    ----------
    out : array, shape (..., rows, Ev)
        The sum of exp(score - top) times the values.
    total : array, shape (..., rows, 1)
        The sum of exp(score - top).
    top : array, shape (..., rows, 1)
        The largest score, -inf where there was none.
    """

    out: Array
    total: Array
    top: Array


def nothing_seen(query: Array, ev: int) -> Online:
    """The beginning for rows (..., rows, E)."""
    return resume(*see_nothing(query, ev, query.dtype))


def resume(out: Array, lse: Array) -> Online:
    """The beginning for rows that have seen what a partial holds."""
    xp = array_namespace(out)
    top = lse[..., None]
    return Online(out, xp.where(top == -xp.inf, xp.zeros_like(top), xp.ones_like(top)), top)


def absorb(online: Online, scores: Array, value: Array) -> Online:
    """With a tile of scores (..., rows, keys) and its values (..., keys, Ev) more. -inf hides a pair."""
    xp = array_namespace(scores)
    top = xp.maximum(online.top, xp.max(scores, axis=-1, keepdims=True))
    shift = finite_or_zero(top)
    weights, decay = xp.exp(scores - shift), xp.exp(online.top - shift)
    total = online.total * decay + xp.sum(weights, axis=-1, keepdims=True)
    return Online(online.out * decay + weights @ value, total, top)


def finish(online: Online) -> tuple[Array, Array]:
    """Output (..., rows, Ev) and log-sum-exp (..., rows); 0 and -inf where nothing was seen."""
    return online.out / nonzero(online.total), log_mass(online.top, online.total)[..., 0]
