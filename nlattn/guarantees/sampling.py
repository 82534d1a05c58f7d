"""Exact attention on randomly drawn rows, and the errors of an output there."""

from dataclasses import replace
from typing import NamedTuple

import array_api_compat
import numpy as np

from nlattn.arrays.host import to_host
from nlattn.arrays.rows import take_rows
from nlattn.arrays.typing import Array
from nlattn.attend.intervals import interval_attention
from nlattn.kernels.segment_sum import segment_sum
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.problem.problem import Problem

__all__ = ["RowErrors", "draw_rows", "exact_rows", "row_errors", "squares", "uniform_rows"]


class RowErrors(NamedTuple):
    """Squared Euclidean norms of sampled rows, float64 NumPy arrays of shape (B, H, m)."""

    error: np.ndarray
    """The norms of output - exact."""
    exact: np.ndarray
    baseline: np.ndarray
    """The norms of the uniform baseline - exact."""


def draw_rows(generator: np.random.Generator, b: int, h: int, length: int, rows: int) -> np.ndarray:
    """Rows drawn without replacement, in random order (B, H, rows); all L rows in their order if there are no more."""
    if rows >= length:
        return np.broadcast_to(np.arange(length), (b, h, length))
    drawn = [generator.choice(length, rows, replace=False) for _ in range(b * h)]
    return np.stack(drawn).reshape(b, h, rows) if drawn else np.empty((b, h, rows), np.int64)


def row_errors(rows: Problem, output: Array, *, double: bool = True) -> RowErrors:
    """The errors of the rows `output` (B, H, m, Ev), for a problem that consists of these rows."""
    exact = exact_rows(rows, double=double)
    return RowErrors(*(squares(x, exact) for x in (output, None, uniform_rows(rows))))


def exact_rows(rows: Problem, *, double: bool = True) -> Array:
    """Exact attention of the rows of a problem, in float64 unless `double` is False."""
    xp = rows.xp
    if double and rows.query.dtype != xp.float64:
        arrays = {name: xp.astype(getattr(rows, name), xp.float64) for name in ("query", "key", "value")}
        bias = None if rows.bias is None else xp.astype(rows.bias, xp.float64)
        rows = replace(rows, **arrays, bias=bias)
    return interval_attention(rows).out


def uniform_rows(rows: Problem) -> Array:
    """The output of the uniform baseline: the mean of the values that each row may see."""
    if rows.mask is None and rows.bias is None and 0 not in rows.shape:
        return _interval_means(rows)
    mask = rows.mask if rows.bias is None else rows.bias != -rows.xp.inf
    return softmax_attention(rows.query, rows.key, rows.value, rows.start, rows.stop, scale=0.0, mask=mask)[0]


def _interval_means(rows: Problem) -> Array:
    """The mean of the values in the interval of each row, from the sums of the values between all sorted edges."""
    xp = rows.xp
    b, h, g, length, s = rows.shape
    heads = h // g
    edges = xp.sort(xp.reshape(xp.concat([rows.start, rows.stop], axis=2), (b, g, 2 * heads * length)), axis=-1)
    position = xp.arange(s, dtype=edges.dtype, device=edges.device)

    def places(each: Array, sought: Array, side: str) -> Array:
        """Where the numbers (B, G, n) that are sought belong in sorted ones (B, G, m)."""
        pairs = [(each[i, j, :], sought[i, j, :]) for i in range(b) for j in range(g)]
        found: Array = xp.reshape(xp.stack([xp.searchsorted(x, y, side=side) for x, y in pairs]), sought.shape)
        return found

    part = places(edges, xp.broadcast_to(position, (b, g, s)), "right")
    parts = segment_sum(xp.astype(rows.value, rows.accumulator), part[..., None], edges.shape[2] + 1)
    sums = xp.cumulative_sum(xp.astype(parts, xp.float64), axis=2)

    def sum_below(edge: Array) -> Array:
        """The sum of the values before each edge (B, H, L)."""
        rank = places(edges, xp.reshape(edge, (b, g, heads * length)), "left")
        below: Array = xp.reshape(take_rows(sums, rank), (b, h, length, sums.shape[3]))
        return below

    count = xp.astype(xp.clip(rows.stop - rows.start, 0, None), xp.float64)[..., None]
    total = xp.where(count > 0, sum_below(rows.stop) - sum_below(rows.start), xp.zeros_like(count))
    return xp.astype(total / xp.clip(count, 1, None), rows.accumulator)


def squares(array: Array | None, exact: Array) -> np.ndarray:
    """The squared norms of the rows of array - exact, or of exact if there is no array, on the host in float64."""
    xp = array_api_compat.array_namespace(exact)
    difference = exact if array is None else xp.astype(array, exact.dtype, copy=False) - exact
    difference = xp.astype(difference, xp.float64, copy=False)
    found = to_host(xp.sum(difference * difference, axis=-1))
    return np.where(np.isnan(found), np.inf, found)
