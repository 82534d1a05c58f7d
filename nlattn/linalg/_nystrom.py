"""Low-rank approximation of positive semidefinite matrices from a sketch."""

import math
from typing import NamedTuple, get_args

from array_api_compat import array_namespace

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.namespaces import is_array
from nlattn.arrays.precision import real_dtype
from nlattn.arrays.random import generator, standard_normal
from nlattn.arrays.typing import Array, RngLike
from nlattn.linalg._kernel_matrix import KernelMatrix
from nlattn.linalg._magnitudes import squared_norm
from nlattn.linalg._operators import LinearMap, Operator, adjoint, operator
from nlattn.linalg._orthonormal import complete, extend
from nlattn.linalg._psd import Entries, psd
from nlattn.sketch._factory import SketchKind, sketch_operator

__all__ = ["Eigen", "nystrom_approximation"]


class Eigen(NamedTuple):
    """``vectors @ diag(values) @ vectors^H``.

    Attributes
    ----------
    values : array, shape (r,)
        Descending, not negative.
    vectors : array, shape (n, r)
        Orthonormal.
    error : float
        Nuclear norm of what is left out, relative to the trace: computed from the diagonal of a matrix or KernelMatrix;
        for other operators the leave-one-out estimate.
    """

    values: Array
    vectors: Array
    error: float


@on_numpy
def nystrom_approximation(
    a: Array | KernelMatrix | LinearMap,
    rank: int,
    *,
    oversampling: int = 10,
    sketch: SketchKind = "gaussian",
    rng: RngLike = None,
    check_finite: bool = True,
) -> Eigen:
    """Leading eigenpairs of a positive semidefinite matrix from one product with a random block.

    Parameters
    ----------
    a : array, shape (n, n), KernelMatrix or operator
        Positive semidefinite, real or complex Hermitian; an operator has ``shape`` and ``@``.
    rank : int
        At most n.
    oversampling : int, default 10
        Columns of the random block beyond `rank`, as far as there are any.
    sketch : {"gaussian", "sparse_sign", "srht", "count", "balanced_count"}, default "gaussian"
    rng : None, int, SeedSequence or Generator, optional
    check_finite : bool, default True

    Returns
    -------
    Eigen
        ``values``, ``vectors``, ``error``.

    Raises
    ------
    ValueError
        If a matrix is not Hermitian, or its projection on the random block has an eigenvalue that is negative beyond
        rounding.

    Notes
    -----
    ``a W (W^H a W)^+ W^H a``, at least `a` minus its tail and never above `a`, cut to `rank`; with a shift of rounding
    size that is subtracted at the end (arXiv 1706.05736, algorithm 3). ``nlattn.bounds``: ``nystrom_nuclear``, and for
    `rank` without oversampling ``nystrom_structural_spectral``, ``nystrom_structural_frobenius``,
    ``nystrom_structural_nuclear``.
    Costs one product of `a` with rank + oversampling columns.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> values, vectors, error = nlattn.nystrom_approximation(np.diag([4.0, 1.0, 0.0]), 2, rng=0)
    >>> values.round(6)
    array([4., 1.])
    """
    entries: Entries | KernelMatrix | None = None
    if isinstance(a, KernelMatrix) or is_array(a):
        entries, op = psd("a", a, check_finite=check_finite)
        _check_hermitian(op)
    else:
        op = operator("a", a, check_finite=check_finite)
    xp, n = op.xp, op.shape[0]
    if n != op.shape[1]:
        raise ValueError(f"a must be square, got shape {op.shape}")
    rank = check_integer("rank", rank, least=0, most=n, why="the size of a")
    width = min(n, rank + check_integer("oversampling", oversampling, least=0)) if rank else 0
    check_choice("sketch", sketch, get_args(SketchKind))
    random = generator(rng)
    trace = None if entries is None else to_float(xp.sum(xp.astype(entries.diagonal(), xp.float64)))
    values, vectors = xp.zeros((0,), dtype=xp.float64, device=op.like.device), op.zeros(n, 0)
    error = 1.0 if trace else 0.0
    if width and trace != 0:
        test = extend(None, sketch_operator(sketch, width, n, rng=random).T.matrix(op.like))
        values, vectors, left = _from_sketch(op @ test, test)
        total = left + to_float(xp.sum(values)) if trace is None else trace
        values, vectors = values[:rank], vectors[:, :rank]
        error = max(total - to_float(xp.sum(values)), 0.0) / total if total > 0 else 0.0
    missing = rank - values.shape[0]
    if missing > 0:
        vectors = complete(vectors, rank, standard_normal(random, (n, rank), op.like))
        values = xp.concat([values, xp.zeros((missing,), dtype=values.dtype, device=values.device)])
    return Eigen(xp.astype(values * op.scale, real_dtype(xp, op.dtype)), vectors, error)


def _check_hermitian(op: Operator) -> None:
    """Raise for a matrix that differs from its adjoint by more than rounding, looked at in blocks of rows."""
    if op.array is None:
        return
    a, n, step, total = op.array, op.shape[0], 512, 0.0
    for i in range(0, n, step):
        rows = slice(i, min(i + step, n))
        total += to_float(squared_norm(a[rows, :] - adjoint(a[:, rows])))
    size = to_float(squared_norm(a))
    if total > 100 * float(op.xp.finfo(op.dtype).eps) * size:
        raise ValueError(f"a must be Hermitian, got a relative distance of {math.sqrt(total / size):.1g} from a^H")


def _from_sketch(image: Array, test: Array) -> tuple[Array, Array, float]:
    """Eigenvalues (float64) and vectors from ``image = a @ test``, and a leave-one-out estimate of the trace left."""
    xp = array_namespace(image)
    precise = xp.complex128 if xp.isdtype(image.dtype, "complex floating") else xp.float64
    eps = float(xp.finfo(image.dtype).eps)
    y, w = xp.astype(image, precise), xp.astype(test, precise)
    size = to_float(xp.linalg.matrix_norm(y))
    shift = math.sqrt(y.shape[0]) * eps * size
    core = adjoint(w) @ y
    core = 0.5 * (core + adjoint(core))
    values, vectors = xp.linalg.eigh(core)
    if to_float(values[0]) < -100 * shift - 1e-300:
        raise ValueError(
            f"a must be positive semidefinite; up to its scale it has a Rayleigh quotient of {to_float(values[0]):g}"
        )
    if size == 0:
        return values[:0], image[:, :0], 0.0
    # The sketch is shifted too, so that the shift can be taken off the eigenvalues in the end. What rounding has made
    # negative beyond it is set to it.
    values = values + shift
    values = xp.where(values > shift / 100, values, xp.full_like(values, shift))
    root = (y + shift * w) @ (vectors / xp.astype(xp.sqrt(values), precise)[None, :])
    u, s, _ = xp.linalg.svd(root, full_matrices=False)
    squares = xp.real(vectors * xp.conj(vectors)) if precise == xp.complex128 else vectors * vectors
    inverse = xp.sum(squares / values[None, :], axis=1)
    found = s * s - shift
    # n / s random vectors of unit variance stand in each orthonormal column of the test matrix.
    left = to_float(xp.mean(1.0 / inverse)) * y.shape[0]
    found = xp.where(found > 0, found, xp.zeros_like(found))
    return found, xp.astype(u, image.dtype), max(left - shift * y.shape[0], 0.0)
