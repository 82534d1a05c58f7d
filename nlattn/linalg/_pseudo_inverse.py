"""Pseudo-inverses of small cores, applied."""

from array_api_compat import array_namespace, is_torch_array

from nlattn.arrays.guards import nonzero
from nlattn.arrays.host import stop_gradient
from nlattn.arrays.typing import Array, Namespace

__all__ = ["iterated_inverse", "solve_truncated"]

# The least cutoff at which singular values are taken from the Gram matrix, whose error is eps / rcond^2: 4e-10 measured
# here, where its eigenvalues took 0.4 times as long as the singular values.
SQUARED = 1e-4


def solve_truncated(core: Array, right: Array, rcond: float) -> tuple[Array, Array]:
    """pinv(core) @ right, without the singular values below rcond times the largest, and how many were kept.

    core (..., m, m), right (..., m, n), float64. Differentiable once, at a fixed rank, also
    where singular values coincide.
    """
    xp = array_namespace(core, right)
    if rcond < SQUARED:
        return _by_svd(xp, core, right, rcond)
    gram = xp.matrix_transpose(core) @ core
    fixed = stop_gradient(gram)
    squares, vectors = xp.linalg.eigh(fixed)
    kept = (squares > rcond**2 * xp.max(squares, axis=-1, keepdims=True)) & (squares > 0)
    inverse = _inverted(xp, squares, kept)
    left = xp.matrix_transpose(vectors) @ (xp.matrix_transpose(core) @ right)
    joined = inverse[..., None] * left
    if fixed is not gram and gram.requires_grad:
        # The derivative of the truncated inverse (Daleckii and Krein), times a change that is 0: automatic
        # differentiation of eigh itself divides by the gaps between eigenvalues, also where they do not matter.
        change = xp.matrix_transpose(vectors) @ (gram - fixed) @ vectors
        joined = joined + (_divided_differences(xp, squares, inverse, kept) * change) @ left
    return vectors @ joined, xp.sum(xp.astype(kept, xp.int64), axis=-1)


def _inverted(xp: Namespace, values: Array, kept: Array) -> Array:
    """1 / values where kept, else 0."""
    zero = xp.zeros_like(values)
    return xp.where(kept, 1 / nonzero(xp.where(kept, values, zero)), zero)


def _divided_differences(xp: Namespace, squares: Array, inverse: Array, kept: Array) -> Array:
    """(f(x_i) - f(x_j)) / (x_i - x_j) for f = 1 / x where kept and 0 elsewhere."""
    row, column = squares[..., :, None], squares[..., None, :]
    mixed = kept[..., :, None] != kept[..., None, :]
    gap = xp.where(mixed, row - column, xp.ones_like(row - column))
    across = (inverse[..., :, None] - inverse[..., None, :]) / gap
    return xp.where(mixed, across, -inverse[..., :, None] * inverse[..., None, :])


def _by_svd(xp: Namespace, core: Array, right: Array, rcond: float) -> tuple[Array, Array]:
    if is_torch_array(core) and (core.requires_grad or right.requires_grad):
        raise NotImplementedError(f"gradients need rcond >= {SQUARED:g}, got {rcond}: choose a larger one")
    u, values, vh = xp.linalg.svd(core, full_matrices=False)
    kept = (values > rcond * xp.max(values, axis=-1, keepdims=True)) & (values > 0)
    joined = xp.matrix_transpose(vh) @ (_inverted(xp, values, kept)[..., None] * (xp.matrix_transpose(u) @ right))
    return joined, xp.sum(xp.astype(kept, xp.int64), axis=-1)


def iterated_inverse(a: Array, iterations: int) -> Array:
    """The third-order iteration of arXiv 2102.03902 for the inverse of `a`, each matrix with its own start."""
    xp = array_namespace(a)
    columns = xp.max(xp.sum(xp.abs(a), axis=-2), axis=-1)
    rows = xp.max(xp.sum(xp.abs(a), axis=-1), axis=-1)
    z = xp.matrix_transpose(a) / nonzero((columns * rows)[..., None, None])
    eye = xp.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for _ in range(iterations):
        az = a @ z
        z = 0.25 * (z @ (13.0 * eye - az @ (15.0 * eye - az @ (7.0 * eye - az))))
    return z
