"""Exact attention on randomly drawn rows, and the errors of an output there."""

from dataclasses import replace
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.methods.exact import attend
from nlattn.methods.problem import Problem

__all__ = ["RowErrors", "draw_rows", "exact_rows", "row_errors", "squares", "take_rows", "to_host", "uniform_rows"]


class RowErrors(NamedTuple):
    """Squared Euclidean norms of sampled rows, float64 NumPy arrays of shape (B, H, m)."""

    error: Any
    """Of output - exact."""
    exact: Any
    baseline: Any
    """Of the uniform baseline - exact."""


def draw_rows(generator: np.random.Generator, b: int, h: int, length: int, rows: int) -> Any:
    """Row indices (B, H, min(rows, L)), for each batch element and head without replacement, in random order."""
    if rows >= length:
        return np.broadcast_to(np.arange(length), (b, h, length))
    drawn = [generator.choice(length, rows, replace=False) for _ in range(b * h)]
    return np.stack(drawn).reshape(b, h, rows) if drawn else np.empty((b, h, rows), np.int64)


def take_rows(problem: Problem, index: Any) -> Problem:
    """The problem of the rows `index`, a NumPy array (B, H, m)."""
    return problem.rows(problem.xp.asarray(np.array(index), device=array_api_compat.device(problem.query)))


def row_errors(rows: Problem, output: Any, *, double: bool = True) -> RowErrors:
    """Errors of the rows `output` (B, H, m, Ev) of a problem that consists of these rows."""
    exact = exact_rows(rows, double=double)
    return RowErrors(*(squares(rows.xp, x, exact) for x in (output, None, uniform_rows(rows))))


def exact_rows(rows: Problem, *, double: bool = True) -> Any:
    """Exact attention of the rows of a problem, in float64 unless `double` is False."""
    xp = rows.xp
    if double and rows.query.dtype != xp.float64:
        arrays = {name: xp.astype(getattr(rows, name), xp.float64) for name in ("query", "key", "value")}
        bias = None if rows.bias is None else xp.astype(rows.bias, xp.float64)
        rows = replace(rows, **arrays, bias=bias)
    return attend(rows).out


def uniform_rows(rows: Problem) -> Any:
    """The uniform baseline: the mean of the values that each row may see."""
    xp = rows.xp
    b, h, g, length, s = rows.shape
    general = any(array is not None and array.shape[2] > 1 for array in (rows.mask, rows.bias))
    if general:
        mask = rows.mask if rows.bias is None else rows.bias != -xp.inf
        return softmax_attention(rows.query, rows.key, rows.value, rows.start, rows.stop, scale=0.0, mask=mask)[0]
    # Differences of running sums over the visible keys.
    seen = rows.key_mask()
    value = xp.astype(rows.value, xp.float64)
    weight = xp.ones((b, g, 1, s), dtype=xp.float64, device=array_api_compat.device(value))
    value = xp.broadcast_to(value[:, :, None, :, :], (b, g, 1, *value.shape[2:]))
    if seen is not None:
        per_head = seen.shape[1] > 1
        seen = xp.reshape(seen, (seen.shape[0], g if per_head else 1, h // g if per_head else 1, s))
        weight = xp.where(seen, weight, xp.zeros_like(weight))
        value = xp.where(seen[..., None], value, xp.zeros_like(value))
    ends = [xp.reshape(edge, (b, g, h // g, length)) for edge in (rows.start, rows.stop)]

    def between(x: Any) -> Any:
        total = xp.cumulative_sum(x, axis=3, include_initial=True)
        wide = xp.broadcast_to(total, (b, g, h // g, *total.shape[3:]))
        at = [end if total.ndim == 4 else end[..., None] for end in ends]
        low, high = (xp.take_along_axis(wide, i, axis=3) for i in at)
        return high - low

    count = xp.astype(ends[1] - ends[0], xp.float64) if seen is None else between(weight)
    mean = between(value) / xp.clip(count, 1.0, None)[..., None]
    mean = xp.where(count[..., None] > 0, mean, xp.zeros_like(mean))
    return xp.reshape(mean, (b, h, length, rows.value.shape[3]))


def to_host(xp: Any, array: Any) -> Any:
    """A NumPy copy of an array of statistics."""
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(array):
        return array.get()
    return np.asarray(array_api_compat.to_device(array, xp.__array_namespace_info__().default_device()))


def squares(xp: Any, array: Any, exact: Any) -> Any:
    """Squared norms of the rows of array - exact, or of exact, on the host in float64."""
    difference = exact if array is None else xp.astype(array, exact.dtype, copy=False) - exact
    difference = xp.astype(difference, xp.float64, copy=False)
    return to_host(xp, xp.sum(difference * difference, axis=-1))
