"""Heavy hitters: the keys that receive the most attention, and a sliding window."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.arrays.host import stop_gradient
from nlattn.arrays.random import children, moved
from nlattn.attend.chosen_keys import ChosenKeys, attend_to_chosen, choose_keys
from nlattn.attend.intervals import attend
from nlattn.attend.newest_key import with_newest_key
from nlattn.attend.score_tiles import hide, products, row_tiles
from nlattn.problem.arguments import prepare
from nlattn.problem.partials import Partial, merge_partials
from nlattn.problem.problem import Problem

__all__ = ["heavy_hitter_attention"]


def heavy_hitter_attention(
    query: Any,
    key: Any,
    value: Any,
    heavy: int = 128,
    window: int = 128,
    rows: int = 256,
    *,
    variant: str = "nlattn",
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    rng: Any = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention over a sliding window and the keys that the queries of a head attend to most.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    heavy : int, default 128
        Keys that all queries of a head see as far as they may, at least 1. From S on it is exact attention.
    window : int, default 128
        As in `streaming_attention`. A heavy key within the window of a query counts once.
    rows : int, default 256
        Query rows, drawn without replacement, from which attention is summed up over columns, without bias; from L on
        all of them, and nothing is random.
    variant : {"nlattn", "paper"}, default "nlattn"
        Which keys are heavy. "nlattn": those with the most attention from outside the windows. "paper": with the most
        attention, also that which the window holds anyway.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis.
    is_causal, scale, check_finite
        As for `exact_attention`. Sums over columns look ahead: past outputs depend on future queries and keys, though
        not on future values.
    rng : None, int, SeedSequence or Generator, default None
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the log-sum-exp over the keys that were met.

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Source: arXiv 2306.14048, which evicts keys from a cache one by one while it generates; here the sums are those of
    its prefill, of all queries. With `rows` >= L the default holds the most softmax mass, summed over the rows, that a
    window and `heavy` fixed keys can hold; on real layers its error was between 3 % above and 19 % below that of the
    plain sums, and sums divided by the number of queries that may see a key were worse than either. A query that meets
    no key that way, as masks or causality hide them all, attends to the newest key that it may see. Gradients are those
    at a fixed choice. Costs rows S E multiplications for the choice.
    Bounds: ``kept_columns``, ``dropped_mass_identity``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> q, k, v, scale, causal = nlattn.datasets.load("smollm2")[:5]
    >>> exact = nlattn.exact_attention(q, k, v, is_causal=causal, scale=scale)
    >>> out = nlattn.heavy_hitter_attention(q, k, v, is_causal=causal, scale=scale, rng=0)
    >>> bool(np.linalg.norm(out - exact) < 0.3 * np.linalg.norm(exact))
    True
    """
    heavy = check_integer("heavy", heavy)
    window = check_integer("window", window)
    rows = check_integer("rows", rows)
    problem = prepare(
        "heavy_hitter_attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        masks="keys",
        check_finite=check_finite,
    )
    part = _apply(_prepare(problem, heavy, window, rows, variant=variant, rng=rng), problem)
    return problem.partial(part) if return_lse else problem.output(part.out)


class _State(NamedTuple):
    chosen: ChosenKeys
    window: int


def _prepare(
    problem: Problem, heavy: int, window: int, rows: int, *, variant: str = "nlattn", rng: Any = None
) -> _State | None:
    """None where all keys are heavy."""
    check_choice("variant", variant, ("nlattn", "paper"))
    children(rng, 0)  # an rng that is not needed must still be one
    b, h, g, length, s = problem.shape
    if heavy >= s:
        return None
    sample = problem
    if rows < length:
        draws = [
            [r.choice(length, rows, replace=False, shuffle=False) for _ in range(h // g)] for r in children(rng, b * g)
        ]
        index = np.sort(np.asarray(draws, dtype=np.int64).reshape(b, h, rows), axis=-1)
        sample = problem.rows(moved(index, problem.start))
    sums = _column_sums(sample, None if variant == "paper" else window)
    seen = problem.key_mask()
    if seen is not None:
        sums = problem.xp.where(seen, sums, -problem.xp.inf)
    return _State(choose_keys(problem, sums, heavy), window)


def _column_sums(sample: Problem, window: int | None) -> Any:
    """Softmax mass of each key (B, H, S) over the sampled rows, without that inside their windows."""
    xp = sample.xp
    b, h, _, _, s = sample.shape
    total = xp.zeros((b, h, s), dtype=sample.accumulator, device=sample.query.device)
    key = xp.astype(stop_gradient(sample.key), sample.accumulator, copy=False)
    there = xp.arange(s, dtype=sample.start.dtype, device=sample.query.device)
    for tile in row_tiles(sample):
        query = xp.astype(stop_gradient(tile.query), sample.accumulator, copy=False) * sample.scale
        scores = hide(tile, products(tile, query, key[:, :, : tile.key.shape[2], :]))
        n = scores.shape[-1]
        if 0 in scores.shape:
            continue
        top = xp.max(scores, axis=-1, keepdims=True)
        mass = xp.exp(scores - xp.where(top == -xp.inf, xp.zeros_like(top), top))
        size = xp.sum(mass, axis=-1, keepdims=True)
        inverse = 1 / xp.where(size == 0, xp.ones_like(size), size)
        if window is not None:
            distance = there[:n] - tile.position[..., None]
            mass = xp.where(xp.abs(distance) < window, xp.zeros_like(mass), mass)
        part = (xp.matrix_transpose(inverse) @ mass)[..., 0, :]
        rest = xp.zeros((b, h, s - n), dtype=part.dtype, device=part.device)
        total = total + (part if n == s else xp.concat([part, rest], axis=-1))
    return total


def _apply(state: _State | None, rows: Problem) -> Partial:
    if state is None:
        return attend(rows)
    xp, s = rows.xp, rows.key.shape[2]
    start = xp.clip(rows.position - (state.window - 1), 0, s)
    stop = xp.minimum(rows.stop, xp.clip(rows.position + state.window, 0, s))
    stop = xp.maximum(start, stop)
    parts = [
        attend(replace(rows, start=start, stop=stop)),
        attend_to_chosen(state.chosen, rows, rows.start, xp.minimum(start, rows.stop)),
    ]
    if not rows.is_causal:
        parts.append(attend_to_chosen(state.chosen, rows, stop, rows.stop))
    return with_newest_key(merge_partials(*parts), rows)
