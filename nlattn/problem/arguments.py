"""The arguments that all attention functions share, checked."""

import math
from typing import Literal

import array_api_compat
import numpy as np

from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array, Namespace
from nlattn.problem.masks import checked_finite, checked_mask
from nlattn.problem.problem import Problem

__all__ = ["checked_problem", "one_dtype"]


def checked_problem(
    name: str,
    query: Array,
    key: Array,
    value: Array,
    *,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    masks: Literal["any", "keys"] | None = "any",
    check_finite: bool = True,
) -> Problem:
    """Check the arguments of the attention function `name` and bring them into the layout of the kernels."""
    xp = namespace(query=query, key=key, value=value)
    _check_dtypes(xp, query=query, key=key, value=value)
    _check_shapes(query, key, value)
    scale = _check_scale(scale, query.shape[-1])
    batch = _broadcast(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    query4, key4, value4 = (_four(xp, x, batch) for x in (query, key, value))
    b, h, length, _ = query4.shape
    s = key4.shape[2]
    full = (*batch, h, length, s) if query.ndim > 2 else (length, s)
    mask, bias = checked_mask(name, attn_mask, query, full, masks)
    start, stop, position = (
        xp.broadcast_to(edge, (b, h, length)) for edge in _intervals(xp, is_causal, length, s, query4)
    )
    problem = Problem(
        xp=xp,
        query=query4,
        key=key4,
        value=value4,
        start=start,
        stop=stop,
        position=position,
        scale=scale,
        is_causal=bool(is_causal),
        mask=mask,
        bias=bias,
        batch=batch,
        has_heads=query.ndim > 2,
        finite=False,
    )
    return checked_finite(problem) if check_finite else problem


def one_dtype(*arrays: object) -> bool:
    """Whether all arrays have one dtype.

    Tensors of several dtypes are not lent to NumPy, where bfloat16 would pass for float32: they have to be refused.
    """
    dtypes = {str(getattr(array, "dtype", None)) for array in arrays}
    return len(dtypes) == 1 and "None" not in dtypes


def _check_dtypes(xp: Namespace, **arrays: Array) -> None:
    for name, array in arrays.items():
        if not xp.isdtype(array.dtype, "real floating"):
            raise TypeError(f"{name} must have a real floating dtype, got {array.dtype}; convert it first")
        if xp.finfo(array.dtype).bits > 64:
            raise TypeError(f"{name} must have at most 64 bits a number, got {array.dtype}; convert it to float64")
    if len({str(array.dtype) for array in arrays.values()}) > 1:
        listed = ", ".join(f"{name} {array.dtype}" for name, array in arrays.items())
        raise TypeError(f"query, key and value must share one dtype, got {listed}; convert them first")


def _check_shapes(query: Array, key: Array, value: Array) -> None:
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim < 2:
            raise ValueError(f"{name} must have at least 2 axes (..., length, features), got shape {array.shape}")
    if len({array.ndim == 2 for array in (query, key, value)}) > 1:
        raise ValueError(
            f"query, key and value must all have a heads axis or none, got shapes {query.shape}, {key.shape}, "
            f"{value.shape}; add an axis of size 1"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key must have the same last axis, got shapes {query.shape} and {key.shape}")
    if query.shape[-1] == 0:
        raise ValueError(f"query and key need at least one feature, got shapes {query.shape} and {key.shape}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"key and value must have the same length, got shapes {key.shape} and {value.shape}")
    if query.ndim == 2:
        return
    heads, heads_kv = query.shape[-3], key.shape[-3]
    if value.shape[-3] != heads_kv:
        raise ValueError(f"key and value must have the same heads, got shapes {key.shape} and {value.shape}")
    if heads == 0 or heads_kv == 0:
        raise ValueError(f"query, key and value need at least one head, got shapes {query.shape} and {key.shape}")
    if heads % heads_kv:
        raise ValueError(f"the heads of query must be a multiple of those of key, got {heads} and {heads_kv}")


def _check_scale(scale: float | None, features: int) -> float:
    if scale is None:
        return float(features**-0.5)
    try:
        value = None if isinstance(scale, bool | np.bool | str) else float(scale)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None:
        raise TypeError(f"scale must be a number or None, got {scale!r}")
    if not math.isfinite(value):
        raise ValueError(f"scale must be finite, got {value}; None means E ** -0.5")
    return value


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The leading axes that arrays with these leading axes have in common."""
    ndim = max(len(shape) for shape in shapes)
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        size = next((n for n in sizes if n != 1), 1)
        if any(n not in (1, size) for n in sizes):
            raise ValueError(f"the leading axes of query, key and value must match or be 1, got {shapes}")
        result.append(size)
    return tuple(result)


def _four(xp: Namespace, array: Array, batch: tuple[int, ...]) -> Array:
    """An array (..., heads, n, e), or (n, e), as (B, heads, n, e)."""
    if array.ndim == 2:
        return array[None, None, ...]
    if array.ndim == 4 and tuple(array.shape[:1]) == batch:
        return array
    full = (*batch, *array.shape[-3:])
    if tuple(array.shape) != full:
        array = xp.broadcast_to(array, full)
    return xp.reshape(array, (math.prod(batch), *array.shape[-3:]))


def _intervals(xp: Namespace, is_causal: bool, length: int, s: int, like: Array) -> tuple[Array, Array, Array]:
    """The start, stop and position of each row, aligned at the bottom right: the last query sees all keys."""
    device = array_api_compat.device(like)
    position = xp.arange(s - length, s, dtype=xp.int64, device=device)
    full = xp.full((length,), s, dtype=xp.int64, device=device)
    return xp.zeros_like(full), xp.clip(position + 1, 0, s) if is_causal else full, position
