"""The keys that masks of size 1 on the query axis leave to attend to."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.guards import nonzero
from nlattn.arrays.rows import repeat_heads
from nlattn.arrays.typing import Array
from nlattn.problem.masks import visible_keys
from nlattn.problem.problem import Problem

__all__ = ["Keys", "log_weights", "mean_key", "seen_keys", "usable", "valid_keys"]


class Keys(NamedTuple):
    """Keys and values with their masks, for K heads: G key heads, or H query heads where masks differ within a group.

    Attributes
    ----------
    key, value : array, shapes (B, G, S, E) and (B, G, S, Ev)
    valid : boolean array, shape (B, K, S), or None
        Which keys are not masked; None for all.
    weight : array, shape (B, K, S), or None
        Log-weights of the keys.
    counts : integer array, shape (B, K)
        How many keys are valid.
    seen : boolean array, shape (B, G, S), or None
        Which keys are valid for some query head of their group; None for all.
    """

    key: Array
    value: Array
    valid: Array | None
    weight: Array | None
    counts: Array
    seen: Array | None

    @property
    def heads(self) -> int:
        """The number of heads K."""
        return self.counts.shape[1]


def valid_keys(problem: Problem) -> Keys:
    """The keys of a problem whose masks have size 1 on the query axis."""
    xp = problem.xp
    b, h, g, _, s = problem.shape
    mask = problem.key_mask()
    if mask is None:
        count = xp.full((b, g), s, dtype=xp.int64, device=problem.start.device)
        return Keys(problem.key, problem.value, None, None, count, None)
    heads = h if mask.shape[1] > 1 else g
    valid = xp.broadcast_to(mask, (b, heads, s))
    weight = None if problem.bias is None else xp.broadcast_to(problem.bias[:, :, 0, :], (b, heads, s))
    count = xp.sum(xp.astype(valid, xp.int64), axis=-1)
    return Keys(problem.key, problem.value, valid, weight, count, seen_keys(problem))


def usable(problem: Problem) -> Keys:
    """`valid_keys`, with keys and values repeated for K heads."""
    keys = valid_keys(problem)
    return keys._replace(key=repeat_heads(keys.key, keys.heads), value=repeat_heads(keys.value, keys.heads))


def seen_keys(problem: Problem) -> Array | None:
    """True for keys that some row of their group may see (B, G, S), or None for all; masks may have any size."""
    array = problem.bias if problem.mask is None else problem.mask
    if array is None:
        return None  # the last row sees all keys, causal or not
    if array.shape[2] > 1:
        return visible_keys(problem)
    b, h, g, _, s = problem.shape
    xp = problem.xp
    return xp.any(xp.reshape(xp.broadcast_to(problem.key_mask(), (b, h, s)), (b, g, h // g, s)), axis=2)


def log_weights(problem: Problem, keys: Keys) -> Array | None:
    """What masks add to the scores of each key (B, K, S): -inf where it is masked. None without a mask."""
    if keys.valid is None:
        return None
    xp = problem.xp
    if keys.weight is not None:
        return xp.astype(keys.weight, problem.accumulator)
    zero = xp.zeros(keys.valid.shape, dtype=problem.accumulator, device=problem.start.device)
    return xp.where(keys.valid, zero, -xp.inf)


def mean_key(key: Array, seen: Array | None) -> Array:
    """The mean (B, G, 1, E) of the keys (B, G, S, E) that are `seen` (B, G, S), or of all for None; 0 where none is."""
    xp = array_namespace(key)
    if seen is None:
        return xp.mean(key, axis=2, keepdims=True)
    count = xp.sum(xp.astype(seen, key.dtype), axis=2)[..., None, None]
    total = xp.sum(xp.where(seen[..., None], key, xp.zeros_like(key)), axis=2, keepdims=True)
    return total / nonzero(count)
