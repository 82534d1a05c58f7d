"""Attention sinks and a sliding window."""

from dataclasses import replace
from typing import Any

from nlattn.arrays.arguments import check_integer
from nlattn.attend.intervals import attend
from nlattn.problem.arguments import prepare
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem

__all__ = ["streaming_attention"]


def streaming_attention(
    query: Any,
    key: Any,
    value: Any,
    window: int = 256,
    sinks: int = 4,
    *,
    attn_mask: Any = None,
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
        At least 1. With ``is_causal``, the `window` newest keys that a query may see; without, the keys j with
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
    Source: arXiv 2309.17453, for given (position-encoded) keys. With ``window + sinks >= S`` it is exact attention.
    Bounds: ``dropped_mass``, ``dropped_mass_identity``.

    Examples
    --------
    >>> import nlattn
    >>> sample = nlattn.datasets.load("smollm2")
    >>> out = nlattn.streaming_attention(sample.query, sample.key, sample.value, window=128, is_causal=True)
    >>> out.shape == sample.query.shape
    True
    """
    window = check_integer("window", window)
    sinks = check_integer("sinks", sinks, least=0)
    problem = prepare(
        "streaming_attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        check_finite=check_finite,
    )
    part = _apply(_prepare(problem, window, sinks), problem, checked=check_finite)
    return problem.partial(part) if return_lse else problem.output(part.out)


def _prepare(problem: Problem, window: int, sinks: int) -> tuple[int, int] | None:
    """None where window and sinks cover all keys."""
    return None if window + sinks >= problem.key.shape[2] else (window, sinks)


def _apply(state: tuple[int, int] | None, rows: Problem, *, checked: bool = True) -> Partial:
    if state is None:
        return attend(rows, checked=checked)
    window, sinks = state
    xp, s = rows.xp, rows.key.shape[2]
    start = xp.clip(rows.position - (window - 1), 0, s)
    stop = xp.minimum(rows.stop, xp.clip(rows.position + window, 0, s))
    # Where sinks and window meet they are one interval, and the far part is empty.
    zero, sink = xp.zeros_like(start), xp.clip(rows.stop, None, sinks)
    joined = start <= sinks
    near = replace(rows, start=xp.where(joined, zero, start), stop=xp.where(joined, xp.maximum(stop, sink), stop))
    far = replace(rows, start=zero, stop=xp.where(joined, zero, sink))
    return merge_partials(attend(near, checked=checked), attend(far, checked=checked))
