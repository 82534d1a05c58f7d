"""Attention over the largest scores of each row."""

from typing import Any

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.host import stop_gradient
from nlattn.attend.intervals import attend
from nlattn.attend.score_tiles import attend_to, hide, products, row_tiles, stacked
from nlattn.kernels.choose_largest import choose_largest
from nlattn.problem.arguments import prepare
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem

__all__ = ["topk_attention"]


def topk_attention(
    query: Any,
    key: Any,
    value: Any,
    top_k: int = 256,
    *,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention of each query over the `top_k` keys with its largest scores.

    No choice of as many keys for each query holds more softmax mass: what other selections are measured against. All
    scores are computed, a few rows at a time, so it is not meant to be fast.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    top_k : int, default 256
        At least 1. A query that may see fewer keys sees them all; from S on it is exact attention.
    attn_mask, is_causal, scale, check_finite
        As for `exact_attention`. A floating mask takes part in the choice.
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the chosen keys.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Of keys with equal scores the one that comes first is chosen; scores that differ by rounding alone may be chosen in
    another order on another library. With eps the softmax mass of the other keys, the output is off by exactly
    ``eps (out - out of the others)``. Gradients are those at a fixed choice. Costs L S E multiplications and the
    selection, in memory linear in the length. The choice is that of arXiv 2106.06899, and an upper limit for methods
    such as arXiv 2406.02542. Bounds: ``dropped_mass``, ``dropped_mass_identity``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> sample = nlattn.datasets.load("smollm2")
    >>> q, k, v = (x[:1, :512] for x in (sample.query, sample.key, sample.value))
    >>> exact = nlattn.exact_attention(q, k, v, is_causal=True)
    >>> out = nlattn.topk_attention(q, k, v, 64, is_causal=True)
    >>> bool(np.linalg.norm(out - exact) < 0.1 * np.linalg.norm(exact))
    True
    """
    top_k = check_integer("top_k", top_k)
    problem = prepare(
        "topk_attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        check_finite=check_finite,
    )
    part = _apply(_prepare(problem, top_k), problem, checked=check_finite)
    return problem.partial(part) if return_lse else problem.output(part.out)


def _prepare(problem: Problem, top_k: int) -> int | None:
    """None where all keys are chosen."""
    return None if top_k >= problem.key.shape[2] else top_k


def _apply(state: int | None, rows: Problem, *, checked: bool = True) -> Partial:
    if state is None:
        return attend(rows, checked=checked)
    xp = rows.xp
    key = xp.astype(stop_gradient(rows.key), rows.accumulator, copy=False)
    parts = []
    for tile in row_tiles(rows):
        query = xp.astype(stop_gradient(tile.query), rows.accumulator, copy=False) * rows.scale
        values, index = choose_largest(
            hide(tile, products(tile, query, key[:, :, : tile.key.shape[2], :])), min(state, tile.key.shape[2])
        )
        parts.append(attend_to(tile, index, values != -xp.inf))
    return stacked(xp, parts)
