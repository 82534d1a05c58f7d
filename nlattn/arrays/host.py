"""Values of arrays on the host, and what to do where an array has none."""

from typing import Any

import array_api_compat
import numpy as np

from nlattn.arrays.typing import Array, Namespace

__all__ = ["all_finite", "concrete_or", "stop_gradient", "to_float", "to_host"]


def to_host(array: Array) -> Any:
    """A NumPy array with the values of `array`, which may share its memory."""
    if array_api_compat.is_numpy_array(array):
        return np.asarray(array)
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(array):
        return array.get()  # type: ignore[attr-defined]
    xp = array_api_compat.array_namespace(array)
    return np.asarray(array_api_compat.to_device(array, xp.__array_namespace_info__().default_device()))


def to_float(x: Array) -> float:
    """An array of no axes as a float, also where gradients are recorded."""
    return float(stop_gradient(x))


def stop_gradient(array: Array) -> Array:
    """The array without its gradient, as for choices, which have none."""
    return array.detach() if hasattr(array, "detach") else array


def concrete_or(condition: Array | bool, *, otherwise: bool) -> bool:
    """A condition of no axes as a bool, or `otherwise` where it is traced (vmap, meta tensors) and has no value."""
    try:
        return bool(condition)
    except RuntimeError:
        return otherwise


def all_finite(xp: Namespace, array: Array) -> bool:
    """Whether every element is finite, in the usual case by one sum; True for a traced array, which has no values."""
    if xp.finfo(array.dtype).bits < 32:
        return concrete_or(xp.all(xp.isfinite(array)), otherwise=True)
    with np.errstate(all="ignore"):
        finite = xp.isfinite(xp.sum(array))
    return concrete_or(finite, otherwise=True) or concrete_or(xp.all(xp.isfinite(array)), otherwise=True)
