"""Low-rank approximation of a matrix whose rows are seen once."""

from collections.abc import Iterable
from typing import Any

import array_api_compat
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_integer, matrix
from nlattn.arrays.host import to_float
from nlattn.arrays.namespaces import namespace
from nlattn.arrays.random import generator, standard_normal
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._magnitudes import scaled, squared_norm
from nlattn.linalg._operators import adjoint
from nlattn.linalg._orthonormal import extend
from nlattn.linalg._svd import SVD, fix_signs, svd_from_range

__all__ = ["single_pass_factors", "single_pass_svd"]

# Random combinations of the rows that are kept for the estimate of the error.
PROBES = 10


def single_pass_svd(rows: Any, rank: int, *, rng: Any = None, check_finite: bool = True) -> SVD:
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
    q, x, (psi, w), squared, scale = single_pass_factors(rows, rank, generator(rng), check_finite)
    u, s, v = svd_from_range(q, adjoint(x))
    keep = min(rank, s.shape[0])
    u, s, v = u[:, :keep], s[:keep], v[:, :keep]
    rest = w - ((psi @ u) * s[None, :]) @ adjoint(v)
    error = (to_float(squared_norm(rest)) / (PROBES * squared)) ** 0.5 if squared > 0 else 0.0
    return fix_signs(SVD(u, s * scale, adjoint(v), error))


def single_pass_factors(
    rows: Any, rank: int, random: Any, check_finite: bool = True
) -> tuple[Any, Any, Any, float, float]:
    """Q and X of ``a ~ Q X`` before the cut; a further Psi and ``Psi a``; ``||a||^2``; all for a / scale; scale."""
    y, w, psi, squared, scale = _sketches(rows, rank, random, check_finite)
    q = extend(None, y)
    xp = array_namespace(q)
    left, triangle = xp.linalg.qr(psi[:-PROBES, :] @ q, mode="reduced")
    x = solve_triangular(triangle, adjoint(left) @ w[:-PROBES, :], lower=False)
    return q, x, (psi[-PROBES:, :], w[-PROBES:, :]), squared, scale


def _sketches(rows: Any, rank: int, random: Any, check_finite: bool) -> tuple[Any, Any, Any, float, float]:
    """``a Omega``, ``Psi a``, Psi, and the squared Frobenius norm of a, all for a / scale; and the scale."""
    blocks: Any = (rows,) if array_api_compat.is_array_api_obj(rows) else rows
    if not isinstance(blocks, Iterable):
        raise TypeError(f"rows must be an array or an iterable of blocks of rows, got {type(rows).__name__}")
    omega: Any = None
    ys, psis, w, squared, scale = [], [], None, 0.0, 0.0
    for block in blocks:
        block = matrix("rows", block, allow_complex=True, check_finite=check_finite)
        if omega is None:
            n = block.shape[1]
            check_integer("rank", rank, least=0, most=n, why="the number of columns")
            k = min(2 * rank + 1, n)
            omega = standard_normal(random, (n, k), block)
        elif block.shape[1] != n or block.dtype != omega.dtype:
            first = f"{n} of {omega.dtype}"
            raise ValueError(
                f"rows must be blocks of one width and dtype, got {first} and {block.shape[1]} of {block.dtype}"
            )
        namespace(rows=block, first=omega)
        if scale == 0:  # that of the first block that is not zero
            _, norm, found = scaled(block)
            scale = found if norm > 0 else 0.0
        block = block if scale in (0.0, 1.0) else block / scale
        psi = standard_normal(random, (block.shape[0], 2 * k + 1 + PROBES), block)
        psi = array_namespace(psi).matrix_transpose(psi)
        part = psi @ block
        w = part if w is None else w + part
        ys.append(block @ omega)
        psis.append(psi)
        squared += to_float(squared_norm(block))
    if omega is None:
        raise ValueError("rows must hold at least one block, got an empty iterable")
    xp = array_namespace(w)
    return xp.concat(ys, axis=0), w, xp.concat(psis, axis=1), squared, scale or 1.0
