"""How keys and queries are divided, and attention of some heads on one such layout."""

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nlattn.arrays.host import all_finite, stop_gradient
from nlattn.arrays.rows import take_rows
from nlattn.arrays.typing import Array
from nlattn.kernels.cluster_attention import Clusters, RowBlocks, cluster_attention
from nlattn.methods.sparse.multipole.policy import POLICY
from nlattn.problem.partials import Partial
from nlattn.problem.problem import Problem
from nlattn.select.query_order import tree_order
from nlattn.select.usable_keys import log_weights, usable

__all__ = [
    "ARRAYS",
    "Grid",
    "Layout",
    "attend_on_layout",
    "expansion_points",
    "similar_queries",
    "summed_from",
    "with_key_heads",
    "without_gradient",
]

#: The fields of a `Problem` that hold floating arrays of the call.
ARRAYS = "query", "key", "value"


class Grid(NamedTuple):
    """How query rows are cut.

    Attributes
    ----------
    length : int
        The number of query rows.
    block : int
        Rows of a block, which choose their near clusters together.
    group : int
        Rows of a group, which share an expansion point: a multiple of `block`.
    sinks : int
        The first keys, which are near to all rows.
    """

    length: int
    block: int
    group: int
    sinks: int

    @classmethod
    def of(cls, problem: Problem, near: int) -> "Grid":
        """Blocks so small that sinks and window are fewer than `near` keys; as large as that allows."""
        _, _, _, length, s = problem.shape
        block = POLICY.most_block
        while block > 1 and (3 if problem.is_causal else 2) * block > near:
            block //= 2
        group = min(POLICY.most_group, max(block, length // 16 // block * block))
        return cls(length, block, group, min(block, s) if problem.is_causal else 0)


class Layout(NamedTuple):
    """One way to divide keys and queries.

    Attributes
    ----------
    clusters : Clusters
    segment : int
        Keys of a segment: consecutive ones, which are divided into clusters by themselves.
    query_order : integer array, shape (B, H, L), or None
        The query at each place, for blocks of similar queries; None for blocks of consecutive ones.
    centre : array, shape (B, H, Q, E)
        The expansion point of each group of rows.
    """

    clusters: Clusters
    segment: int
    query_order: Array | None
    centre: Array


def attend_on_layout(
    grid: Grid,
    layout: Layout,
    rows: Problem,
    near: Array,
    weight: Array | None,
    overhead: int,
    numbers: np.ndarray | None,
) -> Partial:
    """Attention of all rows, or of those of the blocks `numbers`, at the numbers of near keys (B, H).

    Where the number of near keys is negative, the head is left out: its output is 0 and its lse -inf.
    """
    xp = rows.xp
    # Where only some blocks are wanted, `rows` has their rows in the right order already.
    query_order = layout.query_order if numbers is None else None
    part = Partial(
        *cluster_attention(
            rows.query if query_order is None else take_rows(rows.query, query_order),
            rows.key,
            rows.value,
            layout.clusters,
            row_blocks(grid, layout, rows, numbers),
            layout.centre,
            near,
            scale=rows.scale,
            weight=weight,
            overhead=overhead,
        )
    )
    if query_order is None:
        return part
    inverse = xp.argsort(query_order, axis=-1)
    return Partial(take_rows(part.out, inverse), xp.take_along_axis(part.lse, inverse, axis=-1))


def row_blocks(grid: Grid, layout: Layout, rows: Problem, numbers: np.ndarray | None) -> RowBlocks:
    """All blocks, or just the blocks `numbers`; then `rows` consists of their rows."""
    s, length, block = rows.key.shape[2], grid.length, grid.block
    first = s - length if layout.query_order is None else 0
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
        window = window if layout.query_order is None else np.zeros_like(window)
        visible, stop = np.full_like(start, s), np.full(edges[-1], s)
        segment = np.full_like(start, last)
    return RowBlocks(edges, start // grid.group - first // grid.group, window, visible, segment, stop, grid.sinks)


def expansion_points(problem: Problem, group: int, query_order: Array | None, *, zero: bool) -> Array:
    """The mean of the scaled queries of each group of `group` rows, (B, H, Q, E), or zeros of that shape."""
    xp = problem.xp
    length, s = problem.shape[3:]
    query = problem.query if query_order is None else take_rows(problem.query, query_order)
    first = s - length if query_order is None else 0
    edges = [max(0, i - first) for i in range(first // group * group, first + length, group)]
    dtype = problem.accumulator
    parts = [xp.astype(query[:, :, i:j, :], dtype) for i, j in itertools.pairwise([*edges, length])]
    means = xp.stack([xp.mean(part, axis=2) for part in parts], axis=2) if length else xp.astype(query, dtype)
    return xp.zeros_like(means) if zero else means * problem.scale


def similar_queries(problem: Problem, side: Array, block: int) -> Array:
    """An order (B, H, L) in which similar queries are neighbours, by their coordinates: queries times `side`."""
    xp = problem.xp
    b, h, g, length, e = *problem.shape[:4], problem.query.shape[3]
    query = xp.reshape(xp.astype(problem.query, problem.accumulator), (b, g, h // g * length, e)) @ side
    return tree_order(xp.reshape(query, (b, h, length, side.shape[3])), block)


def without_gradient(problem: Problem) -> Problem:
    """The problem by which choices are made: without gradients, and with 0 where NaN or inf was let through."""
    xp = problem.xp

    def clean(array: Array) -> Array:
        array = stop_gradient(array)
        return array if all_finite(xp, array) else xp.where(xp.isfinite(array), array, xp.zeros_like(array))

    cleaned: dict[str, Any] = {name: clean(getattr(problem, name)) for name in ARRAYS}
    return replace(problem, **cleaned)


def with_key_heads(problem: Problem) -> tuple[Problem, Array | None]:
    """The problem with a key head for each query head where masks differ in a group, and the log-weights or None."""
    keys = usable(problem)
    if keys.valid is None:
        return problem, None
    return replace(problem, key=keys.key, value=keys.value), log_weights(problem, keys)


def summed_from(problem: Problem, grid: Grid, layout: Layout, *, zero: bool) -> Layout:
    """The layout with keys, values and expansion points taken from `problem`: with their gradients, and their NaN."""
    at = layout.clusters.position
    key, value = (take_rows(array, at) for array in (problem.key, problem.value))
    clusters = layout.clusters._replace(key=key, value=value)
    return layout._replace(
        clusters=clusters, centre=expansion_points(problem, grid.group, layout.query_order, zero=zero)
    )
