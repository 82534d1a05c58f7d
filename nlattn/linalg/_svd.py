"""Randomised singular value decompositions."""

from typing import NamedTuple, get_args

import numpy as np
from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.random import generator, standard_normal
from nlattn.arrays.typing import Array, RngLike
from nlattn.linalg._operators import LinearMap, Operator, adjoint, operator
from nlattn.linalg._orthonormal import complete, orthonormal
from nlattn.linalg._ranges import RangeMethod, Search, checked_search, grow
from nlattn.linalg._residuals import Residual
from nlattn.linalg._warnings import warn_unconverged
from nlattn.sketch._factory import SketchKind

__all__ = ["SVD", "fix_signs", "randomized_svd", "svd_from_range"]


class SVD(NamedTuple):
    """A truncated singular value decomposition ``U @ diag(S) @ Vh``.

    Attributes
    ----------
    U : array, shape (m, r)
    S : array, shape (r,)
        Descending.
    Vh : array, shape (r, n)
    error : float
        Frobenius norm of what is left out, relative to that of the matrix: computed for arrays, to an absolute accuracy
        of about the square root of eps where it is large and of eps where it is small; for operators estimated from 10
        random products.
    """

    U: Array
    S: Array
    Vh: Array
    error: float


@on_numpy
def randomized_svd(
    a: Array | LinearMap,
    rank: int | None = None,
    *,
    rtol: float | None = None,
    oversampling: int = 10,
    power_iterations: int = 2,
    method: RangeMethod = "krylov",
    sketch: SketchKind = "gaussian",
    rng: RngLike = None,
    check_finite: bool = True,
) -> SVD:
    """Leading singular triplets, of a fixed number or as many as a tolerance needs.

    Parameters
    ----------
    a : array, shape (m, n), or operator
        Real or complex; an operator has ``shape``, ``@`` and an adjoint, as SciPy's LinearOperator and sparse arrays.
    rank : int, optional
        Number of triplets, at most min(m, n); with `rtol` their largest number.
    rtol : float, optional
        Wanted relative error in the Frobenius norm, at least 8 eps; what rounding leaves out of reach ends in a
        warning. The rank is then the least that the computed subspace allows. For operators the error is estimated,
        and may be larger by a fifth or so.
    oversampling : int, default 10
        Columns of a block beyond `rank`, as far as the matrix has them. Flat spectra need more.
    power_iterations : int, default 2
        Further products with ``a a^H``, two passes over `a` each.
    method : {"krylov", "power"}, default "krylov"
        "krylov" works in the span of all blocks (arXiv 1504.05477), "power" in that of the last (arXiv 0909.4061).
    sketch : {"gaussian", "sparse_sign", "srht", "count", "balanced_count"}, default "gaussian"
        The random block.
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    SVD
        ``U``, ``S``, ``Vh`` and the relative ``error``. Signs: the entry of largest modulus of a column of U and row of
        Vh together is positive, so that `a` and its transpose agree. Singular values of a matrix of lower rank are 0,
        with orthonormal vectors.

    Warns
    -----
    ConvergenceWarning
        If `rank` triplets do not reach `rtol`.

    Notes
    -----
    For "power" without iterations and a Gaussian block ``range_finder_frobenius`` in ``nlattn.bounds``, k = `rank`,
    bounds the expected error, also after the cut to `rank`.

    With `rtol`, blocks of 32 columns are added until the indicator ``||a||^2 - ||Q^H a||^2`` is small enough
    (arXiv 1606.09402); below a relative 10 sqrt(eps) rounding hides it, and residuals are computed instead.

    Costs 2 (power_iterations + 1) products of `a` with rank + oversampling columns.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> a = np.outer([3.0, 0.0, 4.0], [0.0, 2.0])
    >>> U, S, Vh, error = nlattn.randomized_svd(a, 1, rng=0)
    >>> S.round(12)
    array([10.])
    """
    op = operator("a", a, check_finite=check_finite)
    check_choice("method", method, get_args(RangeMethod))
    most, rtol, search = checked_search(
        op,
        rank,
        rtol,
        oversampling=oversampling,
        power_iterations=power_iterations,
        method=method,
        sketch=sketch,
        what="singular values",
    )
    random = generator(rng)
    if op.shape[0] < op.shape[1]:  # so that a matrix and its adjoint give the same
        found = _tall(op.adjoint, most, rtol, search, random)
        found = SVD(adjoint(found.Vh), found.S, adjoint(found.U), found.error)
    else:
        found = _tall(op, most, rtol, search, random)
    if rtol is not None and found.error > rtol:
        warn_unconverged(
            f"rank {found.S.shape[0]} has a relative error of {found.error:.2g}, more than rtol={rtol:g}: "
            "raise rank or rtol"
        )
    return fix_signs(found)


def _tall(op: Operator, most: int, rtol: float | None, search: Search, random: np.random.Generator) -> SVD:
    """The decomposition of a matrix that has at least as many rows as columns, but for the signs."""
    residual = Residual(op, random)
    basis, image = op.zeros(op.shape[0], 0), op.zeros(op.shape[1], 0)
    for basis, image in grow(op, search, random):
        if basis.shape[1] >= search.end or (rtol is not None and residual.of(basis, image) <= rtol):
            break
    u, s, v = svd_from_range(basis, image)
    keep = most
    if rtol is not None:
        squares = [to_float(value) ** 2 for value in op.xp.astype(s, op.xp.float64)]
        keep = residual.fewest(squares[:most], residual.of(basis, image), rtol)
    found = min(keep, s.shape[0])
    u, s, v = u[:, :found], s[:found], v[:, :found]
    error = residual.of(u, v * s[None, :])
    if rtol is None and found < keep:
        missing = op.xp.zeros((keep - found,), dtype=s.dtype, device=s.device)
        u = complete(u, keep, standard_normal(random, (op.shape[0], keep), op.like))
        v = complete(v, keep, standard_normal(random, (op.shape[1], keep), op.like))
        s = op.xp.concat([s, missing])
    return SVD(u, s * op.scale, adjoint(v), error)


def svd_from_range(basis: Array, image: Array) -> tuple[Array, Array, Array]:
    """U, S and V of ``basis @ image^H``, for orthonormal `basis`."""
    xp = array_namespace(basis)
    q = orthonormal(image)
    z, s, xh = xp.linalg.svd(adjoint(image) @ q, full_matrices=False)
    return basis @ z, s, q @ adjoint(xh)


def fix_signs(svd: SVD) -> SVD:
    """The same decomposition, the largest entry of each pair of vectors made positive."""
    xp = array_namespace(svd.U)
    stacked = xp.concat([svd.U, adjoint(svd.Vh)], axis=0)
    if 0 in stacked.shape:
        return svd
    at = xp.argmax(xp.abs(stacked), axis=0)
    entry = xp.take_along_axis(stacked, at[None, :], axis=0)
    phase = xp.astype(xp.abs(entry), entry.dtype) / entry
    return SVD(svd.U * phase, svd.S, svd.Vh / xp.matrix_transpose(phase), svd.error)
