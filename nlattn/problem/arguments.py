"""The arguments that all attention functions share, checked."""

import math
from typing import Any, Literal

import array_api_compat
import numpy as np

from nlattn.arrays.host import concrete_or
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.precision import accumulator
from nlattn.problem.problem import Problem, checked_finite

__all__ = ["prepare", "refuse_causal"]


def prepare(
    name: str,
    query: Any,
    key: Any,
    value: Any,
    *,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    masks: Literal["any", "keys"] | None = "any",
    enable_gqa: bool = True,
    check_finite: bool = True,
) -> Problem:
    """Check the arguments of the attention function `name` and bring them into the layout of the kernels."""
    xp = namespace(query=query, key=key, value=value)
    _check_dtypes(xp, query=query, key=key, value=value)
    heads, heads_kv = _check_shapes(query, key, value)
    if heads != heads_kv and not enable_gqa:
        raise ValueError(f"query has {heads} heads and key has {heads_kv}: pass enable_gqa=True or repeat the keys")
    scale = _check_scale(scale, query.shape[-1])
    batch = _broadcast(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    query4, key4, value4 = (_four(xp, x, batch) for x in (query, key, value))
    b, h, length, _ = query4.shape
    s = key4.shape[2]
    mask, bias = _check_mask(xp, name, attn_mask, masks, batch, h, length, s, query, heads=query.ndim > 2)
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
    )
    return checked_finite(problem) if check_finite else problem


def refuse_causal(name: str, is_causal: bool, instead: str) -> None:
    """Raise for a method that has no causal form."""
    if is_causal:
        raise NotImplementedError(f"{name} has no causal form: {instead}")


def _check_dtypes(xp: Any, **arrays: Any) -> None:
    for name, array in arrays.items():
        if not xp.isdtype(array.dtype, "real floating"):
            raise TypeError(f"{name} must have a real floating dtype, got {array.dtype}; convert it first")
        if xp.finfo(array.dtype).bits > 64:
            raise TypeError(f"{name} must have at most 64 bits a number, got {array.dtype}; convert it to float64")
    if len({str(array.dtype) for array in arrays.values()}) > 1:
        listed = ", ".join(f"{name} {array.dtype}" for name, array in arrays.items())
        raise TypeError(f"query, key and value must share one dtype, got {listed}; convert them first")


def _check_shapes(query: Any, key: Any, value: Any) -> tuple[int, int]:
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
        return 1, 1
    heads, heads_kv = query.shape[-3], key.shape[-3]
    if value.shape[-3] != heads_kv:
        raise ValueError(f"key and value must have the same heads, got shapes {key.shape} and {value.shape}")
    if heads == 0 or heads_kv == 0:
        raise ValueError(f"query, key and value need at least one head, got shapes {query.shape} and {key.shape}")
    if heads % heads_kv:
        raise ValueError(f"the heads of query must be a multiple of those of key, got {heads} and {heads_kv}")
    return heads, heads_kv


def _check_scale(scale: float | None, features: int) -> float:
    if scale is None:
        return float(features**-0.5)
    try:
        number = None if isinstance(scale, bool | np.bool | str) else float(scale)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise TypeError(f"scale must be a number or None, got {scale!r}")
    if not math.isfinite(number):
        raise ValueError(f"scale must be finite, got {number}; None means E ** -0.5")
    return number


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    ndim = max(len(shape) for shape in shapes)
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        size = next((n for n in sizes if n != 1), 1)
        if any(n not in (1, size) for n in sizes):
            raise ValueError(f"the leading axes of query, key and value must match or be 1, got {shapes}")
        result.append(size)
    return tuple(result)


def _four(xp: Any, array: Any, batch: tuple[int, ...]) -> Any:
    """(..., heads, n, e) as (B, heads, n, e)."""
    if array.ndim == 2:
        return array[None, None, ...]
    if array.ndim == 4 and tuple(array.shape[:1]) == batch:
        return array
    full = (*batch, *array.shape[-3:])
    if tuple(array.shape) != full:
        array = xp.broadcast_to(array, full)
    return xp.reshape(array, (math.prod(batch), *array.shape[-3:]))


def _check_mask(
    xp: Any,
    name: str,
    mask: Any,
    masks: str | None,
    batch: tuple[int, ...],
    h: int,
    length: int,
    s: int,
    query: Any,
    *,
    heads: bool,
) -> tuple[Any, Any]:
    """`attn_mask` as (boolean mask, additive bias) of four axes, at most one of them given."""
    if mask is None:
        return None, None
    if not array_api_compat.is_array_api_obj(mask):
        raise TypeError(f"attn_mask must be an array or None, got {type(mask).__name__}")
    if array_api_compat.array_namespace(mask) is not xp:
        raise TypeError(f"attn_mask must come from the library of query, got {type(mask).__module__}")
    if str(array_api_compat.device(mask)) != str(array_api_compat.device(query)):
        raise ValueError(
            f"attn_mask must be on the device of query, got {array_api_compat.device(mask)}; move it first"
        )
    boolean = bool(xp.isdtype(mask.dtype, "bool"))
    if not boolean and not xp.isdtype(mask.dtype, "real floating"):
        raise TypeError(f"attn_mask must be boolean (True: attend) or floating (added to scores), got {mask.dtype}")
    full = (*batch, h, length, s) if heads else (length, s)
    shape = (1,) * (len(full) - mask.ndim) + tuple(mask.shape)
    if len(shape) > len(full) or any(n not in (1, m) for n, m in zip(shape, full, strict=True)):
        raise ValueError(f"attn_mask must broadcast to {full}, got shape {tuple(mask.shape)}")
    if masks is None:
        raise NotImplementedError(f"{name} honours no mask; use exact_attention or streaming_attention")
    if masks == "keys" and shape[-2] != 1:
        raise NotImplementedError(
            f"{name} honours key masks only, of size 1 on the query axis, got shape {tuple(mask.shape)}; "
            "use exact_attention or streaming_attention"
        )
    lead, last = shape[:-3], shape[-3:] if heads else (1, *shape)
    mask = xp.reshape(mask, (*lead, *last))
    if math.prod(lead) > 1 and lead != batch:
        mask = xp.broadcast_to(mask, (*batch, *last))
    mask = xp.reshape(mask, (math.prod(mask.shape[:-3]), *last))
    if boolean:
        return mask, None
    if concrete_or(xp.any(xp.isnan(mask) | (mask == xp.inf)), otherwise=False):
        raise ValueError("attn_mask contains NaN or +inf; a floating mask holds finite numbers and -inf")
    limits = xp.finfo(accumulator(xp, query.dtype))
    if xp.finfo(mask.dtype).max > limits.max:
        # Finite numbers stay finite in the narrower dtype of the scores: only -inf masks.
        mask = xp.where(mask == -xp.inf, mask, xp.clip(mask, limits.min, limits.max))
    return None, mask


def _intervals(xp: Any, is_causal: bool, length: int, s: int, like: Any) -> tuple[Any, Any, Any]:
    """start, stop and position; aligned bottom-right, so that the last query sees all keys."""
    device = array_api_compat.device(like)
    position = xp.arange(s - length, s, dtype=xp.int64, device=device)
    full = xp.full((length,), s, dtype=xp.int64, device=device)
    return xp.zeros_like(full), xp.clip(position + 1, 0, s) if is_causal else full, position
