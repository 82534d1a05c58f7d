"""Triangular systems."""

import numpy as np
from array_api_compat import array_namespace, is_torch_namespace

from nlattn.arrays.typing import Array
from nlattn.dispatch import kernel

__all__ = ["solve_triangular"]

# Rows that are solved for one by one, before the others are updated by a product.
BLOCK = 32


@kernel
def solve_triangular(a: Array, b: Array, *, lower: bool = True) -> Array:
    """Solve a @ x = b for triangular `a`, by substitution over blocks.

    Parameters
    ----------
    a : array, shape (..., n, n)
        The other triangle is not looked at. A zero on the diagonal gives inf or NaN, no error.
    b : array, shape (..., n, m)
    lower : bool, default True

    Returns
    -------
    x : array, shape (..., n, m)
    """
    xp = array_namespace(a, b)
    if is_torch_namespace(xp):
        import torch

        return torch.linalg.solve_triangular(a, b, upper=not lower)
    n = a.shape[-1]
    edges = list(range(0, n, BLOCK))
    done: list[Array] = []
    for i in edges if lower else reversed(edges):
        rows = slice(i, min(i + BLOCK, n))
        right = b[..., rows, :]
        if done:
            known = slice(0, i) if lower else slice(rows.stop, n)
            x = xp.concat(done if lower else done[::-1], axis=-2)
            right = right - a[..., rows, known] @ x
        done.append(_substitute(a[..., rows, rows], right, lower))
    if not done:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return xp.zeros((*lead, *b.shape[-2:]), dtype=b.dtype, device=b.device)
    return xp.concat(done if lower else done[::-1], axis=-2)


def _substitute(a: Array, b: Array, lower: bool) -> Array:
    xp = array_namespace(a, b)
    n = a.shape[-1]
    done: list[Array] = []
    for i in range(n) if lower else range(n - 1, -1, -1):
        right = b[..., i : i + 1, :]
        if done:
            known = slice(0, i) if lower else slice(i + 1, n)
            right = right - a[..., i : i + 1, known] @ xp.concat(done if lower else done[::-1], axis=-2)
        with np.errstate(all="ignore"):
            done.append(right / a[..., i : i + 1, i : i + 1])
    return xp.concat(done if lower else done[::-1], axis=-2)
