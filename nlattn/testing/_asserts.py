"""Assertions on arrays of any library: first the kind of array, then the values."""

from typing import Any

import array_api_compat
import numpy as np

__all__ = ["assert_close", "assert_same_kind", "to_numpy"]


def to_numpy(array: Any) -> np.ndarray:
    """A NumPy copy or view of an array on the host; bfloat16, which NumPy lacks, as float32."""
    if array_api_compat.is_torch_array(array):
        array = array.detach().cpu()
        return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()
    if array_api_compat.is_cupy_array(array):
        return array.get()
    if array_api_compat.is_numpy_array(array) or not array_api_compat.is_array_api_obj(array):
        return np.asarray(array)
    xp = array_api_compat.array_namespace(array)
    return np.asarray(array_api_compat.to_device(array, xp.__array_namespace_info__().default_device()))


def assert_same_kind(actual: Any, like: Any) -> None:
    """Raise AssertionError unless `actual` has the namespace, the device and the dtype of `like`."""
    if not array_api_compat.is_array_api_obj(actual):
        raise AssertionError(f"expected an array, got {type(actual).__name__}: {actual!r}")
    kinds = [_kind(array) for array in (actual, like)]
    for what, got, wanted in zip(("namespace", "device", "dtype"), *kinds, strict=True):
        if got != wanted:
            raise AssertionError(f"{what} differs: got {got}, expected {wanted}")


def assert_close(actual: Any, desired: Any, *, rtol: float, atol: float = 0.0, like: Any = None) -> None:
    """Raise AssertionError unless `actual` is close to `desired`: in kind first, then in value.

    Parameters
    ----------
    actual : array
    desired : array, of the shape of `actual`
    rtol, atol : float
        ``|actual - desired| <= atol + rtol * |desired|`` must hold everywhere. NaN and infinities must agree exactly.
    like : array, default `desired`
        The array whose namespace, device and dtype `actual` must have, where `desired` is in NumPy or in another
        precision.
    """
    assert_same_kind(actual, desired if like is None else like)
    got, wanted = (to_numpy(x) for x in (actual, desired))
    if got.shape != wanted.shape:
        raise AssertionError(f"shape differs: got {got.shape}, expected {wanted.shape}")
    if not np.issubdtype(got.dtype, np.inexact):
        got, wanted = (x.astype(np.float64) for x in (got, wanted))
    wide = np.result_type(got.dtype, wanted.dtype, np.float64)
    got, wanted = got.astype(wide), wanted.astype(wide)
    special = ~(np.isfinite(got) & np.isfinite(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(got - wanted)
        allowed = atol + rtol * np.abs(wanted)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    bad = np.where(special, ~same, difference > allowed)
    if np.any(bad):
        difference = np.where(special, np.inf, difference)
        excess = np.where(bad, difference - np.where(special, 0.0, allowed), -np.inf)
        at = np.unravel_index(int(np.argmax(excess)), bad.shape)
        where = ", ".join(str(int(i)) for i in at)
        raise AssertionError(
            f"{int(bad.sum())} of {bad.size} elements differ; worst at [{where}]: got {got[at]!s}, "
            f"expected {wanted[at]!s}, difference {difference[at]:.3e}, allowed {allowed[at]:.3e}"
        )


def _kind(array: Any) -> tuple[str, str, str]:
    xp = array_api_compat.array_namespace(array)
    return xp.__name__, str(array_api_compat.device(array)), str(array.dtype)
