"""New columns of a partial Cholesky factor."""

from array_api_compat import array_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["cholesky_panel"]


@kernel
def cholesky_panel(
    columns: Array, inverse: Array, factors: tuple[Array, ...], rows: tuple[Array, ...]
) -> tuple[Array, Array]:
    """``(columns - sum_i factors[i] @ rows[i]^H) @ inverse``, and the sums of its squares along rows.

    Parameters
    ----------
    columns : array, shape (n, b)
        Real or complex.
    inverse : array, shape (b, b)
    factors : tuple of array, shape (n, k_i)
    rows : tuple of array, shape (b, k_i)

    Returns
    -------
    panel : array, shape (n, b)
    squares : array, shape (n,)
        Sums of ``|panel|^2``, formed in float64.
    """
    xp = array_namespace(columns)
    is_complex = xp.isdtype(columns.dtype, "complex floating")
    for factor, few in zip(factors, rows, strict=True):
        columns = columns - factor @ xp.matrix_transpose(xp.conj(few) if is_complex else few)
    panel = columns @ inverse
    squares = xp.real(panel) ** 2 + xp.imag(panel) ** 2 if is_complex else panel * panel
    return panel, xp.sum(squares, axis=1, dtype=xp.float64)
