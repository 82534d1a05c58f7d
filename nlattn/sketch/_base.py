"""A random linear map as one object, whichever way it is drawn."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer, floating
from nlattn.arrays.random import moved

__all__ = ["Sketch", "check_axis", "check_sizes", "complexly"]


class Sketch(ABC):
    """A random linear map S from length n to length m with E[S^T S] = I.

    Made by `gaussian_sketch`, `sparse_sign_sketch`, `count_sketch`, `srht_sketch` or `sketch_operator`. It holds its
    draws on the host, so that one object serves arrays of every library, dtype and device; equal seeds give equal
    maps. On one backend its results do not depend on NLATTN_NUM_THREADS, to the last bit; those of a Gaussian sketch
    repeat as far as the library's matrix product does.

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

    kind: str
    shape: tuple[int, int]

    def apply(self, A: Any, axis: int = 0, *, check_finite: bool = True) -> Any:
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

    def __matmul__(self, A: Any) -> Any:
        """``S @ A`` sketches a vector, or a matrix (or each of several) from the left."""
        return self.apply(A, axis=0 if getattr(A, "ndim", 1) == 1 else -2)

    #: Keeps NumPy from taking a sketch on the right of an operator for an array of objects.
    __array_ufunc__ = None

    @property
    def T(self) -> "Sketch":
        """The transpose."""
        return _Transpose(self)

    def matrix(self, like: Any) -> Any:
        """The map as a dense array, shape (m, n), in the library, dtype and device of `like`.

        Integers and narrow floats count as in `apply`.
        """
        like = floating("like", like, allow_complex=True, check_finite=False)
        return moved(self._dense(), like, like.dtype)

    def __repr__(self) -> str:
        return f"Sketch({self.kind!r}, shape={self.shape})"

    @abstractmethod
    def _dense(self) -> Any:
        """The matrix on the host, in float64."""

    def _forward(self, xp: Any, x: Any) -> Any:
        """S applied to the middle axis of real x (b, n, c), not empty."""
        return moved(self._dense(), x, x.dtype) @ x

    def _backward(self, xp: Any, y: Any) -> Any:
        """S^T applied to the middle axis of real y (b, m, c), not empty."""
        return xp.matrix_transpose(moved(self._dense(), y, y.dtype)) @ y

    def _last(self, xp: Any, x: Any) -> Any:
        """S applied to the last axis of real x (b, n), not empty: by default as to one matrix of b columns."""
        return xp.matrix_transpose(self._forward(xp, xp.matrix_transpose(x)[None, ...])[0, ...])


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

    def _dense(self) -> Any:
        return self._of._dense().T

    def _forward(self, xp: Any, x: Any) -> Any:
        return self._of._backward(xp, x)

    def _backward(self, xp: Any, y: Any) -> Any:
        return self._of._forward(xp, y)


def check_sizes(m: Any, n: Any) -> tuple[int, int]:
    """The two sizes of a sketch; n may be 0."""
    return check_integer("m", m), check_integer("n", n, least=0)


def complexly(xp: Any, real_map: Callable[[Any], Any], x: Any, axis: int) -> Any:
    """A real linear map of a real or complex array; real and imaginary part go through it side by side along `axis`."""
    if not xp.isdtype(x.dtype, "complex floating"):
        return real_map(x)
    y = xp.astype(real_map(xp.concat([xp.real(x), xp.imag(x)], axis=axis)), x.dtype)
    half = x.shape[axis]
    real, imag = (y[:half, ...], y[half:, ...]) if axis == 0 else (y[..., :half], y[..., half:])
    return real + 1j * imag


def check_axis(axis: Any, ndim: int) -> int:
    """An axis of A, counted from the front."""
    if ndim == 0:
        raise ValueError("A must have at least one axis, got a number")
    return int(check_integer("axis", axis, least=-ndim, most=ndim - 1, why="the last axis of A") % ndim)
