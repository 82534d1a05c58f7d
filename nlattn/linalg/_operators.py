"""Matrices, and what acts like one, seen alike."""

from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import matrix
from nlattn.linalg._magnitudes import scaled

__all__ = ["Operator", "adjoint", "operator"]


@dataclass(frozen=True, slots=True)
class Operator:
    """A matrix of known shape that can be multiplied, and whose adjoint can be.

    Attributes
    ----------
    shape : tuple of int
    like : array
        Of the library, dtype and device of products.
    array : array or None
        The entries, where there are any.
    scale : float
        What has been divided out: a power of 2, other than 1 only where squares of entries leave the floating range.
    given : object
        What multiplies.
    name : str
        Of the argument.
    turned : bool
        Whether this is the adjoint of what was given.
    """

    shape: tuple[int, int]
    like: Any
    array: Any
    scale: float
    given: Any
    name: str
    turned: bool = False

    @property
    def xp(self) -> Any:
        return array_namespace(self.like)

    @property
    def dtype(self) -> Any:
        return self.like.dtype

    @property
    def adjoint(self) -> "Operator":
        array = None if self.array is None else adjoint(self.array)
        return Operator(self.shape[::-1], self.like, array, self.scale, self.given, self.name, not self.turned)

    def __matmul__(self, x: Any) -> Any:
        if self.array is not None:
            return self.array @ x
        factor = _adjoint_of(self.name, self.given, self.complex) if self.turned else self.given
        try:
            product = factor @ x
        except TypeError as error:  # such as SciPy's LinearOperator without rmatvec
            side = "adjoint" if self.turned else "matrix"
            raise TypeError(f"the {side} of {self.name} cannot be multiplied by {type(x).__name__}: {error}") from error
        if not self.complex and self.xp.isdtype(product.dtype, "complex floating"):
            raise TypeError(f"{self.name} must declare a complex dtype, since its products are complex; set its dtype")
        return self.xp.astype(product, self.dtype, copy=False)

    @property
    def complex(self) -> bool:
        return bool(self.xp.isdtype(self.dtype, "complex floating"))


def operator(name: str, a: Any, *, allow_complex: bool = True, check_finite: bool = True) -> Operator:
    """`a` as an Operator: an array of two axes, or an object with `shape`, `@` and, where it is needed, an adjoint.

    Such are SciPy's LinearOperator and sparse arrays, and any with ``adjoint()``, ``H``, or for real ones ``T``. They
    work on NumPy arrays, unless they have an array `like` that says otherwise.
    """
    if array_api_compat.is_array_api_obj(a):
        a = matrix(name, a, allow_complex=allow_complex, check_finite=check_finite)
        a, _, scale = scaled(a)
        return Operator(tuple(a.shape), a, a, scale, a, name)
    shape = getattr(a, "shape", None)
    if not hasattr(a, "__matmul__") or not isinstance(shape, tuple) or len(shape) != 2:
        raise TypeError(
            f"{name} must be a matrix, or have a shape (m, n), @ and an adjoint, got {type(a).__name__}; "
            "convert it with numpy.asarray, or wrap it in scipy.sparse.linalg.LinearOperator"
        )
    m, n = map(int, shape)
    like = getattr(a, "like", None)
    if not array_api_compat.is_array_api_obj(like):
        like = np.empty(0, _dtype_of(name, a, n))
    op = Operator((m, n), like, None, 1.0, a, name)
    if op.complex and not allow_complex:
        raise TypeError(f"{name} must be real, got {op.dtype}")
    return op


def adjoint(a: Any) -> Any:
    """The conjugate transpose of an array."""
    xp = array_namespace(a)
    transposed = xp.matrix_transpose(a)
    return xp.conj(transposed) if xp.isdtype(a.dtype, "complex floating") else transposed


def _dtype_of(name: str, a: Any, n: int) -> Any:
    """The dtype of products, as declared or as a product shows it; integers count as float64."""
    declared = getattr(a, "dtype", None)
    if declared is None:
        declared = (a @ np.zeros((n, 1))).dtype
    try:
        dtype = np.dtype(declared)
    except TypeError:
        raise TypeError(f"{name} must work on NumPy arrays, got dtype {declared}; give it an array `like`") from None
    if dtype.kind not in "fc":
        return np.dtype(np.float64)
    if dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise TypeError(f"{name} must have at most 64 bits a number, got {dtype}; convert it to double precision")
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def _adjoint_of(name: str, a: Any, is_complex: bool) -> Any:
    for attribute in ("adjoint", "H"):
        found = getattr(a, attribute, None)
        if found is not None:
            return found() if attribute == "adjoint" else found
    transposed = getattr(a, "T", None)
    if transposed is None:
        raise TypeError(f"{name} must have an adjoint, got {type(a).__name__} without adjoint(), H or T")
    return transposed.conj() if is_complex else transposed
