"""Sketches with few nonzeros in a column: CountSketch, plain and balanced, and the sparse sign embedding."""

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.arrays.boundary import carrier
from nlattn.arrays.random import generator, moved, random_signs
from nlattn.arrays.typing import Array, Namespace, RngLike
from nlattn.dispatch import backend_name
from nlattn.kernels.segment_sum import segment_sum
from nlattn.sketch._base import Sketch, SketchKind, check_sizes

__all__ = ["Sparse", "count_sketch", "sparse_sign_sketch"]

# On the generic backend, rows for each nonzero of a column up to which a dense product was faster than gathering
# (PyTorch, CPU).
DENSE = 256

# Numbers that the dense matrix may hold: 128 MiB in float64.
LARGEST = 1 << 24


def count_sketch(m: int, n: int, *, balanced: bool = False, rng: RngLike = None) -> Sketch:
    """One random sign in a random row of each column.

    Parameters
    ----------
    m : int
        Rows, at least 1.
    n : int
        Columns: the length that is sketched.
    balanced : bool, default False
        Deal the columns out to the rows like cards, in random order, instead of letting each choose: no row gets more
        than ceil(n / m) columns, and the variance is smaller by the factor (N - m) / (N - 1), N = m ceil(n / m).
    rng : None, int, SeedSequence or Generator, default None

    Returns
    -------
    Sketch
        Applying it to n x c costs n c additions.

    Notes
    -----
    Source: Charikar, Chen and Farach-Colton, DOI 10.1016/S0304-3975(03)00400-6; arXiv 1207.6365. Two columns in one
    row are lost to each other: for k coordinate vectors that happens with probability about k^2 / (2 m), so m must be
    of order k^2 where `sparse_sign_sketch` needs order k.
    Bounds: ``count_sketch_embedding``, ``count_sketch_variance``, ``balanced_count_sketch_variance``,
    ``sketched_product``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> S = nlattn.sketch.count_sketch(2, 6, balanced=True, rng=0)
    >>> np.abs(S.matrix(np.zeros(1))).sum(axis=1)
    array([3., 3.])
    """
    m, n = check_sizes(m, n)
    rng = generator(rng)
    if balanced:
        rows = rng.permutation(m * -(-n // m))[:n] % m
    else:
        rows = rng.integers(0, m, n)
    return Sparse("balanced_count" if balanced else "count", m, rows[:, None], random_signs(rng, (n, 1)))


def sparse_sign_sketch(m: int, n: int, nonzeros: int | None = None, *, rng: RngLike = None) -> Sketch:
    """Random signs, scaled by nonzeros^(-1/2), in `nonzeros` distinct random rows of each column.

    Parameters
    ----------
    m : int
        Rows, at least 1.
    n : int
        Columns: the length that is sketched.
    nonzeros : int, default min(8, m)
        At most m.
    rng : None, int, SeedSequence or Generator, default None

    Returns
    -------
    Sketch
        Applying it to n x c costs `nonzeros` n c additions.

    Notes
    -----
    Source: Kane and Nelson, arXiv 1012.1577; arXiv 1211.1002. The variance of an inner product is that of a
    CountSketch whatever `nonzeros` is; what more of them improve is the tail.
    Bounds: ``sparse_sign_variance``, ``sketched_product``.

    Examples
    --------
    >>> import numpy as np, nlattn.sketch
    >>> S = nlattn.sketch.sparse_sign_sketch(16, 5, 4, rng=0)
    >>> np.sum(S.matrix(np.zeros(1)) ** 2, axis=0)
    array([1., 1., 1., 1., 1.])
    """
    m, n = check_sizes(m, n)
    if nonzeros is None:
        nonzeros = min(8, m)
    nonzeros = check_integer("nonzeros", nonzeros, most=m, why="the number of rows, m")
    rng = generator(rng)
    rows = np.empty((n, nonzeros), np.int64)
    # Floyd's sampling without replacement, for all columns at once.
    for k in range(nonzeros):
        last = m - nonzeros + k
        row = rng.integers(0, last + 1, n)
        rows[:, k] = np.where(np.any(rows[:, :k] == row[:, None], axis=1), last, row)
    return Sparse("sparse_sign", m, rows, random_signs(rng, (n, nonzeros)) / np.sqrt(nonzeros))


@carrier()
class Sparse(Sketch):
    """Column i holds weights[i, k] in row rows[i, k], the rows of a column distinct."""

    def __init__(self, kind: SketchKind, m: int, rows: Array, weights: Array) -> None:
        self.kind = kind
        self.shape = (m, rows.shape[0])
        self._rows = rows
        self._weights = weights

    def _dense(self) -> Array:
        dense = np.zeros(self.shape)
        dense[self._rows, np.arange(self.shape[1])[:, None]] = self._weights
        return dense

    def _forward(self, xp: Namespace, x: Array) -> Array:
        if self._dense_is_faster(x):
            return super()._forward(xp, x)
        return segment_sum(x, moved(self._rows, x), self.shape[0], moved(self._weights, x, x.dtype))

    def _last(self, xp: Namespace, x: Array) -> Array:
        if self._dense_is_faster(x):
            return x @ xp.matrix_transpose(moved(self._dense(), x, x.dtype))
        return super()._last(xp, x) if _generic(x) else self._forward(xp, x[:, :, None])[:, :, 0]

    def _dense_is_faster(self, x: Array) -> bool:
        m, n = self.shape
        return _generic(x) and m <= DENSE * self._rows.shape[1] and m * n <= LARGEST

    def _backward(self, xp: Namespace, y: Array) -> Array:
        total = xp.zeros((y.shape[0], self.shape[1], y.shape[2]), dtype=y.dtype, device=y.device)
        for rows, weights in zip(self._rows.T, self._weights.T, strict=True):
            total = total + moved(weights, y, y.dtype)[:, None] * xp.take(y, moved(rows, y), axis=1)
        return total


def _generic(x: Array) -> bool:
    return backend_name(type(x)) == "generic"
