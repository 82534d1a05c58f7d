"""Positive semidefinite matrices, given by their entries or by a kernel function on points."""

from array_api_compat import array_namespace

from nlattn.arrays.host import all_finite, to_float
from nlattn.arrays.namespaces import is_array
from nlattn.arrays.typing import Array
from nlattn.linalg._kernel_matrix import KernelMatrix
from nlattn.linalg._operators import Operator, operator

__all__ = ["Entries", "psd"]


class Entries:
    """What an array gives of itself, by the methods of a KernelMatrix."""

    def __init__(self, a: Array) -> None:
        self.a = a

    def diagonal(self) -> Array:
        xp = array_namespace(self.a)
        d = xp.linalg.diagonal(self.a)
        return xp.real(d) if xp.isdtype(self.a.dtype, "complex floating") else d

    def columns(self, index: Array) -> Array:
        return array_namespace(self.a).take(self.a, index, axis=1)

    def block(self, index: Array) -> Array:
        xp = array_namespace(self.a)
        return xp.take(xp.take(self.a, index, axis=0), index, axis=1)


def psd(name: str, a: Array | KernelMatrix, *, check_finite: bool) -> tuple[Entries | KernelMatrix, Operator]:
    """`a`, a matrix or KernelMatrix, as what gives its entries and as an operator; refuses what cannot be PSD."""
    if not isinstance(a, KernelMatrix) and not is_array(a):
        raise TypeError(f"{name} must be a matrix or a KernelMatrix, got {type(a).__name__}; wrap a kernel function")
    op = operator(name, a, check_finite=check_finite)
    if op.shape[0] != op.shape[1]:
        raise ValueError(f"{name} must be square, got shape {op.shape}")
    entries = a if isinstance(a, KernelMatrix) else Entries(a if op.array is None else op.array)
    xp, diagonal = op.xp, entries.diagonal()
    if op.shape[0] == 0:
        return entries, op
    if not all_finite(xp, diagonal):
        raise ValueError(f"{name} must have a finite diagonal, got NaN or inf there")
    least, most = to_float(xp.min(diagonal)), to_float(xp.max(diagonal))
    if least < -float(xp.finfo(op.dtype).eps) * most or most < 0:
        raise ValueError(f"{name} must be positive semidefinite, got {least * op.scale:g} on its diagonal")
    if op.array is not None:
        _check_diagonal(name, op, most)
    return entries, op


def _check_diagonal(name: str, op: Operator, most: float) -> None:
    xp, rounding = op.xp, most * float(op.xp.finfo(op.dtype).eps)
    if op.complex and to_float(xp.max(xp.abs(xp.imag(xp.linalg.diagonal(op.array))))) > rounding:
        raise ValueError(f"{name} must be Hermitian, got a diagonal that is not real")
    if most == 0 and bool(xp.any(op.array != 0)):
        raise ValueError(f"{name} must be positive semidefinite, got entries beside a diagonal of zeros")
