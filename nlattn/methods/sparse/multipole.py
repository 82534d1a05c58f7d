"""Fast multipole attention: near clusters of keys one by one, far clusters by their moments."""

import itertools
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer, check_number
from nlattn.arrays.host import all_finite, concrete_or, stop_gradient
from nlattn.arrays.rows import repeat_heads, take_rows
from nlattn.attend.intervals import attend
from nlattn.kernels.cluster_attention import Clusters, RowBlocks, cluster_attention
from nlattn.problem.arguments import prepare
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.key_clusters import Clustering, cluster_keys, cluster_size
from nlattn.select.key_metric import coordinates, query_moment
from nlattn.select.query_order import tree_order
from nlattn.select.usable_keys import usable

__all__ = ["multipole_attention"]

# Rows that choose their near clusters together, at most; and rows that share an expansion point, at most.
BLOCK, GROUP = 64, 512
# Blocks on which clusterings and numbers of near keys are compared, of which some rows are computed exactly.
TRIALS = 8
# Of `rtol`: near keys to begin with, the part of it that a trial must reach, the least factor of the error that is
# bridged at a time, and the power of `near` by which errors fall at best. `near` at most doubles at a time.
FIRST, GOAL, STEP, FALL = 256, 0.75, 1.2, 0.8
ARRAYS = "query", "key", "value"


def multipole_attention(
    query: Any,
    key: Any,
    value: Any,
    near: int = 1024,
    *,
    rtol: float | None = None,
    clusters: Literal["auto", "kmeans", "blocks"] = "auto",
    order: Literal[0, 1, 2] = 2,
    variant: Literal["nlattn", "paper"] = "nlattn",
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    check_finite: bool = True,
) -> Any:
    """Exact attention to the keys that matter most to a few neighbouring queries, and the others by cluster.

    Parameters
    ----------
    query : array, shape (..., heads, L, E)
    key : array, shape (..., heads_kv, S, E)
    value : array, shape (..., heads_kv, S, Ev)
    near : int, default 1024
        Keys that each query meets one by one, at least 1; with `is_causal` up to 3 in any case. From S on the result
        is exact attention.
    rtol : float, default None
        If given, `near` is chosen instead, for each head: the least that brings the relative error on some rows, which
        are computed exactly, clearly below it. An estimate: `attention` also checks the result on fresh rows. With
        `is_causal`, future keys and values then have an influence on the choice.
    clusters : {"auto", "kmeans", "blocks"}, default "auto"
        "kmeans": keys that the queries see alike, and with similar values. "blocks": consecutive keys. "auto": "kmeans"
        with `is_causal`, and otherwise for each head what has the smallest error on some rows: either of them, or
        "kmeans" for blocks of similar instead of consecutive queries.
    order : {0, 1, 2}, default 2
        How the logarithm of the mass of a far cluster is expanded. 0: about 0, its mean key and mean value. 1: about
        the mean of some hundreds of neighbouring queries, which tilts both means. 2: with the second-order term, the
        variance of the keys taken as equal in all directions.
    variant : {"nlattn", "paper"}, default "nlattn"
        "paper": 16 keys a cluster by plain k-means, order 0, the choice by mass per key; `clusters` and `order` are
        ignored.
    attn_mask : array, default None
        A key mask, of size 1 on the query axis: boolean, or floating (-inf masks, finite values are log-weights).
    is_causal : bool, default False
        Future keys have no weight. Which keys make a cluster depends on later keys and values too; with
        ``clusters="blocks"`` nothing depends on future keys and values.
    scale : float, default E ** -0.5
    return_lse : bool, default False
        Return a `Partial` instead: the output in at least float32, and the approximate log-sum-exp of each row.
    check_finite : bool, default True

    Returns
    -------
    out : array, shape (..., heads, L, Ev)

    Notes
    -----
    Blocks of 64 queries share their near keys: the first 64 keys and two blocks of the latest ones with `is_causal`, a
    window of 16 keys on each side without (none for similar queries), and then clusters in the order of their predicted
    mass per key. The cost for each query is `near` keys and one far term for each cluster, of 8 to 128 keys: they grow
    with the square root of S. On causal heads consecutive keys were between 1.3 times better and 4 times worse.

    Source: arXiv 2506.13059, for one query at a time; the selection for blocks, the metric of the queries, the tilted
    moments and the second order are not in it. Bounds: ``monopole_mass``, ``monopole_output``,
    ``multipole_output``.

    Examples
    --------
    >>> import nlattn
    >>> q, k, v = nlattn.datasets.load("smollm2")[:3]
    >>> out = nlattn.multipole_attention(q, k, v, 512, is_causal=True)
    >>> bool(nlattn.certify(out, q, k, v, is_causal=True, rng=0).pooled.upper < 0.05)
    True
    """
    near = check_integer("near", near)
    check_choice("clusters", clusters, ("auto", "kmeans", "blocks"))
    check_choice("variant", variant, ("nlattn", "paper"))
    if isinstance(order, bool) or order not in (0, 1, 2):
        raise ValueError(f"order must be 0, 1 or 2, got {order!r}")
    rtol = None if rtol is None else check_number("rtol", rtol, above=0)
    problem = prepare(
        "multipole_attention",
        query,
        key,
        value,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        masks="keys",
        check_finite=check_finite,
    )
    first = near if rtol is None else FIRST
    state = _prepare(problem, first, clusters=clusters, order=order, variant=variant)
    part = _apply(state if rtol is None else _fitted(problem, state, rtol), problem)
    return problem.partial(part) if return_lse else problem.output(part.out)


class _Layout(NamedTuple):
    """One way to divide keys and queries."""

    clusters: Clusters
    segment: int
    order: Any
    """The query in each place (B, H, L), for blocks of similar queries; None for consecutive ones."""
    centre: Any
    """Expansion points (B, H, Q, E)."""


class _State(NamedTuple):
    layouts: list[_Layout]
    choice: Any
    """Which layout each head takes, (B, H)."""
    near: Any
    """(B, H)."""
    weight: Any
    """Log-weights of the keys (B, K, S), or None; K is G, or H where masks differ within a group."""
    length: int
    block: int
    group: int
    sinks: int
    overhead: int


def _prepare(
    problem: Problem, near: int, *, clusters: str = "auto", order: int = 2, variant: str = "nlattn"
) -> _State | None:
    """None where all keys are near, or there is no row."""
    b, h, _, length, s = problem.shape
    if near >= s or length == 0:
        return None
    xp = problem.xp
    moment = query_moment(_plain(problem))
    problem, weight = _weighted(problem)
    plain = _plain(problem)
    # Heads of a group share the metric, also where their masks differ.
    moment = repeat_heads(moment, problem.shape[2])
    # Sinks and window are a good part of `near`, but not all of it.
    block = BLOCK
    while block > 1 and (3 if problem.is_causal else 2) * block > near:
        block //= 2
    paper = variant == "paper"
    size = 16 if paper else cluster_size(s)
    whole = xp.full((b, h), near, dtype=xp.int64, device=problem.start.device)
    state = _State(
        layouts=[],
        choice=xp.zeros_like(whole),
        near=whole,
        weight=weight,
        length=length,
        block=block,
        group=min(GROUP, max(block, length // 16 // block * block)),
        sinks=min(block, s) if problem.is_causal else 0,
        overhead=0 if paper else 16,
    )
    position = xp.arange(s, dtype=xp.int64, device=whole.device)
    used = xp.broadcast_to(position >= state.sinks, (b, problem.shape[2], s))
    used = used if weight is None else used & (weight != -xp.inf)
    several = clusters == "auto" and not (paper or problem.is_causal) and length >= TRIALS * block and b > 0
    kinds = ("kmeans", "blocks") if several else ("blocks",) if clusters == "blocks" and not paper else ("kmeans",)
    for kind in kinds:
        # Consecutive keys end where blocks of queries do: no cluster is seen in part, and no spread looks ahead.
        own = min(size, block) if kind == "blocks" else size
        how = Clustering(kind, own, max(2048, 32 * size), 10 if paper else 2)
        there = None if kind == "blocks" or paper else coordinates(plain, used, moment)
        points = xp.astype(plain.key, plain.accumulator, copy=False) if there is None else there.points
        found = cluster_keys(plain, how, used, weight, points)
        if order < 2 or paper:
            found = found._replace(spread=xp.zeros_like(found.spread))
        tree = there is not None and several
        for queries in (None, _similar(plain, there.queries, block)) if tree else (None,):  # type: ignore[union-attr]
            centre = _centres(plain, state, queries, zero=order < 1 or paper)
            state.layouts.append(_Layout(found, how.segment, queries, centre))
    state = state._replace(choice=_better(plain, state)) if several else state
    if all(getattr(plain, name) is getattr(problem, name) for name in ARRAYS):
        return state
    layouts = [_summed(problem, state, layout, zero=order < 1 or paper) for layout in state.layouts]
    return state._replace(layouts=layouts)


def _summed(problem: Problem, state: _State, layout: _Layout, *, zero: bool) -> _Layout:
    """The layout with all that enters sums from `problem`: with its gradient, and its NaN."""
    at = layout.clusters.position
    key, value = (take_rows(array, at) for array in (problem.key, problem.value))
    clusters = layout.clusters._replace(key=key, value=value)
    return layout._replace(clusters=clusters, centre=_centres(problem, state, layout.order, zero=zero))


def _plain(problem: Problem) -> Problem:
    """What choices are made by: without gradients, and 0 where NaN or inf was let through."""
    xp = problem.xp

    def clean(array: Any) -> Any:
        array = stop_gradient(array)
        return array if all_finite(xp, array) else xp.where(xp.isfinite(array), array, xp.zeros_like(array))

    return replace(problem, **{name: clean(getattr(problem, name)) for name in ARRAYS})


def _weighted(problem: Problem) -> tuple[Problem, Any]:
    """The problem with as many key heads as there are masks, and the log-weights of the keys, or None."""
    keys = usable(problem)
    if keys.valid is None:
        return problem, None
    xp = problem.xp
    weight = keys.weight
    if weight is None:
        zero = xp.zeros(keys.valid.shape, dtype=problem.accumulator, device=problem.start.device)
        weight = xp.where(keys.valid, zero, -xp.inf)
    return replace(problem, key=keys.key, value=keys.value), xp.astype(weight, problem.accumulator)


def _similar(problem: Problem, side: Any, block: int) -> Any:
    """An order with similar queries side by side."""
    xp = problem.xp
    b, h, g, length, e = *problem.shape[:4], problem.query.shape[3]
    query = xp.reshape(xp.astype(problem.query, problem.accumulator), (b, g, h // g * length, e)) @ side
    return tree_order(xp, xp.reshape(query, (b, h, length, side.shape[3])), block)


def _centres(problem: Problem, state: _State, order: Any, *, zero: bool) -> Any:
    """The mean of the scaled queries of each group."""
    xp = problem.xp
    length, s = problem.shape[3:]
    query = problem.query if order is None else take_rows(problem.query, order)
    first = s - length if order is None else 0
    edges = [max(0, i - first) for i in range(first // state.group * state.group, first + length, state.group)]
    dtype = problem.accumulator
    parts = [xp.astype(query[:, :, i:j, :], dtype) for i, j in itertools.pairwise([*edges, length])]
    means = xp.stack([xp.mean(part, axis=2) for part in parts], axis=2) if length else xp.astype(query, dtype)
    return xp.zeros_like(means) if zero else means * problem.scale


def _row_blocks(state: _State, layout: _Layout, rows: Problem, numbers: Any) -> RowBlocks:
    """All blocks, or those of some numbers, whose rows `rows` consists of."""
    s, length, block = rows.key.shape[2], state.length, state.block
    first = s - length if layout.order is None else 0
    start = np.arange(first // block, -(-(first + length) // block)) * block
    start = start if numbers is None else start[numbers]
    begin, end = (np.clip(x - first, 0, length) for x in (start, start + block))
    edges = np.concatenate([[0], np.cumsum(end - begin)])
    last = layout.clusters.segments.shape[2] - 1
    if rows.is_causal:
        window = np.clip(np.stack([start - block, start + block], axis=-1), 0, s)
        position = np.concatenate([np.arange(i, j) for i, j in zip(begin, end, strict=True)]) + first
        visible, stop = window[:, 0], np.clip(position + 1, 0, s)
        segment = np.minimum(visible // layout.segment, last)
    else:
        beside = block // 4
        window = np.clip(np.stack([start - beside, start + block + beside], axis=-1), 0, s)
        window = window if layout.order is None else np.zeros_like(window)
        visible, stop = np.full_like(start, s), np.full(edges[-1], s)
        segment = np.full_like(start, last)
    return RowBlocks(edges, start // state.group - first // state.group, window, visible, segment, stop, state.sinks)


def _apply(state: _State | None, rows: Problem, numbers: Any = None) -> Partial:
    """All rows, or those that `_block_rows` gives for the blocks `numbers`."""
    if state is None:
        return attend(rows)
    xp = rows.xp
    rows, _ = _weighted(rows)
    out: Any = None
    for i, layout in enumerate(state.layouts):
        mine = state.choice == i
        if len(state.layouts) > 1 and not concrete_or(xp.any(mine), otherwise=True):
            continue
        part = _on_layout(state, layout, rows, xp.where(mine, state.near, -1), numbers)
        # Heads that take another layout are 0 and -inf here.
        out = part if out is None else Partial(out.out + part.out, xp.where(mine[..., None], part.lse, out.lse))
    return Partial(*out)


def _on_layout(state: _State, layout: _Layout, rows: Problem, near: Any, numbers: Any) -> Partial:
    xp = rows.xp
    blocks = _row_blocks(state, layout, rows, numbers)
    sorts = layout.order is not None and numbers is None
    part = Partial(
        *cluster_attention(
            take_rows(rows.query, layout.order) if sorts else rows.query,
            rows.key,
            rows.value,
            layout.clusters,
            blocks,
            layout.centre,
            near,
            scale=rows.scale,
            weight=state.weight,
            overhead=state.overhead,
        )
    )
    if not sorts:
        return part
    inverse = xp.argsort(layout.order, axis=-1)
    return Partial(take_rows(part.out, inverse), xp.take_along_axis(part.lse, inverse, axis=-1))


def _block_numbers(state: _State) -> range:
    """The blocks that are full."""
    return range(1, state.length // state.block)


def _block_rows(state: _State, problem: Problem, numbers: Any) -> Any:
    """The rows (B, H, m) of full blocks."""
    xp = problem.xp
    b, h, _, length, s = problem.shape
    place = (np.asarray(numbers)[:, None] * state.block + np.arange(state.block)).reshape(-1)
    places = xp.asarray(place, device=state.near.device)
    rows = None
    for i, layout in enumerate(state.layouts):
        if layout.order is None:
            mine = xp.broadcast_to(places - (s - length) % state.block, (b, h, place.size))
        else:
            mine = xp.take(layout.order, places, axis=2)
        rows = mine if rows is None else xp.where((state.choice == i)[..., None], mine, rows)
    return rows


class _Trial(NamedTuple):
    """Blocks of rows on which layouts and numbers of near keys are tried."""

    numbers: Any
    rows: Problem
    exact: Any
    """Of every `every`-th row."""
    every: int
    size: Any
    """Its squared norm (B, H)."""


def _trial(problem: Problem, state: _State, exact: Any = None) -> _Trial:
    """Evenly spaced full blocks."""
    xp = problem.xp
    full = _block_numbers(state)
    count = min(TRIALS, len(full))
    numbers = full.start + np.arange(count) * len(full) // max(1, count) + len(full) // max(1, 2 * count)
    index = _block_rows(state, problem, numbers)
    every = 4 if state.length < 16384 else 2
    exact = attend(problem.rows(index[..., ::every])).out if exact is None else exact
    size = xp.sum(xp.astype(exact, xp.float64) ** 2, axis=(-2, -1))
    return _Trial(numbers, problem.rows(index), exact, every, size)


def _squares(state: _State, trial: _Trial) -> Any:
    """Squared row errors (B, H, m) over the mean squared row norm of a head."""
    xp = trial.rows.xp
    exact = xp.astype(trial.exact, xp.float64)
    found = xp.astype(_apply(state, trial.rows, trial.numbers).out[:, :, :: trial.every, :], xp.float64)
    mean = trial.size[..., None] / max(1, exact.shape[2])
    return xp.sum((found - exact) ** 2, axis=-1) / xp.where(mean > 0, mean, xp.ones_like(mean))


def _better(problem: Problem, state: _State) -> Any:
    """For each head the layout with the smallest error on a few blocks, (B, H)."""
    xp = problem.xp
    errors, consecutive = [], None
    for layout in state.layouts:
        one = state._replace(layouts=[layout], choice=xp.zeros_like(state.choice))
        trial = _trial(problem, one, consecutive if layout.order is None else None)
        consecutive = trial.exact if layout.order is None else consecutive
        errors.append(xp.mean(_squares(one, trial), axis=-1))
    return xp.argmin(xp.stack(errors), axis=0)


def _fitted(problem: Problem, state: _State | None, rtol: float) -> _State | None:
    """The state with the least numbers of near keys that seem to keep a tolerance, for each head."""
    if state is None:
        return None
    xp, s = problem.xp, problem.key.shape[2]
    problem = _plain(problem)
    near, trial = state.near, _trial(problem, state) if len(_block_numbers(state)) else None
    if trial is None:  # too few rows to choose by
        return state._replace(near=xp.full_like(near, s))
    left = xp.ones_like(near) > 0
    while concrete_or(xp.any(left), otherwise=False):
        squares = _squares(state._replace(near=xp.where(left, near, -1)), trial)
        # What rare rows may add is part of the estimate.
        error = xp.mean(squares, axis=-1) + xp.std(squares, axis=-1) / max(1, squares.shape[-1]) ** 0.5
        error = xp.sqrt(error) / (GOAL * rtol)
        left = left & (error > 1)
        larger = xp.astype(near, xp.float64) * xp.clip(xp.clip(error, STEP, None) ** (1 / FALL), None, 2.0)
        larger = xp.astype(xp.ceil(larger / BLOCK), near.dtype) * BLOCK
        near = xp.where(left, larger, near)
        # Beyond, it is no longer worth its while.
        lost = left & (2 * near > s)
        near, left = xp.where(lost, s, near), left & ~lost
    return state._replace(near=near)


def _rebudget(state: _State | None, near: Any) -> _State | None:
    """The state with other numbers of near keys, a NumPy array (B, H); negative leaves a head out."""
    if state is None:
        return None
    return state._replace(near=array_namespace(state.near).asarray(near, device=state.near.device))
