"""Masks: how they are checked, which keys they leave visible, and which entries behind them may hold NaN."""

import math
from dataclasses import replace
from typing import Any, Literal

import array_api_compat

from nlattn.arrays.host import all_finite, concrete_or
from nlattn.arrays.precision import accumulator
from nlattn.arrays.typing import Array
from nlattn.problem.problem import Problem

__all__ = ["checked_finite", "checked_mask", "visible_keys"]


def checked_mask(
    name: str, mask: Any, query: Array, full: tuple[int, ...], masks: Literal["any", "keys"] | None
) -> tuple[Array | None, Array | None]:
    """`attn_mask`, which must broadcast to the shape `full` of the scores, as a boolean mask or a bias of four axes.

    Returns (mask, bias), of which at least one is None. `name` is the attention function, and `masks` says which masks
    it honours.
    """
    xp = array_api_compat.array_namespace(query)
    if mask is None:
        return None, None
    is_array: bool = array_api_compat.is_array_api_obj(mask)
    if not is_array:
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
    batch = full[:-3]
    lead, last = shape[:-3], shape[-3:] if len(full) > 2 else (1, *shape)
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
        # Only -inf masks: finite numbers have to stay finite in the narrower dtype of the scores.
        mask = xp.where(mask == -xp.inf, mask, xp.clip(mask, limits.min, limits.max))
    return None, mask


def visible_keys(problem: Problem) -> Array:
    """True for the keys that some row of some head of their group may attend to, shape (B, G, S)."""
    xp = problem.xp
    b, h, g, length, s = problem.shape
    position = xp.arange(s, dtype=problem.start.dtype, device=problem.start.device)
    seen = xp.zeros((b, g, s), dtype=xp.bool, device=position.device)
    step = 256
    for i in range(0, length, step):
        rows = slice(i, min(i + step, length))
        part = (position >= problem.start[:, :, rows, None]) & (position < problem.stop[:, :, rows, None])
        for array, weighs in ((problem.mask, None), (problem.bias, -xp.inf)):
            if array is not None:
                tile = array if array.shape[2] == 1 else array[:, :, rows, :]
                part = part & (tile if weighs is None else tile != weighs)
        part = xp.any(part, axis=2)
        seen = seen | xp.any(xp.reshape(part, (b, g, h // g, s)), axis=2)
    return seen


def checked_finite(problem: Problem) -> Problem:
    """Raise for NaN or inf that some row may meet, and set to 0 what no row may see, which may hold anything."""
    xp = problem.xp
    if not all_finite(xp, problem.query):
        raise ValueError("query contains NaN or inf; clean it, or pass check_finite=False to let it through")
    seen = None
    clean = {}
    for name in ("key", "value"):
        array = getattr(problem, name)
        if all_finite(xp, array):
            continue
        if seen is None:
            seen = visible_keys(problem)
        bad = seen & ~xp.all(xp.isfinite(array), axis=-1)
        if bool(xp.any(bad)):
            raise ValueError(
                f"{name} contains NaN or inf at a position that some query may attend to; "
                "mask it, clean it, or pass check_finite=False to let it through"
            )
        clean[name] = xp.where(seen[..., None], array, xp.zeros_like(array))
    return replace(problem, finite=True, **clean)
