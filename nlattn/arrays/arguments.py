"""Arguments, checked: one clear sentence for what cannot be used."""

import math
import operator
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

import numpy as np

from nlattn.arrays.host import all_finite
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array

__all__ = [
    "check_choice",
    "check_integer",
    "check_number",
    "floating",
    "matrix",
]

Choice = TypeVar("Choice", bound=str)


def floating(name: str, array: Array, *, allow_complex: bool = False, check_finite: bool = True) -> Array:
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


def matrix(name: str, array: Array, *, allow_complex: bool = False, check_finite: bool = True) -> Array:
    """`floating` for an array of two axes."""
    array = floating(name, array, allow_complex=allow_complex, check_finite=check_finite)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix, of 2 axes, got shape {tuple(array.shape)}")
    return array


def check_integer(name: str, value: SupportsIndex, *, least: int = 1, most: int | None = None, why: str = "") -> int:
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
    value: SupportsFloat | SupportsIndex,
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


def check_choice(name: str, value: Choice, allowed: tuple[Any, ...]) -> Choice:
    """`value`, which must be one of the names allowed: those of its Literal type, by ``typing.get_args``."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value
