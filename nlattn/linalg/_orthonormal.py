"""Orthonormal bases of a few columns, mostly by matrix products."""

from array_api_compat import array_namespace

from nlattn.arrays.host import to_float
from nlattn.arrays.typing import Array, Namespace
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.linalg._operators import adjoint

__all__ = ["complete", "extend", "orthonormal"]

# The least ratio of eigenvalues of a Gram matrix that is factorised: it is the square of a ratio of singular values,
# and below this one Householder reflections take over.
GRAM = 1e-12


def orthonormal(y: Array, cutoff: float = 0.0) -> Array:
    """An orthonormal basis of the range of `y` (m, s), without the singular directions of at most `cutoff`.

    By Cholesky factors of Gram matrices in float64, the triangular factor having a positive diagonal: for float32 input
    one pass is as good as a QR factorisation, which took five times as long for 8192 x 42; for float64 there are two.
    """
    xp = array_namespace(y)
    if y.shape[1] == 0:
        return y
    precise = xp.complex128 if xp.isdtype(y.dtype, "complex floating") else xp.float64
    q = xp.astype(y, precise, copy=False)
    eye = xp.eye(y.shape[1], dtype=precise, device=y.device)
    while True:
        gram = adjoint(q) @ q
        values = xp.linalg.eigvalsh(gram)
        least, most = to_float(values[0]), to_float(values[-1])
        if not (least > GRAM * most and least > cutoff**2):
            return _by_householder(xp, y, cutoff)
        q = q @ adjoint(solve_triangular(xp.linalg.cholesky(gram), eye))
        # The result departs from orthonormality by eps * most / least.
        if float(xp.finfo(xp.float64).eps) * most <= 2 * float(xp.finfo(y.dtype).eps) * least:
            return xp.astype(q, y.dtype, copy=False)
        cutoff = 0.0


def _by_householder(xp: Namespace, y: Array, cutoff: float) -> Array:
    q, r = xp.linalg.qr(y, mode="reduced")
    u, values, _ = xp.linalg.svd(r, full_matrices=False)
    kept = int(xp.sum(xp.astype(values > cutoff, xp.int64)))
    return q @ u[:, :kept]


def extend(basis: Array | None, y: Array) -> Array:
    """Orthonormal columns that span what `y` adds to the orthonormal `basis`, if there is one, but for rounding."""
    xp = array_namespace(y)
    if y.shape[1] == 0:
        return y
    eps = float(xp.finfo(y.dtype).eps)
    cutoff = 8 * eps * to_float(xp.linalg.matrix_norm(y))
    if basis is None:
        return orthonormal(y, cutoff)
    y = orthonormal(y - basis @ (adjoint(basis) @ y), cutoff)
    # What was small has been scaled up, and with it the part along the basis that rounding has left.
    along = adjoint(basis) @ y
    y = y - basis @ along
    return y if to_float(xp.linalg.matrix_norm(along)) ** 2 < eps else orthonormal(y, 0.1)


def complete(q: Array, columns: int, fill: Array) -> Array:
    """`q` and further orthonormal columns, `columns` in all; `fill` (m, columns) is a random matrix."""
    xp = array_namespace(q)
    missing = columns - q.shape[1]
    return q if missing <= 0 else xp.concat([q, extend(q, fill[:, :missing])], axis=1)
