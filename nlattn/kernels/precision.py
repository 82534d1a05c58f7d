"""The dtype in which sums are formed, and numbers on the host."""

from typing import Any

__all__ = ["accumulator", "number", "real_dtype"]


def accumulator(xp: Any, dtype: Any) -> Any:
    """float64 for float64, in either byte order; float32 for all that is narrower."""
    return xp.float64 if xp.finfo(dtype).bits > 32 else xp.float32


def number(x: Any) -> float:
    """An array of no axes as a float, also where gradients are recorded."""
    return float(x.detach() if hasattr(x, "detach") else x)


def real_dtype(xp: Any, dtype: Any) -> Any:
    """The dtype of the moduli of real or complex numbers in single or double precision."""
    return xp.float32 if xp.finfo(dtype).bits == 32 else xp.float64
