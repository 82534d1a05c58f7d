"""Pseudo-inverses of small cores, applied."""

from typing import Any

from array_api_compat import array_namespace, is_torch_array

__all__ = ["iterated_inverse", "solve_truncated"]


def solve_truncated(core: Any, right: Any, rcond: float) -> tuple[Any, Any]:
    """pinv(core) @ right, without the singular values below rcond times the largest, and how many were kept.

    core (..., m, m), right (..., m, n), float64. Differentiable once, at a fixed rank, also
    where singular values coincide.
    """
    xp = array_namespace(core, right)
    if rcond < 1e-4:
        return _by_svd(xp, core, right, rcond)
    # Squaring the singular values leaves an error of eps / rcond^2 (4e-10 measured at 1e-4); eigh is 2.5 times as fast.
    gram = xp.matrix_transpose(core) @ core
    fixed = gram.detach() if is_torch_array(gram) else gram
    squares, vectors = xp.linalg.eigh(fixed)
    kept = (squares > rcond**2 * xp.max(squares, axis=-1, keepdims=True)) & (squares > 0)
    inverse = xp.where(kept, 1 / xp.where(kept, squares, xp.ones_like(squares)), xp.zeros_like(squares))
    left = xp.matrix_transpose(vectors) @ (xp.matrix_transpose(core) @ right)
    joined = inverse[..., None] * left
    if fixed is not gram and gram.requires_grad:
        # The derivative of the truncated inverse (Daleckii and Krein), times a change that is 0: automatic
        # differentiation of eigh itself divides by the gaps between eigenvalues, also where they do not matter.
        change = xp.matrix_transpose(vectors) @ (gram - fixed) @ vectors
        joined = joined + (_divided_differences(xp, squares, inverse, kept) * change) @ left
    return vectors @ joined, xp.sum(xp.astype(kept, xp.int64), axis=-1)


def _divided_differences(xp: Any, squares: Any, inverse: Any, kept: Any) -> Any:
    """(f(x_i) - f(x_j)) / (x_i - x_j) for f = 1 / x where kept and 0 elsewhere."""
    row, column = squares[..., :, None], squares[..., None, :]
    mixed = kept[..., :, None] != kept[..., None, :]
    gap = xp.where(mixed, row - column, xp.ones_like(row - column))
    across = (inverse[..., :, None] - inverse[..., None, :]) / gap
    return xp.where(mixed, across, -inverse[..., :, None] * inverse[..., None, :])


def _by_svd(xp: Any, core: Any, right: Any, rcond: float) -> tuple[Any, Any]:
    if is_torch_array(core) and (core.requires_grad or right.requires_grad):
        raise NotImplementedError(f"gradients need rcond >= 1e-4, got {rcond}: choose a larger one")
    u, values, vh = xp.linalg.svd(core, full_matrices=False)
    kept = (values > rcond * xp.max(values, axis=-1, keepdims=True)) & (values > 0)
    inverse = xp.where(kept, 1 / xp.where(kept, values, xp.ones_like(values)), xp.zeros_like(values))
    joined = xp.matrix_transpose(vh) @ (inverse[..., None] * (xp.matrix_transpose(u) @ right))
    return joined, xp.sum(xp.astype(kept, xp.int64), axis=-1)


def iterated_inverse(a: Any, iterations: int) -> Any:
    """The third-order iteration of arXiv 2102.03902 for the inverse of `a`, each matrix with its own start."""
    xp = array_namespace(a)
    columns = xp.max(xp.sum(xp.abs(a), axis=-2), axis=-1)
    rows = xp.max(xp.sum(xp.abs(a), axis=-1), axis=-1)
    size = (columns * rows)[..., None, None]
    z = xp.matrix_transpose(a) / xp.where(size == 0, xp.ones_like(size), size)
    eye = xp.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for _ in range(iterations):
        az = a @ z
        z = 0.25 * (z @ (13.0 * eye - az @ (15.0 * eye - az @ (7.0 * eye - az))))
    return z
