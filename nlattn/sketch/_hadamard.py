"""The Walsh-Hadamard transform, and the subsampled randomized one."""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import floating
from nlattn.arrays.random import generator, moved
from nlattn.kernels.fwht import fwht
from nlattn.sketch._base import Sketch, check_axis, check_sizes, complexly

__all__ = ["hadamard_transform", "srht_sketch"]


def srht_sketch(m: int, n: int, *, rng: Any = None) -> Sketch:
    """Rows of a Walsh-Hadamard matrix, drawn without replacement, times random signs.

    Parameters
    ----------
    m : int
        Rows, from 1 to N, the least power of two that is at least n.
    n : int
        Columns: the length that is sketched, padded with zeros to N.
    rng : None, int, SeedSequence or Generator, default None

    Returns
    -------
    Sketch
        m^(-1/2) P H D. Applying it to n x c costs N log2(N) c additions.

    Notes
    -----
    Source: Tropp, arXiv 1011.1595. m = N gives an isometry.
    Bounds: ``srht_embedding``, ``srht_variance``, ``sketched_product``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> S = nlattn.sketch.srht_sketch(8, 8, rng=0).matrix(np.zeros(1))
    >>> np.allclose(S.T @ S, np.eye(8))
    True
    """
    m, n = check_sizes(m, n)
    padded = 1 << max(n - 1, 0).bit_length()
    if m > padded:
        raise ValueError(f"m must be at most {padded}, the least power of two that is at least n = {n}, got {m}")
    rng = generator(rng)
    signs = (2.0 * rng.integers(0, 2, n) - 1.0) / np.sqrt(m)
    return _SRHT(padded, rng.choice(padded, m, replace=False), signs)


def hadamard_transform(A: Any, axis: int = -1, *, check_finite: bool = True) -> Any:
    """The Walsh-Hadamard transform along an axis, in natural (Sylvester) order, not scaled.

    Parameters
    ----------
    A : array, shape (..., n, ...)
        Real or complex; n is a power of two.
    axis : int, default -1
        The axis of length n.
    check_finite : bool, default True
        Refuse NaN and inf.

    Returns
    -------
    array, shape of A
        ``scipy.linalg.hadamard(n)`` times the vectors along the axis, in O(n log n) each. Applied twice it multiplies
        by n.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> nlattn.sketch.hadamard_transform(np.asarray([1.0, 0.0, 0.0, 2.0]))
    array([ 3., -1., -1.,  3.])
    """
    A = floating("A", A, allow_complex=True, check_finite=check_finite)
    xp = array_namespace(A)
    axis = check_axis(axis, A.ndim)
    n = A.shape[axis]
    if n == 0 or n & (n - 1):
        raise ValueError(f"A must have a power of two as its length along axis {axis}, got {n}; pad it with zeros")
    if 0 in A.shape:
        return xp.zeros_like(A)
    x = xp.reshape(A, (math.prod(A.shape[:axis]), n, math.prod(A.shape[axis + 1 :])))
    return xp.reshape(complexly(xp, lambda part: fwht(part, axis=1), x, axis=0), A.shape)


class _SRHT(Sketch):
    kind = "srht"

    def __init__(self, padded: int, rows: Any, signs: Any) -> None:
        self.shape = (rows.size, signs.size)
        self._padded = padded
        self._rows = rows
        self._signs = signs

    def _dense(self) -> Any:
        odd = np.bitwise_count(self._rows[:, None] & np.arange(self.shape[1])) & 1
        return (1.0 - 2.0 * odd) * self._signs

    def _forward(self, xp: Any, x: Any) -> Any:
        return self._transformed(xp, x * moved(self._signs, x, x.dtype)[:, None])

    def _last(self, xp: Any, x: Any) -> Any:
        return self._transformed(xp, x * moved(self._signs, x, x.dtype))

    def _transformed(self, xp: Any, x: Any) -> Any:
        """Axis 1 padded, transformed and sampled."""
        missing = self._padded - x.shape[1]
        if missing:
            shape = (x.shape[0], missing, *x.shape[2:])
            x = xp.concat([x, xp.zeros(shape, dtype=x.dtype, device=x.device)], axis=1)
        return xp.take(fwht(x, axis=1), moved(self._rows, x), axis=1)

    def _backward(self, xp: Any, y: Any) -> Any:
        m, n = self.shape
        # Where no row of y belongs, a row of zeros behind its last is taken.
        place = np.full(self._padded, m)
        place[self._rows] = np.arange(m)
        y = xp.concat([y, xp.zeros_like(y[:, :1, :])], axis=1)
        x = fwht(xp.take(y, moved(place, y), axis=1), axis=1)[:, :n, :]
        return x * moved(self._signs, y, y.dtype)[:, None]
