"""QR factorisation with column pivoting, stopped early."""

from array_api_compat import array_namespace

from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array, Namespace
from nlattn.dispatch import kernel

__all__ = ["pivoted_qr"]


@kernel
def pivoted_qr(a: Array, k: int) -> tuple[Array, Array, Array]:
    """The first steps of a QR factorisation that takes the longest remaining column each time.

    Parameters
    ----------
    a : array, shape (m, n)
        Real or complex.
    k : int
        0 <= k <= min(m, n), the most steps.

    Returns
    -------
    q : array, shape (m, r)
        Orthonormal. r is k, or less where what remains is at most max(m, n) eps times the longest column of `a`.
    r : array, shape (r, n)
        ``q^H a``, with its columns in the order of `a`.
    pivots : integer array, shape (r,)
        ``a[:, pivots] = q @ r[:, pivots]``, where the last factor is upper triangular. Of equally long columns any.
    """
    xp = array_namespace(a)
    m, n = a.shape
    q = xp.zeros((m, 0), dtype=a.dtype, device=a.device)
    pivots: list[int] = []
    rest: Array = a
    cutoff: float | None = None
    is_complex = xp.isdtype(a.dtype, "complex floating")
    for _ in range(k):
        squares = xp.sum(xp.real(rest * xp.conj(rest)) if is_complex else rest * rest, axis=0)
        at = int(xp.argmax(squares))
        length = to_float(squares[at]) ** 0.5
        if cutoff is None:
            cutoff = max(m, n) * float(xp.finfo(a.dtype).eps) * length
        if not length > cutoff:
            break
        column = rest[:, at : at + 1] / length
        column = column - q @ (_adjoint(xp, q) @ column)
        column = column / xp.linalg.matrix_norm(column)
        rest = rest - column @ (_adjoint(xp, column) @ rest)
        q = xp.concat([q, column], axis=1)
        pivots.append(at)
    index = xp.asarray(pivots, dtype=xp.int64, device=a.device)
    return q, _adjoint(xp, q) @ a, index


def _adjoint(xp: Namespace, a: Array) -> Array:
    return xp.matrix_transpose(xp.conj(a) if xp.isdtype(a.dtype, "complex floating") else a)
