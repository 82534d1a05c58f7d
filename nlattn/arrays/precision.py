"""The dtypes in which sums are formed and moduli are held."""

from nlattn.arrays.typing import DType, Namespace

__all__ = ["accumulator", "real_dtype"]


def accumulator(xp: Namespace, dtype: DType) -> DType:
    """float64 for float64, in either byte order; float32 for all that is narrower."""
    return xp.float64 if xp.finfo(dtype).bits > 32 else xp.float32


def real_dtype(xp: Namespace, dtype: DType) -> DType:
    """The dtype of the moduli of real or complex numbers in single or double precision."""
    return xp.float32 if xp.finfo(dtype).bits == 32 else xp.float64
