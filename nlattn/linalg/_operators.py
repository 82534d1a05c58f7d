"""Matrices and other linear maps behind one interface."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import matrix
from nlattn.arrays.namespaces import is_array
from nlattn.arrays.typing import Array, DType, Namespace
from nlattn.linalg._magnitudes import scaled

__all__ = ["LinearMap", "Operator", "adjoint", "operator"]


class LinearMap(Protocol):
    """What multiplies like a matrix: arrays, SciPy's LinearOperator and sparse arrays, KernelMatrix, one's own class.

    Where the adjoint is needed, it also has ``adjoint()``, ``H``, or for real ones ``T``.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __matmul__(self, x: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Operator:
    """A matrix of known shape that can be multiplied, and whose adjoint can be.

    Attributes
    ----------
    shape : tuple of int
    like : array
        Its library, dtype and device are those of products.
    array : array or None
        The entries, where there are any.
    scale : float
        What has been divided out: a power of 2, other than 1 only where squares of entries leave the floating range.
    given : object
        What multiplies.
    name : str
        The name of the argument, for messages.
    turned : bool
        Whether this is the adjoint of what was given.
    """

    shape: tuple[int, int]
    like: Array
    array: Array | None
    scale: float
    given: LinearMap
    name: str
    turned: bool = False

    @property
    def xp(self) -> Namespace:
        return array_namespace(self.like)

    @property
    def dtype(self) -> DType:
        return self.like.dtype

    @property
    def adjoint(self) -> "Operator":
        array = None if self.array is None else adjoint(self.array)
        return Operator(self.shape[::-1], self.like, array, self.scale, self.given, self.name, not self.turned)

    def __matmul__(self, x: Array) -> Array:
        if self.array is not None:
            return self.array @ x
        factor = _adjoint_of(self.name, self.given, self.complex) if self.turned else self.given
        try:
            product = factor @ x
        except TypeError as error:  # as SciPy's LinearOperator without rmatvec raises it
            side = "adjoint" if self.turned else "matrix"
            raise TypeError(f"the {side} of {self.name} cannot be multiplied by {type(x).__name__}: {error}") from error
        if not self.complex and self.xp.isdtype(product.dtype, "complex floating"):
            raise TypeError(f"{self.name} must declare a complex dtype, since its products are complex; set its dtype")
        return self.xp.astype(product, self.dtype, copy=False)

    @property
    def complex(self) -> bool:
        return bool(self.xp.isdtype(self.dtype, "complex floating"))

    def zeros(self, *shape: int) -> Array:
        """Zeros in the library, dtype and device of products."""
        return self.xp.zeros(shape, dtype=self.dtype, device=self.like.device)


def operator(name: str, a: LinearMap, *, allow_complex: bool = True, check_finite: bool = True) -> Operator:
    """`a` as an Operator: an array of two axes, or an object with `shape`, `@` and, where it is needed, an adjoint.

    Objects work on NumPy arrays, unless they have an array `like` that says otherwise.
    """
    if is_array(a):
        entries, _, scale = scaled(matrix(name, a, allow_complex=allow_complex, check_finite=check_finite))
        return Operator((entries.shape[0], entries.shape[1]), entries, entries, scale, entries, name)
    shape = getattr(a, "shape", None)
    if not hasattr(a, "__matmul__") or not isinstance(shape, tuple) or len(shape) != 2:
        raise TypeError(
            f"{name} must be a matrix, or have a shape (m, n), @ and an adjoint, got {type(a).__name__}; "
            "convert it with numpy.asarray, or wrap it in scipy.sparse.linalg.LinearOperator"
        )
    m, n = map(int, shape)
    like = getattr(a, "like", None)
    if like is None or not is_array(like):
        like = np.empty(0, _dtype_of(name, a, n))
    op = Operator((m, n), like, None, 1.0, a, name)
    if op.complex and not allow_complex:
        raise TypeError(f"{name} must be real, got {op.dtype}")
    return op


def adjoint(a: Array) -> Array:
    """The conjugate transpose of an array."""
    xp = array_namespace(a)
    transposed = xp.matrix_transpose(a)
    return xp.conj(transposed) if xp.isdtype(a.dtype, "complex floating") else transposed


def _dtype_of(name: str, a: LinearMap, n: int) -> DType:
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


def _adjoint_of(name: str, a: LinearMap, is_complex: bool) -> LinearMap:
    for attribute in ("adjoint", "H"):
        found = getattr(a, attribute, None)
        if found is not None:
            return found() if attribute == "adjoint" else found
    transposed = getattr(a, "T", None)
    if transposed is None:
        raise TypeError(f"{name} must have an adjoint, got {type(a).__name__} without adjoint(), H or T")
    return transposed.conj() if is_complex else transposed
