"""Arguments, checked: one clear sentence for what cannot be used."""

import math
import operator
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import array_namespace

__all__ = [
    "NAMESPACES",
    "all_finite",
    "check_choice",
    "check_integer",
    "check_number",
    "decided",
    "floating",
    "matrix",
    "namespace",
]

#: The array libraries that everything runs on unless its documentation says otherwise.
NAMESPACES = ("numpy", "cupy", "torch", "array_api_strict")


def namespace(**arrays: Any) -> Any:
    """The array namespace of the arguments, which share one supported library and one device."""
    for name, array in arrays.items():
        if not array_api_compat.is_array_api_obj(array):
            raise TypeError(f"{name} must be an array, got {type(array).__name__}; convert it, e.g. with numpy.asarray")
        if hasattr(array, "mask") and hasattr(array, "filled"):
            raise TypeError(
                f"{name} is a masked array, whose mask would be lost; pass a mask as an argument of its own"
            )
    *most, last = arrays
    names = f"{', '.join(most)} and {last}" if most else last
    try:
        xp = array_namespace(*arrays.values())
    except TypeError as error:
        kinds = ", ".join(f"{name} {type(array).__module__}" for name, array in arrays.items())
        raise TypeError(f"{names} must come from one array library, got {kinds}") from error
    library = xp.__name__.removeprefix("array_api_compat.").split(".")[0]
    if library not in NAMESPACES:
        raise TypeError(f"arrays of {library} are not supported, only those of {', '.join(NAMESPACES)}; convert them")
    devices = {name: array_api_compat.device(array) for name, array in arrays.items()}
    if len({str(device) for device in devices.values()}) > 1:
        listed = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"{names} must be on one device, got {listed}; move them first")
    return xp


def floating(name: str, array: Any, *, allow_complex: bool = False, check_finite: bool = True) -> Any:
    """`array` in float32 or float64, or complex where allowed.

    Integers and booleans become float64, as in SciPy; float16 and bfloat16 become float32, in which sums keep their
    digits. Raises for all else, and for NaN and inf where `check_finite`.
    """
    xp = namespace(**{name: array})
    if xp.isdtype(array.dtype, ("integral", "bool")):
        array = xp.astype(array, xp.float64)
    elif xp.isdtype(array.dtype, "complex floating"):
        if not allow_complex:
            raise TypeError(f"{name} must be real, got {array.dtype}; pass its real part, or real and imaginary apart")
    elif not xp.isdtype(array.dtype, "real floating"):
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}; convert it first")
    if xp.finfo(array.dtype).bits > 64:
        raise TypeError(f"{name} must have at most 64 bits a number, got {array.dtype}; convert it to double precision")
    if xp.finfo(array.dtype).bits < 32:
        array = xp.astype(array, xp.float32)
    if check_finite and not all_finite(xp, array):
        raise ValueError(f"{name} contains NaN or inf; clean it, or pass check_finite=False to let it through")
    return array


def matrix(name: str, array: Any, *, allow_complex: bool = False, check_finite: bool = True) -> Any:
    """`floating` for an array of two axes."""
    array = floating(name, array, allow_complex=allow_complex, check_finite=check_finite)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix, of 2 axes, got shape {tuple(array.shape)}")
    return array


def check_integer(name: str, value: Any, *, least: int = 1, most: int | None = None, why: str = "") -> int:
    """`value` as an int between `least` and `most`; `why` follows a refusal of what is too large."""
    try:
        number = None if isinstance(value, bool | np.bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}{f' ({why})' if why else ''}, got {number}")
    return number


def check_number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
) -> float:
    """`value` as a finite float with above < value < below and least <= value <= most."""
    try:
        number = None if isinstance(value, bool | np.bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not (math.isfinite(number) and above < number < below and least <= number <= most):
        limits = [f"> {above:g}"] * (above > -math.inf) + [f">= {least:g}"] * (least > -math.inf)
        limits += [f"< {below:g}"] * (below < math.inf) + [f"<= {most:g}"] * (most < math.inf)
        raise ValueError(f"{name} must be {' and '.join(limits) or 'finite'}, got {number:g}")
    return number


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """`value`, which must be one of the names allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def all_finite(xp: Any, array: Any) -> bool:
    """Whether every element is finite, in the usual case by one sum; True for a traced array, which has no values."""
    if xp.finfo(array.dtype).bits < 32:
        return decided(xp.all(xp.isfinite(array)), otherwise=True)
    with np.errstate(all="ignore"):
        finite = xp.isfinite(xp.sum(array))
    return decided(finite, otherwise=True) or decided(xp.all(xp.isfinite(array)), otherwise=True)


def decided(condition: Any, *, otherwise: bool) -> bool:
    """A 0-dimensional condition as a bool, or `otherwise` where it is traced (vmap, meta tensors) and has no value."""
    try:
        return bool(condition)
    except RuntimeError:
        return otherwise
