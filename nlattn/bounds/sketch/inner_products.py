"""Exact second moments of inner products and matrix products after a linear sketch."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, get_args

import numpy as np

from nlattn.arrays.arguments import check_choice
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.bounds.sketch.vectors import unit_pair
from nlattn.sketch import Sketch, count_sketch, gaussian_sketch, sketch_operator, sparse_sign_sketch
from nlattn.sketch._factory import SketchKind

__all__ = [
    "balanced_count_sketch_variance",
    "count_sketch_variance",
    "gaussian_variance",
    "sketched_product",
    "sparse_sign_variance",
    "srht_variance",
]

InnerProductVariance: TypeAlias = Callable[[Floats, Floats, int], float]

SOURCE = "Derived in the proof"
FIXED = "x and y do not depend on the sketch"
ERROR = "E (Sx.Sy - x.y)^2"
SIGNED = "(|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2)"


@bound(
    "moment",
    "E |A^T S^T S B - A^T B|_F^2 = c (|A|_F^2 |B|_F^2 + |A^T B|_F^2 - 2 sum_i |a_i|^2 |b_i|^2), a_i and b_i the rows; "
    "c = 1/m, or (N / m - 1) / (N - 1) for balanced_count and srht; no last term for gaussian",
    hypotheses=("S is an m x n sketch from sketch_operator, of the given kind", "A and B do not depend on S"),
    source=SOURCE,
)
def sketched_product(A: Floats, B: Floats, m: int, kind: SketchKind) -> float:
    """Mean squared error of a sketched matrix product.

    Parameters
    ----------
    A : array, shape (n, p)
    B : array, shape (n, q)
    m : int
        Rows of the sketch.
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
    check_choice("kind", kind, get_args(SketchKind))
    squares = np.sum(A**2) * np.sum(B**2) + np.sum((A.T @ B) ** 2)
    if kind != "gaussian":
        squares -= 2 * np.sum(np.sum(A**2, axis=1) * np.sum(B**2, axis=1))
    return float(squares * _variance_factor(kind, m, A.shape[0]))


@experiment(sketched_product, trials=3000, band=(0.9, 1.1))
def sketched_product_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    A, B = rng.standard_normal((12, 3)), rng.standard_normal((12, 2))
    measured, limits = [], []
    for kind in get_args(SketchKind):
        sketch = sketch_operator(kind, 8, 12, rng=rng)
        measured.append(np.sum(((sketch @ A).T @ (sketch @ B) - A.T @ B) ** 2))
        limits.append(sketched_product(A, B, 8, kind))
    return np.asarray(measured), np.asarray(limits)


@bound(
    "moment",
    f"{ERROR} = (|x|^2 |y|^2 + (x.y)^2) / m",
    hypotheses=("S is an m x n sketch from gaussian_sketch", FIXED),
    source=SOURCE,
)
def gaussian_variance(x: Floats, y: Floats, m: int) -> float:
    """Variance of an inner product after a Gaussian sketch.

    Parameters
    ----------
    x, y : array, shape (n,)
    m : int
        Rows of the sketch.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.gaussian_variance(np.asarray([3.0, 4.0]), np.asarray([0.0, 1.0]), 41))
    1.0
    """
    return sketched_product(x[:, None], y[:, None], m, "gaussian")


@experiment(gaussian_variance, trials=20_000, band=(0.9, 1.1))
def gaussian_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return _independent_columns(rng, gaussian_sketch, gaussian_variance)


@bound("moment", f"{ERROR} = {SIGNED} / m", hypotheses=("S is an m x n sketch from count_sketch", FIXED), source=SOURCE)
def count_sketch_variance(x: Floats, y: Floats, m: int) -> float:
    """Variance of an inner product after a CountSketch; parameters as in `gaussian_variance`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.count_sketch_variance(np.ones(3), np.ones(3), 4))
    3.0
    """
    return sketched_product(x[:, None], y[:, None], m, "count")


@experiment(count_sketch_variance, trials=20_000, band=(0.9, 1.1))
def count_sketch_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return _independent_columns(rng, count_sketch, count_sketch_variance)


@bound(
    "moment",
    f"{ERROR} = {SIGNED} / m, whatever the number of nonzeros",
    hypotheses=("S is an m x n sketch from sparse_sign_sketch", FIXED),
    source=SOURCE,
)
def sparse_sign_variance(x: Floats, y: Floats, m: int) -> float:
    """Variance of an inner product after a sparse sign embedding: that of a CountSketch, with the same parameters.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.sparse_sign_variance(np.ones(3), np.ones(3), 4))
    3.0
    """
    return sketched_product(x[:, None], y[:, None], m, "sparse_sign")


@experiment(sparse_sign_variance, trials=20_000, band=(0.9, 1.1))
def sparse_sign_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return _independent_columns(rng, partial(sparse_sign_sketch, nonzeros=3), sparse_sign_variance)


@bound(
    "moment",
    f"{ERROR} = {SIGNED} (N / m - 1) / (N - 1), N = m ceil(n / m)",
    hypotheses=("S is an m x n sketch from count_sketch with balanced=True", FIXED),
    source=SOURCE,
)
def balanced_count_sketch_variance(x: Floats, y: Floats, m: int) -> float:
    """Variance of an inner product after a balanced CountSketch; parameters as in `gaussian_variance`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.balanced_count_sketch_variance(np.ones(4), np.ones(4), 2))
    8.0
    """
    return sketched_product(x[:, None], y[:, None], m, "balanced_count")


@experiment(balanced_count_sketch_variance, trials=2000, band=(0.9, 1.1))
def balanced_count_sketch_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return _mean_over_pairs(rng, "balanced_count", balanced_count_sketch_variance, 10)


@bound(
    "moment",
    f"{ERROR} = {SIGNED} (N / m - 1) / (N - 1), N = 2^ceil(log2 n)",
    hypotheses=("S is an m x n sketch from srht_sketch", FIXED),
    source=SOURCE,
)
def srht_variance(x: Floats, y: Floats, m: int) -> float:
    """Variance of an inner product after a subsampled randomized Hadamard transform.

    Parameters as in `gaussian_variance`. For m = N the transform is an isometry, and the variance 0.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.srht_variance(np.ones(4), np.ones(4), 2))
    8.0
    """
    return sketched_product(x[:, None], y[:, None], m, "srht")


@experiment(srht_variance, trials=2000, band=(0.9, 1.1))
def srht_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    return _mean_over_pairs(rng, "srht", srht_variance, 6)


def _variance_factor(kind: SketchKind, m: int, n: int) -> float:
    """The c of `sketched_product`."""
    if kind not in ("balanced_count", "srht"):
        return 1 / m
    padded = m * -(-n // m) if kind == "balanced_count" else 1 << max(n - 1, 0).bit_length()
    return (padded / m - 1) / (padded - 1) if padded > 1 else 0.0


def _independent_columns(
    rng: np.random.Generator, draw: Callable[..., Sketch], formula: InnerProductVariance
) -> tuple[Measured, Measured]:
    """A hundred trials with one sketch of independent columns: each copy of x and y has columns of its own."""
    n, m, copies = 6, 5, 100
    x, y = unit_pair(rng, n)
    sketch = draw(m, n * copies, rng=rng)
    u, v = (sketch @ np.kron(np.eye(copies), z[:, None]) for z in (x, y))
    return (np.sum(u * v, axis=0) - x @ y) ** 2, formula(x, y, m)


def _mean_over_pairs(
    rng: np.random.Generator, kind: SketchKind, formula: InnerProductVariance, n: int
) -> tuple[Measured, Measured]:
    """One sketch of eight pairs of vectors: the mean squared error over several pairs has lighter tails."""
    m = 4
    pairs = np.asarray([unit_pair(rng, n) for _ in range(8)])
    sketched = sketch_operator(kind, m, n, rng=rng).apply(pairs, axis=2)
    errors = np.sum(sketched[:, 0] * sketched[:, 1], axis=1) - np.sum(pairs[:, 0] * pairs[:, 1], axis=1)
    return np.mean(errors**2), np.mean([formula(x, y, m) for x, y in pairs])
