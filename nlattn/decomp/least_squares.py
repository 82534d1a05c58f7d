"""The small least-squares problems of alternating least squares."""

from functools import reduce
from typing import Any

from nlattn.decomp.subspaces import adjoint

__all__ = ["gram", "hadamard", "normalised", "solved", "updated"]


def gram(xp: Any, a: Any) -> Any:
    """a^T conj(a), as it stands in the normal equations of ``x = b a^T``."""
    return xp.matrix_transpose(a) @ (xp.conj(a) if xp.isdtype(a.dtype, "complex floating") else a)


def hadamard(xp: Any, matrices: list[Any], like: Any) -> Any:
    """The entrywise product of the matrices; of none: ones, shaped as `like`."""
    return reduce(lambda a, b: a * b, matrices) if matrices else xp.ones_like(like)


def solved(xp: Any, rhs: Any, matrix: Any) -> Any:
    """The solution b of least norm of ``b matrix = rhs`` for a positive semidefinite matrix, which may be singular."""
    values, vectors = xp.linalg.eigh(matrix)
    cutoff = values.shape[0] * float(xp.finfo(rhs.dtype).eps) * values[-1]
    regular = values > cutoff
    inverse = xp.where(regular, 1 / xp.where(regular, values, xp.ones_like(values)), xp.zeros_like(values))
    return ((rhs @ vectors) * inverse) @ adjoint(xp, vectors)


def normalised(xp: Any, a: Any) -> tuple[Any, Any]:
    """The columns of `a` divided by their norms, and the norms; columns of zeros stay."""
    norms = xp.linalg.vector_norm(a, axis=0)
    return a / xp.where(norms > 0, norms, xp.ones_like(norms)), norms


def updated(xp: Any, rhs: Any, matrix: Any, old: Any, damping: float) -> tuple[Any, Any]:
    """The solution of ``b matrix = rhs``, held back towards `old` where `damping` is positive: `normalised`."""
    if damping > 0:
        matrix = matrix + damping * xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
        rhs = rhs + damping * old
    return normalised(xp, solved(xp, rhs, matrix))
