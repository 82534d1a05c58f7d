"""A few keys that are the same for all query rows of a head, and exact attention over those in an interval."""

from typing import NamedTuple

from nlattn.arrays.rows import repeat_heads, take_for_heads
from nlattn.arrays.typing import Array
from nlattn.kernels.choose_largest import choose_largest
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.largest_scores import are_chosen
from nlattn.select.usable_keys import log_weights, valid_keys

__all__ = ["ChosenKeys", "attend_to_chosen", "choose_keys"]


class ChosenKeys(NamedTuple):
    """Keys that were chosen for X heads or groups, in the order of their positions.

    Attributes
    ----------
    key, value : array, shapes (B, X, m, E) and (B, X, m, Ev)
    bias : array, shape (B, H, 1, m), or None
        Their log-weights.
    before : integer array, shape (B, H, S + 1)
        How many of the chosen keys stand before each position.
    """

    key: Array
    value: Array
    bias: Array | None
    before: Array


def choose_keys(problem: Problem, scores: Array, m: int) -> ChosenKeys:
    """The m < S keys with the largest scores (B, X, S), which are -inf where no row may see a key."""
    xp = problem.xp
    b, h = problem.query.shape[:2]
    x = scores.shape[1]
    values, index = choose_largest(scores, m)
    chosen = xp.astype(are_chosen(scores, values, index), xp.int64)
    before = xp.concat(
        [xp.zeros((b, x, 1), dtype=xp.int64, device=index.device), xp.cumulative_sum(chosen, axis=-1)], axis=-1
    )
    weight, bias = log_weights(problem, valid_keys(problem)), None
    if weight is not None:
        bias = take_for_heads(weight, repeat_heads(index, h))[:, :, None, :]
    return ChosenKeys(
        take_for_heads(problem.key, index), take_for_heads(problem.value, index), bias, repeat_heads(before, h)
    )


def attend_to_chosen(chosen: ChosenKeys, rows: Problem, start: Array, stop: Array) -> Partial:
    """Attention of rows over the chosen keys with start <= position < stop, both (B, H, L)."""
    xp = rows.xp
    first, last = (xp.take_along_axis(chosen.before, edge, axis=-1) for edge in (start, stop))
    parts = softmax_attention(rows.query, chosen.key, chosen.value, first, last, scale=rows.scale, bias=chosen.bias)
    return Partial(*parts)
