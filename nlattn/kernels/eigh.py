"""Eigendecompositions of many small symmetric matrices."""

from typing import Any

from array_api_compat import array_namespace

from nlattn.dispatch import kernel

__all__ = ["eigh"]


@kernel
def eigh(a: Any) -> tuple[Any, Any]:
    """Eigenvalues, ascending, and orthonormal eigenvectors of symmetric matrices.

    Parameters
    ----------
    a : array, shape (..., n, n)
        Real and symmetric; one triangle is looked at.

    Returns
    -------
    values : array, shape (..., n)
    vectors : array, shape (..., n, n)
        In columns; their signs differ between backends.
    """
    values, vectors = array_namespace(a).linalg.eigh(a)
    return values, vectors
