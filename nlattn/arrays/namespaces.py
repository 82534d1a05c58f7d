"""The array library of the arguments of a call."""

from typing import Any, TypeGuard

import array_api_compat
from array_api_compat import array_namespace

from nlattn.arrays.typing import Array, Namespace

__all__ = ["NAMESPACES", "is_array", "namespace"]

#: The array libraries that everything runs on unless its documentation says otherwise.
NAMESPACES = ("numpy", "cupy", "torch", "array_api_strict")


def is_array(value: object) -> TypeGuard[Array]:
    """Whether a value is an array of any library that follows the array API standard."""
    return bool(array_api_compat.is_array_api_obj(value))


def namespace(**arrays: Any) -> Namespace:
    """The array namespace of the arguments, which share one supported library and one device."""
    for name, array in arrays.items():
        if not is_array(array):
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
