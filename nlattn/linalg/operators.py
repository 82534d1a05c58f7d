"""Matrices, and what acts like one, seen alike."""

from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import array_namespace

from nlattn.validation import matrix

__all__ = ["Operator", "operator"]


@dataclass(frozen=True, slots=True)
class Operator:
    """A matrix of known shape that can be multiplied, and whose adjoint can be; `array` is None without entries.

    `like` is an array of the library, dtype and device of its products.
    """

    shape: tuple[int, int]
    like: Any
    array: Any
    forward: Any
    backward: Any

    @property
    def xp(self) -> Any:
        return array_namespace(self.like)

    @property
    def dtype(self) -> Any:
        return self.like.dtype

    def __matmul__(self, x: Any) -> Any:
        return self._cast(self.forward @ x)

    @property
    def adjoint(self) -> "Operator":
        array = None if self.array is None else adjoint(self.array)
        return Operator(self.shape[::-1], self.like, array, self.backward, self.forward)

    def _cast(self, product: Any) -> Any:
        return self.xp.astype(product, self.dtype, copy=False)


def operator(name: str, a: Any, *, allow_complex: bool = True, check_finite: bool = True) -> Operator:
    """`a` as an Operator: an array of two axes, or an object with `shape`, `@` and an adjoint (SciPy's
    LinearOperator and sparse arrays, or any with ``adjoint()``, ``H``, or for real ones ``T``)."""
    if array_api_compat.is_array_api_obj(a):
        a = matrix(name, a, allow_complex=allow_complex, check_finite=check_finite)
        return Operator(tuple(a.shape), a, a, a, adjoint(a))
    shape = getattr(a, "shape", None)
    if not hasattr(a, "__matmul__") or not isinstance(shape, tuple) or len(shape) != 2:
        raise TypeError(
            f"{name} must be a matrix, or have a shape (m, n), @ and an adjoint, got {type(a).__name__}; "
            "convert it with numpy.asarray, or wrap it in scipy.sparse.linalg.LinearOperator"
        )
    dtype = np.dtype(getattr(a, "dtype", None) or np.float64)
    if dtype.kind == "c" and not allow_complex:
        raise TypeError(f"{name} must be real, got {dtype}")
    if dtype.kind not in "fc" or dtype.itemsize < 4:
        dtype = np.dtype(np.float32 if dtype.kind == "f" else np.float64)
    m, n = map(int, shape)
    return Operator((m, n), np.empty(0, dtype), None, a, _adjoint_of(name, a, dtype.kind == "c"))


def adjoint(a: Any) -> Any:
    """The conjugate transpose of an array."""
    xp = array_namespace(a)
    transposed = xp.matrix_transpose(a)
    return xp.conj(transposed) if xp.isdtype(a.dtype, "complex floating") else transposed


def _adjoint_of(name: str, a: Any, is_complex: bool) -> Any:
    for attribute in ("adjoint", "H"):
        found = getattr(a, attribute, None)
        if found is not None:
            return found() if callable(found) and attribute == "adjoint" else found
    transposed = getattr(a, "T", None)
    if transposed is None:
        raise TypeError(f"{name} must have an adjoint, got {type(a).__name__} without adjoint(), H or T")
    return transposed.conj() if is_complex else transposed
