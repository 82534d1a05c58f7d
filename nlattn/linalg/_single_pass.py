"""Low-rank approximation of a matrix whose rows are seen once."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer, matrix
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.namespaces import is_array, namespace
from nlattn.arrays.random import generator, standard_normal
from nlattn.arrays.typing import Array, RngLike
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._magnitudes import scaled, squared_norm
from nlattn.linalg._operators import adjoint
from nlattn.linalg._orthonormal import extend
from nlattn.linalg._svd import SVD, fix_signs, svd_from_range

__all__ = ["single_pass_factors", "single_pass_svd"]

# Random combinations of the rows that are kept for the estimate of the error.
PROBES = 10


@on_numpy
def single_pass_svd(rows: Array | Iterable[Array], rank: int, *, rng: RngLike = None, check_finite: bool = True) -> SVD:
    """Leading singular triplets of a matrix whose rows arrive in blocks and are not kept.

    Parameters
    ----------
    rows : array, shape (m, n), or iterable of arrays, shape (m_i, n)
        Real or complex; each block is looked at once.
    rank : int
        At most n. With fewer rows than that, the missing singular values are not returned.
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    SVD
        ``U``, ``S``, ``Vh`` and ``error``, the relative error in the Frobenius norm, an estimate from 10 random
        combinations of the rows.

    Notes
    -----
    ``Q (Psi Q)^+ (Psi a)`` with Q an orthonormal basis of ``a Omega`` and Gaussian Omega, Psi of ``k = 2 rank + 1``
    columns and ``2 k + 1`` rows (arXiv 1609.00048, algorithm 4), by QR least squares, cut to `rank`. Before that, the
    expected squared error is at most 4 times that of the best rank: ``single_pass_error`` in ``nlattn.bounds``.
    Memory: O(m rank + n rank).

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import single_pass_svd
    >>> blocks = (np.full((2, 3), float(i)) for i in range(4))
    >>> single_pass_svd(blocks, 1, rng=0).S.round(6)
    array([9.165151])
    """
    rank = check_integer("rank", rank, least=0)
    found = single_pass_factors(rows, rank, generator(rng), check_finite)
    u, s, v = svd_from_range(found.q, adjoint(found.x))
    keep = min(rank, s.shape[0])
    u, s, v = u[:, :keep], s[:keep], v[:, :keep]
    rest = found.probed - ((found.probes @ u) * s[None, :]) @ adjoint(v)
    error = (to_float(squared_norm(rest)) / (PROBES * found.squared)) ** 0.5 if found.squared > 0 else 0.0
    return fix_signs(SVD(u, s * found.scale, adjoint(v), error))


class Factors(NamedTuple):
    """``a ~ scale q x``, before the cut to the wanted rank.

    Attributes
    ----------
    q, x : array, shapes (m, k), (k, n)
    probes, probed : array, shapes (p, m), (p, n)
        Random combinations that had no part in q and x, and ``probes @ a / scale``.
    squared : float
        ``||a / scale||^2`` in the Frobenius norm.
    scale : float
        A power of 2.
    """

    q: Array
    x: Array
    probes: Array
    probed: Array
    squared: float
    scale: float


def single_pass_factors(
    rows: Array | Iterable[Array], rank: int, random: np.random.Generator, check_finite: bool = True
) -> Factors:
    """The factors of a matrix whose rows, an array or blocks of it, are looked at once."""
    sketches = _Sketches(rank, random, check_finite)
    blocks = (rows,) if is_array(rows) else rows
    if not isinstance(blocks, Iterable):
        raise TypeError(f"rows must be an array or an iterable of blocks of rows, got {type(rows).__name__}")
    for block in blocks:
        sketches.add(block)
    if not sketches.ys:
        raise ValueError("rows must hold at least one block, got an empty iterable")
    xp = array_namespace(sketches.w)
    psi, w = xp.concat(sketches.psis, axis=1), sketches.w
    q = extend(None, xp.concat(sketches.ys, axis=0))
    left, triangle = xp.linalg.qr(psi[:-PROBES, :] @ q, mode="reduced")
    x = solve_triangular(triangle, adjoint(left) @ w[:-PROBES, :], lower=False)
    return Factors(q, x, psi[-PROBES:, :], w[-PROBES:, :], sketches.squared, sketches.scale or 1.0)


class _Sketches:
    """What is kept of the rows seen so far, a: ``a Omega`` and Psi in blocks, ``w = Psi a``, ``||a||^2``; and a scale.

    All are those of a / scale, where scale, 0 until a block is not zero, is a power of 2.
    """

    def __init__(self, rank: int, random: np.random.Generator, check_finite: bool) -> None:
        self.rank, self.random, self.check_finite = rank, random, check_finite
        self.ys: list[Array] = []
        self.psis: list[Array] = []
        self.omega: Array
        self.w: Array
        self.squared = self.scale = 0.0

    def add(self, block: Array) -> None:
        """Take in a block of rows."""
        block = matrix("rows", block, allow_complex=True, check_finite=self.check_finite)
        if not self.ys:
            n = block.shape[1]
            check_integer("rank", self.rank, least=0, most=n, why="the number of columns")
            self.omega = standard_normal(self.random, (n, min(2 * self.rank + 1, n)), block)
        elif block.shape[1] != self.omega.shape[0] or block.dtype != self.omega.dtype:
            first = f"{self.omega.shape[0]} of {self.omega.dtype}"
            raise ValueError(
                f"rows must be blocks of one width and dtype, got {first} and {block.shape[1]} of {block.dtype}"
            )
        namespace(rows=block, first=self.omega)
        if self.scale == 0:
            _, norm, found = scaled(block)
            self.scale = found if norm > 0 else 0.0
        block = block if self.scale in (0.0, 1.0) else block / self.scale
        columns = 2 * self.omega.shape[1] + 1 + PROBES
        psi = standard_normal(self.random, (block.shape[0], columns), block)
        psi = array_namespace(psi).matrix_transpose(psi)
        part = psi @ block
        self.w = self.w + part if self.ys else part
        self.ys.append(block @ self.omega)
        self.psis.append(psi)
        self.squared += to_float(squared_norm(block))
