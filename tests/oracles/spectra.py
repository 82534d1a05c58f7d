"""Matrices of given singular values or eigenvalues, and distances between matrices."""

import numpy as np

__all__ = ["EXTREMES", "assert_orthonormal", "decaying", "gram", "matrix", "normal", "rebuilt", "relative", "spiked"]

#: Dtypes and factors that put squares of entries, but not the entries themselves, beyond the floating range.
EXTREMES = [(np.float64, s) for s in (1e200, 1e-200, 1e-160)] + [(np.float32, s) for s in (1e-30, 1e25)]


def normal(rng, shape, dtype=np.float64):
    """Standard normal numbers, with an imaginary part for complex dtypes, in double precision."""
    draws = rng.standard_normal(shape)
    return draws + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else draws


def matrix(m, n, values, dtype=np.float64, seed=0):
    """A matrix (m, n) with the given singular values and random singular vectors."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(normal(rng, (size, len(values)), dtype))[0] for size in (m, n))
    return ((left * values) @ right.conj().T).astype(dtype)


def gram(n, values, dtype=np.float64, seed=0):
    """A positive semidefinite matrix with the given eigenvalues."""
    root = matrix(n, n, np.sqrt(values), np.complex128 if np.dtype(dtype).kind == "c" else np.float64, seed)
    return (root @ root.conj().T).astype(dtype)


def decaying(n=40, seed=0):
    """A matrix that is not symmetric, with geometric singular values and a multiple of the identity."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (left * 0.7 ** np.arange(n)) @ right.T + 0.3 * np.eye(n)


def spiked(n=60, d=4, dtype=np.float64, seed=0):
    """A matrix whose rows have very different lengths."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, d)) * rng.exponential(size=(n, 1)) ** 3
    if np.dtype(dtype).kind == "c":
        a = a * np.exp(1j * rng.standard_normal((n, d)))
    return a.astype(dtype)


def rebuilt(svd):
    """The matrix of a singular value decomposition."""
    return (svd.U * svd.S) @ svd.Vh


def relative(a, b):
    """The distance of b from a, relative to a."""
    return np.linalg.norm(a - b) / np.linalg.norm(a)


def assert_orthonormal(q, tolerance=1e-12):
    """The columns of q are orthonormal."""
    np.testing.assert_allclose(q.conj().T @ q, np.eye(q.shape[1]), atol=tolerance)
