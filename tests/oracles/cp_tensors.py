"""Tensors of known components, and how far a CP decomposition is from them."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from nlattn.testing import to_numpy

__all__ = ["dense", "match", "normal", "planted", "reconstructed", "relative", "w_state"]


def normal(shape, dtype="float64", seed=0):
    """Standard normal numbers, with an imaginary part for complex dtypes, in double precision."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if "complex" in dtype else x


def dense(weights, factors):
    """The tensor of weights and factors, by one sum."""
    letters = "abcdefg"[: len(factors)]
    return np.einsum(f"r,{','.join(c + 'r' for c in letters)}->{letters}", weights, *factors)


def planted(shape, rank, noise=0.0, dtype="float64", seed=0, collinearity=0.0):
    """A tensor of given rank, and noise of given relative size; and its factors."""
    factors = []
    for k, n in enumerate(shape):
        a = normal((n, rank + 1), dtype, 10 * seed + k)
        a /= np.linalg.norm(a, axis=0)
        factors.append(np.sqrt(1 - collinearity) * a[:, :rank] + np.sqrt(collinearity) * a[:, rank:])
    x = dense(np.linspace(2, 1, rank), factors)
    e = normal(shape, dtype, 10 * seed + 9)
    return (x + noise * np.linalg.norm(x) / np.linalg.norm(e) * e).astype(dtype), factors


def reconstructed(result):
    """The tensor of a CPTensor, in double precision."""
    return dense(to_numpy(result.weights).astype(float), [to_numpy(a) for a in result.factors])


def relative(x, y):
    """The distance of x from y, relative to y."""
    return np.linalg.norm(x - y) / np.linalg.norm(y)


def match(factors, others):
    """The least product of cosines over the modes between components, paired as well as can be."""
    cosines = 1.0
    for a, b in zip(factors, others, strict=True):
        a, b = a / np.linalg.norm(a, axis=0), b / np.linalg.norm(b, axis=0)
        cosines = cosines * np.abs(a.conj().T @ b)
    rows, columns = linear_sum_assignment(-cosines)
    return cosines[rows, columns].min()


def w_state():
    """A tensor of rank 3 that tensors of rank 2 approximate as well as one likes."""
    x = np.zeros((2, 2, 2))
    x[0, 0, 1] = x[0, 1, 0] = x[1, 0, 0] = 1.0
    return x
