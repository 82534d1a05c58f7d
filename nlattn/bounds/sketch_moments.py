"""Exact second moments of linear sketches."""

from typing import Any

import numpy as np

from nlattn.arrays.arguments import check_choice
from nlattn.bounds.registry import bound, experiment
from nlattn.sketch._factory import SKETCHES, sketch_operator
from nlattn.sketch._sparse import count_sketch, sparse_sign_sketch

__all__ = [
    "balanced_count_sketch_variance",
    "count_sketch_variance",
    "gaussian_variance",
    "sketched_product",
    "sparse_sign_variance",
    "srht_variance",
]

SOURCE = "Derived in the proof"
FIXED = "x and y do not depend on the sketch"


@bound(
    "moment",
    "E (Sx.Sy - x.y)^2 = (|x|^2 |y|^2 + (x.y)^2) / m",
    hypotheses=("S from gaussian_sketch", FIXED),
    source=SOURCE,
    trials=20000,
    band=(0.9, 1.1),
)
def gaussian_variance(x: Any, y: Any, m: int) -> Any:
    """Variance of an inner product after a Gaussian sketch.

    Parameters
    ----------
    x, y : array, shape (n,)
    m : int

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.gaussian_variance(np.asarray([3.0, 4.0]), np.asarray([0.0, 1.0]), 41))
    1.0
    """
    return (np.sum(x**2) * np.sum(y**2) + np.sum(x * y) ** 2) / m


@bound(
    "moment",
    "E (Sx.Sy - x.y)^2 = (|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2) / m",
    hypotheses=("S from count_sketch", FIXED),
    source=SOURCE,
    trials=20000,
    band=(0.9, 1.1),
)
def count_sketch_variance(x: Any, y: Any, m: int) -> Any:
    """Variance of an inner product after a CountSketch.

    Parameters
    ----------
    x, y : array, shape (n,)
    m : int

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.count_sketch_variance(np.ones(3), np.ones(3), 4))
    3.0
    """
    return _signed(x, y) / m


@bound(
    "moment",
    "E (Sx.Sy - x.y)^2 = (|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2) / m, whatever the number of nonzeros",
    hypotheses=("S from sparse_sign_sketch", FIXED),
    source=SOURCE,
    trials=20000,
    band=(0.9, 1.1),
)
def sparse_sign_variance(x: Any, y: Any, m: int) -> Any:
    """Variance of an inner product after a sparse sign embedding: that of a CountSketch.

    Parameters
    ----------
    x, y : array, shape (n,)
    m : int

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.sparse_sign_variance(np.ones(3), np.ones(3), 4))
    3.0
    """
    return _signed(x, y) / m


@bound(
    "moment",
    "E (Sx.Sy - x.y)^2 = (|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2) (N / m - 1) / (N - 1), N = m ceil(n / m)",
    hypotheses=("S from count_sketch with balanced=True", FIXED),
    source=SOURCE,
    trials=2000,
    band=(0.9, 1.1),
)
def balanced_count_sketch_variance(x: Any, y: Any, m: int) -> Any:
    """Variance of an inner product after a balanced CountSketch.

    Parameters
    ----------
    x, y : array, shape (n,)
    m : int

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.balanced_count_sketch_variance(np.ones(4), np.ones(4), 2))
    8.0
    """
    return _signed(x, y) * variance_factor("balanced_count", m, x.shape[0])


@bound(
    "moment",
    "E (Sx.Sy - x.y)^2 = (|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2) (N / m - 1) / (N - 1), N = 2^ceil(log2 n)",
    hypotheses=("S from srht_sketch", FIXED),
    source=SOURCE,
    trials=2000,
    band=(0.9, 1.1),
)
def srht_variance(x: Any, y: Any, m: int) -> Any:
    """Variance of an inner product after a subsampled randomized Hadamard transform.

    Parameters
    ----------
    x, y : array, shape (n,)
    m : int

    Returns
    -------
    float
        0 for m = N: an isometry.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.srht_variance(np.ones(4), np.ones(4), 2))
    8.0
    """
    return _signed(x, y) * variance_factor("srht", m, x.shape[0])


@bound(
    "moment",
    "E |A^T S^T S B - A^T B|_F^2 = c (|A|_F^2 |B|_F^2 + |A^T B|_F^2 - 2 sum_i |a_i|^2 |b_i|^2), a_i and b_i the rows; "
    "c = 1/m, or (N / m - 1) / (N - 1) for balanced_count and srht; no last term for gaussian",
    hypotheses=("S from sketch_operator", "A and B do not depend on S"),
    source=SOURCE,
    trials=3000,
    band=(0.9, 1.1),
)
def sketched_product(A: Any, B: Any, m: int, kind: str) -> Any:
    """Mean squared error of a sketched matrix product.

    Parameters
    ----------
    A : array, shape (n, p)
    B : array, shape (n, q)
    m : int
    kind : {"gaussian", "sparse_sign", "count", "balanced_count", "srht"}

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> U = np.eye(100)[:, :4]
    >>> float(nlattn.bounds.sketched_product(U, U, 20, "gaussian"))
    1.0
    """
    squares = np.sum(A**2) * np.sum(B**2) + np.sum((A.T @ B) ** 2)
    if kind != "gaussian":
        squares = squares - 2 * np.sum(np.sum(A**2, axis=1) * np.sum(B**2, axis=1))
    return squares * variance_factor(kind, m, A.shape[0])


def variance_factor(kind: str, m: int, n: int) -> float:
    """The c of `sketched_product`."""
    check_choice("kind", kind, tuple(SKETCHES))
    if kind not in ("balanced_count", "srht"):
        return 1 / m
    padded = m * -(-n // m) if kind == "balanced_count" else 1 << max(n - 1, 0).bit_length()
    return (padded / m - 1) / (padded - 1) if padded > 1 else 0.0


def _signed(x: Any, y: Any) -> Any:
    return np.sum(x**2) * np.sum(y**2) + np.sum(x * y) ** 2 - 2 * np.sum(x**2 * y**2)


def unit_pair(rng: np.random.Generator, n: int) -> Any:
    """Two unit vectors at about 60 degrees."""
    x, y = rng.standard_normal((2, n))
    y = x / np.linalg.norm(x) + 1.7 * y / np.linalg.norm(y)
    return x / np.linalg.norm(x), y / np.linalg.norm(y)


def _independent_columns(draw: Any, formula: Any) -> Any:
    """An experiment with a sketch of independent columns: copies of x and y, each on rows of its own."""

    def run(rng: np.random.Generator) -> tuple[Any, Any]:
        n, m, copies = 6, 5, 100
        x, y = unit_pair(rng, n)
        sketch = draw(m, n * copies, rng=rng)
        u, v = (sketch @ np.kron(np.eye(copies), z[:, None]) for z in (x, y))
        return (np.sum(u * v, axis=0) - x @ y) ** 2, formula(x, y, m)

    return run


def _one_by_one(kind: str, n: int, m: int, formula: Any) -> Any:
    """An experiment that averages over a few pairs in each trial, for lighter tails."""

    def run(rng: np.random.Generator) -> tuple[Any, Any]:
        pairs = np.asarray([unit_pair(rng, n) for _ in range(8)])
        sketched = sketch_operator(kind, m, n, rng=rng).apply(pairs, axis=2)
        errors = np.sum(sketched[:, 0] * sketched[:, 1], axis=1) - np.sum(pairs[:, 0] * pairs[:, 1], axis=1)
        return np.mean(errors**2), np.mean([formula(x, y, m) for x, y in pairs])

    return run


experiment(gaussian_variance)(_independent_columns(SKETCHES["gaussian"], gaussian_variance))
experiment(count_sketch_variance)(_independent_columns(count_sketch, count_sketch_variance))
experiment(sparse_sign_variance)(
    _independent_columns(lambda m, n, rng: sparse_sign_sketch(m, n, 3, rng=rng), sparse_sign_variance)
)
experiment(balanced_count_sketch_variance)(_one_by_one("balanced_count", 10, 4, balanced_count_sketch_variance))
experiment(srht_variance)(_one_by_one("srht", 6, 4, srht_variance))


@experiment(sketched_product)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    A, B = rng.standard_normal((12, 3)), rng.standard_normal((12, 2))
    measured, limits = [], []
    for kind in SKETCHES:
        sketch = sketch_operator(kind, 8, 12, rng=rng)
        measured.append(np.sum(((sketch @ A).T @ (sketch @ B) - A.T @ B) ** 2))
        limits.append(sketched_product(A, B, 8, kind))
    return np.asarray(measured), np.asarray(limits)
