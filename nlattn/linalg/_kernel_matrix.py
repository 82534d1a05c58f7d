"""Matrices of a kernel function on points, which are formed in parts."""

from collections.abc import Callable

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_number, floating, matrix
from nlattn.arrays.boundary import carrier, on_numpy
from nlattn.arrays.host import all_finite
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.typing import Array
from nlattn.kernels.gaussian_gram import gaussian_gram

__all__ = ["KernelMatrix", "gaussian_kernel"]

# Rows of a kernel matrix that are formed at once for a product.
BLOCK = 1024


@carrier("kernel", "points", "_diagonal")
class KernelMatrix:
    """The matrix ``kernel(points, points)``, of which only the parts that are asked for are formed.

    Parameters
    ----------
    kernel : callable
        ``kernel(x, y)`` takes points (m, d) and (n, d) and returns the matrix (m, n); positive semidefinite.
    points : array, shape (n, d)
    diagonal : array, shape (n,), optional
        ``kernel(x, x)`` for each point; computed point by point if left out.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import KernelMatrix, gaussian_kernel
    >>> K = KernelMatrix(gaussian_kernel(1.0), np.zeros((3, 2)))
    >>> (K @ np.ones((3, 1))).T
    array([[3., 3., 3.]])
    """

    def __init__(self, kernel: Callable[[Array, Array], Array], points: Array, diagonal: Array | None = None) -> None:
        if not callable(kernel):
            raise TypeError(f"kernel must be a function of two sets of points, got {type(kernel).__name__}")
        self.points = matrix("points", points)
        self.kernel = kernel
        if diagonal is not None and floating("diagonal", diagonal).shape != self.points.shape[:1]:
            raise ValueError(f"diagonal must have shape {tuple(self.points.shape[:1])}, got {tuple(diagonal.shape)}")
        self._diagonal = diagonal

    @property
    def shape(self) -> tuple[int, int]:
        n = self.points.shape[0]
        return n, n

    def diagonal(self) -> Array:
        """The diagonal, shape (n,)."""
        if self._diagonal is None:
            known = getattr(self.kernel, "diagonal", None)
            d = self._each() if known is None else known(self.points)
            xp = array_namespace(d)
            self._diagonal = xp.real(d) if xp.isdtype(d.dtype, "complex floating") else d
        return self._diagonal

    def columns(self, index: Array) -> Array:
        """The columns with the given numbers, shape (n, b)."""
        return self.kernel(self.points, self._take(index))

    def block(self, index: Array) -> Array:
        """The rows and columns with the given numbers, shape (b, b)."""
        few = self._take(index)
        return self.kernel(few, few)

    @on_numpy
    def __matmul__(self, x: Array) -> Array:
        """The product with x (n, s), in blocks of rows."""
        xp, n = array_namespace(self.points), self.shape[0]
        starts = range(0, n, BLOCK)
        parts = [self.kernel(self.points[i : min(i + BLOCK, n), :], self.points) @ x for i in starts]
        return xp.concat(parts, axis=0) if parts else xp.zeros((0, x.shape[1]), dtype=x.dtype, device=x.device)

    def adjoint(self) -> "KernelMatrix":
        """Itself."""
        return self

    @property
    def like(self) -> Array:
        """An array of the library, dtype and device of the entries."""
        first = self.points[:1, :]
        return self.kernel(first, first) if self.points.shape[0] else self.points

    def _take(self, index: Array) -> Array:
        return array_namespace(self.points).take(self.points, index, axis=0)

    def _each(self) -> Array:
        xp = array_namespace(self.points)
        n = self.shape[0]
        entries = [self.kernel(self.points[i : i + 1, :], self.points[i : i + 1, :])[0, :] for i in range(n)]
        return xp.concat(entries) if n else self.points[:, 0]


@carrier()
class gaussian_kernel:
    """``exp(-|x - y|^2 / (2 bandwidth^2))`` as a function of two sets of points.

    Squared distances are formed as ``|x|^2 + |y|^2 - 2 x y``, to an absolute accuracy of about eps times the largest
    squared norm: points far from the origin should be centred.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import gaussian_kernel
    >>> gaussian_kernel(2.0)(np.zeros((1, 1)), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    def __init__(self, bandwidth: float = 1.0) -> None:
        self.bandwidth = check_number("bandwidth", bandwidth, least=1e-30, most=1e30)

    @on_numpy(same_dtype=True)
    def __call__(self, x: Array, y: Array) -> Array:
        xp = namespace(x=x, y=y)
        if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
            raise ValueError(f"x and y must be points (m, d) and (n, d), got shapes {tuple(x.shape)}, {tuple(y.shape)}")
        factor = 0.5
        if 1e-9 < self.bandwidth < 1e9:
            factor /= self.bandwidth**2
        else:  # whose square may not be representable
            x, y = x / self.bandwidth, y / self.bandwidth
        gram = gaussian_gram(x, y, factor)
        if not all_finite(xp, gram):
            raise ValueError("x and y must be finite, with squares that are; centre the points, or scale them down")
        return gram

    def diagonal(self, points: Array) -> Array:
        """Ones."""
        xp = array_namespace(points)
        return xp.ones((points.shape[0],), dtype=points.dtype, device=points.device)
