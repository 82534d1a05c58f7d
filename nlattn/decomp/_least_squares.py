"""The small least-squares problems of alternating least squares."""

from functools import reduce

from nlattn.arrays.typing import Array, Namespace
from nlattn.linalg._operators import adjoint

__all__ = ["gram", "hadamard", "normalised", "solved", "updated"]


def gram(xp: Namespace, a: Array) -> Array:
    """a^T conj(a), as it stands in the normal equations of ``x = b a^T``."""
    return xp.matrix_transpose(a) @ (xp.conj(a) if xp.isdtype(a.dtype, "complex floating") else a)


def hadamard(xp: Namespace, matrices: list[Array], like: Array) -> Array:
    """The entrywise product of matrices, or ones in the shape of `like` if there are none."""
    return reduce(lambda a, b: a * b, matrices) if matrices else xp.ones_like(like)


def solved(xp: Namespace, rhs: Array, matrix: Array) -> Array:
    """The solution b of least norm of ``b matrix = rhs`` for a positive semidefinite matrix, which may be singular."""
    values, vectors = xp.linalg.eigh(matrix)
    info = xp.finfo(rhs.dtype)
    # The cutoff is positive, also where all values are 0, so that nothing is divided by 0.
    cutoff = values.shape[0] * float(info.eps) * values[-1] + float(info.smallest_normal)
    inverse = xp.astype(values > cutoff, values.dtype) / xp.maximum(values, cutoff)
    return ((rhs @ vectors) * inverse) @ adjoint(vectors)


def normalised(xp: Namespace, a: Array) -> tuple[Array, Array]:
    """The columns of `a` divided by their norms, and the norms; columns too small for their squares become 0."""
    norms = xp.linalg.vector_norm(a, axis=0)
    least = float(xp.finfo(a.dtype).smallest_normal) ** 0.5
    kept = xp.astype(norms > least, norms.dtype)
    return a * (kept / xp.maximum(norms, xp.full_like(norms, least))), norms * kept


def updated(xp: Namespace, rhs: Array, matrix: Array, old: Array, damping: float) -> tuple[Array, Array]:
    """The solution of ``b matrix = rhs``, held back towards `old` by `damping`, as `normalised` returns it."""
    if damping > 0:
        matrix = matrix + damping * xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
        rhs = rhs + damping * old
    return normalised(xp, solved(xp, rhs, matrix))
