"""Partial Cholesky factorisations that grow by the pivots among some candidates."""

from typing import NamedTuple

from array_api_compat import array_namespace

from nlattn.arrays.host import all_finite, to_float
from nlattn.arrays.typing import Array
from nlattn.kernels.cholesky_panel import cholesky_panel
from nlattn.kernels.choose_pivots import choose_pivots
from nlattn.kernels.segment_sum import segment_sum
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._kernel_matrix import KernelMatrix
from nlattn.linalg._operators import Operator, adjoint
from nlattn.linalg._psd import Entries

__all__ = ["PivotedCholesky", "Progress"]


class PivotedCholesky(NamedTuple):
    """``a ~ factor @ factor^H``, and ``0 <= a - factor @ factor^H`` in the order of semidefinite matrices.

    Attributes
    ----------
    pivots : integer array, shape (r,)
        Distinct; r is the rank that was reached.
    factor : array, shape (n, r)
        ``factor[pivots, :]`` is lower triangular. Its leading columns are the factor of the leading pivots.
    residual : array, shape (n,)
        The diagonal of what is left: ``|a - factor @ factor^H|_ij <= sqrt(residual_i residual_j)``.
    error : float
        Trace of what is left relative to that of `a`; its nuclear norm, and at least its other norms.
    """

    pivots: Array
    factor: Array
    residual: Array
    error: float


class Progress:
    """A factorisation under way: the pivots and columns found so far, and the diagonal of what they leave."""

    def __init__(self, entries: Entries | KernelMatrix, op: Operator, check_finite: bool) -> None:
        self.entries, self.op, self.check_finite = entries, op, check_finite
        xp = op.xp
        diagonal = xp.astype(entries.diagonal(), xp.float64)
        self.diagonal = xp.where(diagonal > 0, diagonal, xp.zeros_like(diagonal))
        self.trace = to_float(xp.sum(self.diagonal))
        self.residual = self.diagonal
        self.factors: list[Array] = []
        self.pivots: list[Array] = []
        self.found = 0

    def within(self, rtol: float | None) -> bool:
        """Whether the trace of what is left meets a tolerance, if there is one."""
        return rtol is not None and to_float(self.op.xp.sum(self.residual)) <= rtol * self.trace

    def rounding(self) -> Array:
        """What rounding may leave on the diagonal, a difference of numbers as large as that of the matrix."""
        return 10 * float(self.op.xp.finfo(self.op.dtype).eps) * (self.found + 2) * self.diagonal

    def beyond_rounding(self) -> Array:
        """The diagonal of what is left, and 0 where that may be rounding."""
        residual = self.residual
        return self.op.xp.where(residual > self.rounding(), residual, self.op.xp.zeros_like(residual))

    def add(self, candidates: Array, threshold: float, draws: Array | None, most: int, rtol: float | None) -> None:
        """Take the pivots among some candidates, as `choose_pivots` chooses them, but no more than `rtol` needs."""
        xp = self.op.xp
        core = self._finite(self.entries.block(candidates))
        for factor in self.factors:
            rows = xp.take(factor, candidates, axis=0)
            core = core - rows @ adjoint(rows)
        floors = xp.take(self.rounding(), candidates)
        chosen, triangle = choose_pivots(core, floors, threshold, draws, most - self.found)
        if chosen.shape[0] == 0:  # what seemed to be left was rounding
            self.residual = _without(self.residual, candidates)
            return
        pivots = xp.take(candidates, chosen)
        columns, squares = self._columns(pivots, triangle)
        if rtol is not None:
            excess = to_float(xp.sum(self.residual)) - rtol * self.trace
            gone = xp.cumulative_sum(_squares(columns, axis=0))
            keep = min(1 + int(xp.sum(xp.astype(gone < excess, xp.int64))), pivots.shape[0])
            if keep < pivots.shape[0]:
                columns, pivots = columns[:, :keep], pivots[:keep]
                squares = _squares(columns, axis=1)
        residual = self.residual - squares
        self.found += pivots.shape[0]
        if bool(xp.any(residual < -(float(xp.finfo(self.op.dtype).eps) ** 0.5) * self.diagonal)):
            raise ValueError(f"a must be positive semidefinite; after {self.found} pivots its rest is not")
        self.residual = xp.where(residual > 0, residual, xp.zeros_like(residual))
        self.factors.append(columns)
        self.pivots.append(pivots)

    def result(self) -> PivotedCholesky:
        """The factorisation, in the scale of the matrix."""
        op, xp = self.op, self.op.xp
        none = xp.zeros((0,), dtype=xp.int64, device=op.like.device)
        pivots = xp.concat(self.pivots) if self.pivots else none
        residual = _without(self.residual, pivots)
        error = to_float(xp.sum(residual)) / self.trace if self.trace > 0 else 0.0
        factor = xp.concat(self.factors, axis=1) if self.factors else op.zeros(op.shape[0], 0)
        if op.scale != 1:
            factor = factor * op.scale**0.5
        return PivotedCholesky(pivots, factor, xp.astype(residual * op.scale, self.entries.diagonal().dtype), error)

    def _columns(self, pivots: Array, triangle: Array) -> tuple[Array, Array]:
        """The columns of the factor for new pivots, and the sums of their squares along each row."""
        xp = self.op.xp
        precise = xp.complex128 if self.op.complex else xp.float64
        eye = xp.eye(triangle.shape[0], dtype=precise, device=triangle.device)
        inverse = xp.astype(adjoint(solve_triangular(xp.astype(triangle, precise), eye)), triangle.dtype)
        rows = tuple(xp.take(factor, pivots, axis=0) for factor in self.factors)
        columns, squares = cholesky_panel(self.entries.columns(pivots), inverse, tuple(self.factors), rows)
        self._finite(squares)
        return columns, squares

    def _finite(self, values: Array) -> Array:
        """The values, which must be finite if that is checked."""
        if self.check_finite and not all_finite(self.op.xp, values):
            raise ValueError("a contains NaN or inf; clean it, or pass check_finite=False to let it through")
        return values


def _squares(columns: Array, axis: int) -> Array:
    """Sums of |columns|^2 along an axis, in float64."""
    xp = array_namespace(columns)
    is_complex = xp.isdtype(columns.dtype, "complex floating")
    squares = xp.real(columns) ** 2 + xp.imag(columns) ** 2 if is_complex else columns * columns
    return xp.sum(squares, axis=axis, dtype=xp.float64)


def _without(residual: Array, index: Array) -> Array:
    """The same numbers with zeros at `index`."""
    xp = array_namespace(residual)
    ones = xp.ones((index.shape[0], 1), dtype=residual.dtype, device=residual.device)
    count = segment_sum(ones, index[:, None], residual.shape[0])[:, 0]
    return xp.where(count > 0, xp.zeros_like(residual), residual)
