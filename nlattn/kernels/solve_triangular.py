"""Triangular systems."""

from typing import Any

from array_api_compat import array_namespace, is_torch_namespace

from nlattn.dispatch import kernel

__all__ = ["solve_triangular"]

BLOCK = 32


@kernel
def solve_triangular(a: Any, b: Any, *, lower: bool = True) -> Any:
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
    done: list[Any] = []
    for i in edges if lower else reversed(edges):
        rows = slice(i, min(i + BLOCK, n))
        right = b[..., rows, :]
        if done:
            known = slice(0, i) if lower else slice(rows.stop, n)
            x = xp.concat(done if lower else done[::-1], axis=-2)
            right = right - a[..., rows, known] @ x
        done.append(_substitute(xp, a[..., rows, rows], right, lower))
    return xp.concat(done if lower else done[::-1], axis=-2) if done else xp.zeros_like(b)


def _substitute(xp: Any, a: Any, b: Any, lower: bool) -> Any:
    n = a.shape[-1]
    done: list[Any] = []
    for i in range(n) if lower else range(n - 1, -1, -1):
        right = b[..., i : i + 1, :]
        if done:
            known = slice(0, i) if lower else slice(i + 1, n)
            right = right - a[..., i : i + 1, known] @ xp.concat(done if lower else done[::-1], axis=-2)
        done.append(right / a[..., i : i + 1, i : i + 1])
    return xp.concat(done if lower else done[::-1], axis=-2)
