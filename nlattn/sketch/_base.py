"""A random linear map as one object, however it is drawn."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, SupportsIndex

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer, floating
from nlattn.arrays.boundary import carrier, on_numpy
from nlattn.arrays.random import moved
from nlattn.arrays.typing import Array, Namespace

__all__ = ["Sketch", "SketchKind", "check_axis", "check_sizes", "complexly"]

#: What `sketch_operator` makes.
SketchKind = Literal["gaussian", "sparse_sign", "count", "balanced_count", "srht"]


class Sketch(ABC):
    """A random linear map S from length n to length m with E[S^T S] = I.

    Made by `gaussian_sketch`, `sparse_sign_sketch`, `count_sketch`, `srht_sketch` or `sketch_operator`. It holds its
    draws on the host, so that one object serves arrays of every library, dtype and device; equal seeds give equal
    maps. On one backend its results do not depend on NLATTN_NUM_THREADS, to the last bit; those of a Gaussian sketch
    are as reproducible as the matrix product of the library.

    Attributes
    ----------
    kind : str
        As `sketch_operator` takes it.
    shape : tuple of int
        (m, n).
    T : Sketch
        The transpose, of shape (n, m).

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> S = nlattn.sketch.count_sketch(3, 8, rng=0)
    >>> A = np.arange(16.0).reshape(8, 2)
    >>> np.array_equal(S @ A, S.matrix(A) @ A), np.array_equal(S.T @ (S @ A), S.matrix(A).T @ (S @ A))
    (True, True)
    >>> S.apply(A.T, axis=1).shape
    (2, 3)
    """

    kind: SketchKind
    shape: tuple[int, int]

    @on_numpy
    def apply(self, A: Array, axis: int = 0, *, check_finite: bool = True) -> Array:
        """Sketch one axis of an array.

        Parameters
        ----------
        A : array, shape (..., n, ...)
            Real or complex; NumPy, CuPy, PyTorch or array-api-strict. Integers are taken as float64, float16 and
            bfloat16 as float32.
        axis : int, default 0
            The axis of length n; the others are left alone.
        check_finite : bool, default True
            Refuse NaN and inf.

        Returns
        -------
        array, shape (..., m, ...)
            In the library and on the device of `A`.
        """
        A = floating("A", A, allow_complex=True, check_finite=check_finite)
        xp = array_namespace(A)
        m, n = self.shape
        axis = check_axis(axis, A.ndim)
        if A.shape[axis] != n:
            raise ValueError(
                f"axis {axis} of A must have the length {n} that {self!r} takes, got shape {tuple(A.shape)}; "
                "pass another axis, or draw a sketch of that length"
            )
        before, after = A.shape[:axis], A.shape[axis + 1 :]
        if 0 in A.shape:
            return xp.zeros((*before, m, *after), dtype=A.dtype, device=A.device)
        if math.prod(after) > 1:
            x = xp.reshape(A, (math.prod(before), n, math.prod(after)))
            y = complexly(xp, lambda part: self._forward(xp, part), x, axis=2)
        else:
            x = xp.reshape(A, (math.prod(before), n))
            y = complexly(xp, lambda part: self._last(xp, part), x, axis=0)
        return xp.reshape(y, (*before, m, *after))

    def __matmul__(self, A: Array) -> Array:
        """``S @ A`` sketches a vector, or a matrix (or each of several) from the left."""
        return self.apply(A, axis=0 if getattr(A, "ndim", 1) == 1 else -2)

    #: Makes NumPy refuse ``array @ sketch`` instead of treating the sketch as an array of objects.
    __array_ufunc__ = None

    @property
    def T(self) -> "Sketch":
        """The transpose."""
        return _Transpose(self)

    @on_numpy
    def matrix(self, like: Array) -> Array:
        """The map as a dense array, shape (m, n), in the library, dtype and device of `like`.

        Integers and narrow floats count as in `apply`.
        """
        like = floating("like", like, allow_complex=True, check_finite=False)
        return moved(self._dense(), like, like.dtype)

    def __repr__(self) -> str:
        return f"Sketch({self.kind!r}, shape={self.shape})"

    @abstractmethod
    def _dense(self) -> Array:
        """The matrix on the host, in float64."""

    def _forward(self, xp: Namespace, x: Array) -> Array:
        """S applied to the middle axis of real x (b, n, c), not empty."""
        return moved(self._dense(), x, x.dtype) @ x

    def _backward(self, xp: Namespace, y: Array) -> Array:
        """S^T applied to the middle axis of real y (b, m, c), not empty."""
        return xp.matrix_transpose(moved(self._dense(), y, y.dtype)) @ y

    def _last(self, xp: Namespace, x: Array) -> Array:
        """S applied to the last axis of real x (b, n), not empty: by default as to one matrix of b columns."""
        return xp.matrix_transpose(self._forward(xp, xp.matrix_transpose(x)[None, ...])[0, ...])


@carrier()
class _Transpose(Sketch):
    """S^T, which shares the draws of S."""

    def __init__(self, of: Sketch) -> None:
        self._of = of
        self.kind = of.kind
        self.shape = of.shape[::-1]

    @property
    def T(self) -> Sketch:
        return self._of

    def __repr__(self) -> str:
        return f"{self._of!r}.T"

    def _dense(self) -> Array:
        return self._of._dense().T

    def _forward(self, xp: Namespace, x: Array) -> Array:
        return self._of._backward(xp, x)

    def _backward(self, xp: Namespace, y: Array) -> Array:
        return self._of._forward(xp, y)


def check_sizes(m: SupportsIndex, n: SupportsIndex) -> tuple[int, int]:
    """The two sizes of a sketch; n may be 0."""
    return check_integer("m", m), check_integer("n", n, least=0)


def complexly(xp: Namespace, real_map: Callable[[Array], Array], x: Array, axis: int) -> Array:
    """A real linear map of a real or complex array; real and imaginary part go through it side by side along `axis`."""
    if not xp.isdtype(x.dtype, "complex floating"):
        return real_map(x)
    y = xp.astype(real_map(xp.concat([xp.real(x), xp.imag(x)], axis=axis)), x.dtype)
    half = x.shape[axis]
    real, imag = (y[:half, ...], y[half:, ...]) if axis == 0 else (y[..., :half], y[..., half:])
    return real + 1j * imag


def check_axis(axis: SupportsIndex, ndim: int) -> int:
    """An axis of A, counted from the front."""
    if ndim == 0:
        raise ValueError("A must have at least one axis, got a number")
    return check_integer("axis", axis, least=-ndim, most=ndim - 1, why="the last axis of A") % ndim
