"""Attention sinks and a sliding window."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nlattn.arrays.typing import Array
from nlattn.attend.intervals import interval_attention
from nlattn.methods.method import Method, run
from nlattn.methods.record import Budget, Record
from nlattn.problem.intervals import window_around
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem

__all__ = ["Streaming", "streaming_attention"]


def streaming_attention(
    query: Array,
    key: Array,
    value: Array,
    window: int = 256,
    sinks: int = 4,
    *,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention over the first keys and a sliding window around each query.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    window : int, default 256
        At least 1. With `is_causal` a query i sees the `window` newest keys that it may see, without it the keys j with
        ``|i + S - L - j| < window``.
    sinks : int, default 4
        At least 0. The first `sinks` keys are seen by every query that may see them.
    attn_mask, is_causal, scale, check_finite
        As for `exact_attention`.
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were seen.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Source: arXiv 2309.17453, here for keys whose positions are encoded already. With ``window + sinks >= S`` it is
    exact attention. Bounds: ``dropped_mass``, ``dropped_mass_identity``.

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("smollm2")
    >>> out = nlattn.streaming_attention(sample.query, sample.key, sample.value, window=128, is_causal=True)
    >>> out.shape == sample.query.shape
    True
    """

    return run(
        Streaming(window, sinks),
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        return_lse=return_lse,
        check_finite=check_finite,
    )


@dataclass(frozen=True)
class Streaming(Method[None]):
    """See `streaming_attention`."""

    record = Record(
        name="streaming",
        family="sparse",
        paper="2309.17453",
        principle="the first keys and a sliding window",
        cost=lambda n, window, sinks: n.L * (window + sinks) * (n.E + n.Ev),
        exact_at=lambda n, window, sinks: window + sinks >= n.S,
        causal="strict",
        masks="any",
        budgets=(
            Budget(name="window", ladder=(64, 128, 256, 512, 1024), unit="keys"),
            Budget(name="sinks", ladder=(4,), unit="keys", least=0),
        ),
        partial=True,
        rows_sum_to_one=True,
        convex=True,
        key_permutation=False,
        deterministic=True,
        probe="rows",
        searched=True,
        included_in="multipole",
        bounds=("dropped_mass", "dropped_mass_identity"),
    )

    window: int = 256
    sinks: int = 4

    def prepare(self, problem: Problem, rng: np.random.Generator) -> None:
        """Nothing needs to be prepared: the intervals of a row follow from its position."""

    def apply(self, state: None, rows: Problem) -> Partial:
        """Attention over the window of each row, merged with that over the sinks before it."""
        xp = rows.xp
        start, stop = window_around(rows, self.window)
        # Where sinks and window meet, they are one interval, and the part of the sinks is empty.
        zero, sink = xp.zeros_like(start), xp.clip(rows.stop, None, self.sinks)
        meet = start <= self.sinks
        near = replace(rows, start=xp.where(meet, zero, start), stop=xp.where(meet, xp.maximum(stop, sink), stop))
        far = replace(rows, start=zero, stop=xp.where(meet, zero, sink))
        return merge_partials(interval_attention(near), interval_attention(far))
