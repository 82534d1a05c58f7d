"""Columns of a matrix that span the others, found by pivoting within a randomised range."""

from typing import NamedTuple

from nlattn.arrays.host import to_float
from nlattn.arrays.random import generator
from nlattn.arrays.typing import Array, RngLike
from nlattn.kernels.pivoted_qr import pivoted_qr
from nlattn.linalg._magnitudes import squared_norm
from nlattn.linalg._operators import Operator, adjoint
from nlattn.linalg._ranges import checked_search, grow
from nlattn.linalg._residuals import Residual
from nlattn.linalg._warnings import warn_unconverged
from nlattn.sketch._factory import SketchKind

__all__ = ["PivotColumns", "pivot_columns", "take_columns", "warn_of_error"]


class PivotColumns(NamedTuple):
    """Columns of a matrix, the most important first.

    Attributes
    ----------
    residual : Residual
        Measures what the columns leave.
    columns : integer array, shape (r,)
    q : array, shape (m, r)
        An orthonormal basis of the columns.
    image : array, shape (n, r)
        ``a^H q``.
    """

    residual: Residual
    columns: Array
    q: Array
    image: Array

    def within(self, rtol: float | None) -> "PivotColumns":
        """The fewest leading columns within a tolerance, if there is one."""
        if rtol is None:
            return self
        squares = [to_float(squared_norm(self.image[:, j : j + 1])) for j in range(self.image.shape[1])]
        keep = self.residual.fewest(squares, self.residual.of(self.q, self.image), rtol)
        return PivotColumns(self.residual, self.columns[:keep], self.q[:, :keep], self.image[:, :keep])


def pivot_columns(
    op: Operator,
    rank: int | None,
    rtol: float | None,
    oversampling: int,
    power_iterations: int,
    sketch: SketchKind,
    rng: RngLike,
) -> PivotColumns:
    """Columns of a matrix: `rank` of them, or as few as meet `rtol`. The arguments are checked here."""
    most, rtol, search = checked_search(
        op,
        rank,
        rtol,
        oversampling=oversampling,
        power_iterations=power_iterations,
        method="krylov",
        sketch=sketch,
        what="columns",
    )
    random = generator(rng)
    residual = Residual(op, random)
    pivots = op.xp.zeros((0,), dtype=op.xp.int64, device=op.like.device)
    found = PivotColumns(residual, pivots, op.zeros(op.shape[0], 0), op.zeros(op.shape[1], 0))
    rows: Array | None = None
    for basis, rows in grow(op, search, random):
        if basis.shape[1] >= search.end:
            break
        if rtol is not None and residual.of(basis, rows) <= rtol:
            found = _pivoted(op, residual, rows, most)
            if residual.of(found.q, found.image) <= rtol:
                return found.within(rtol)
    return found if rows is None else _pivoted(op, residual, rows, most).within(rtol)


def _pivoted(op: Operator, residual: Residual, rows: Array, most: int) -> PivotColumns:
    """The pivot columns of ``rows^H``, where rows = a^H u for a basis u of the range of `a`."""
    _, _, columns = pivoted_qr(adjoint(rows), min(most, rows.shape[1]))
    q, _ = op.xp.linalg.qr(take_columns(op, columns), mode="reduced")
    return PivotColumns(residual, columns, q, op.adjoint @ q)


def take_columns(op: Operator, columns: Array) -> Array:
    """Some columns of a matrix."""
    xp = op.xp
    if op.array is not None:
        return xp.take(op.array, columns, axis=1)
    numbers = xp.arange(op.shape[1], dtype=columns.dtype, device=columns.device)
    return op @ xp.astype(numbers[:, None] == columns[None, :], op.dtype)


def warn_of_error(what: str, error: float, rtol: float | None) -> None:
    """Warn that `what`, such as "3 columns have", an error above the tolerance."""
    if rtol is not None and error > rtol:
        warn_unconverged(f"{what} a relative error of {error:.2g}, more than rtol={rtol:g}: raise rank or rtol")
