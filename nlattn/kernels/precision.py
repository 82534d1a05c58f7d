"""The dtype in which sums are formed."""

from typing import Any

__all__ = ["accumulator"]


def accumulator(xp: Any, dtype: Any) -> Any:
    """float64 for float64, in either byte order; float32 for all that is narrower."""
    return xp.float64 if xp.finfo(dtype).bits > 32 else xp.float32
