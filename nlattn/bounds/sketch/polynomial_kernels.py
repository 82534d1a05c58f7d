"""Exact moments of the sketches of polynomial kernels."""

import math

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.bounds.sketch.vectors import unit_pair
from nlattn.sketch import PolynomialSketch, TensorSketch

__all__ = [
    "polynomial_sketch_variance",
    "self_tensored_mean",
    "tensor_sketch_kernel_error",
    "tensor_sketch_variance",
]

FIXED = "x and y do not depend on the draws; with coef0, they stand for [sqrt(gamma) x, sqrt(coef0)]"
SOURCE = "Derived in the proof"


@bound(
    "moment",
    "E (phi(x).phi(y) - s^p)^2 = ((s^2 + a)^p + (s^2 + b)^p - 2 s^2p) / m "
    "+ gcd(2, m) ((s^2 + a + b)^p - (s^2 + a)^p - (s^2 + b)^p + s^2p) / m^2, "
    "s = x.y, q = sum_i x_i^2 y_i^2, a = |x|^2 |y|^2 - q, b = s^2 - q",
    hypotheses=("phi is a TensorSketch of degree p with m features", FIXED),
    source=SOURCE,
)
def tensor_sketch_variance(x: Floats, y: Floats, m: int, degree: int) -> float:
    """Variance of TensorSketch's estimate of (x.y)^degree.

    Parameters
    ----------
    x, y : array, shape (d,)
    m : int
        Number of features.
    degree : int
        p.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.tensor_sketch_variance(np.ones(2), np.ones(2), 4, 1))
    1.0
    """
    square = np.sum(x * y) ** 2
    q = np.sum(x**2 * y**2)
    a, b = np.sum(x**2) * np.sum(y**2) - q, square - q
    one, two, both = (square + a) ** degree, (square + b) ** degree, (square + a + b) ** degree
    exact = square**degree
    return float((one + two - 2 * exact) / m + math.gcd(2, m) * (both - one - two + exact) / m**2)


@experiment(tensor_sketch_variance, trials=30_000, band=(0.9, 1.1))
def tensor_sketch_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    # Each copy of x and y has coordinates of its own, which have hashes of their own: a hundred independent sketches.
    copies, d = 100, 4
    m, degree = int(rng.integers(5, 9)), int(rng.integers(2, 4))
    x, y = unit_pair(rng, d)
    sketch = TensorSketch(copies * d, m, degree, rng=rng)
    products = np.sum(sketch.apply(np.kron(np.eye(copies), x)) * sketch.apply(np.kron(np.eye(copies), y)), axis=1)
    return (products - (x @ y) ** degree) ** 2, tensor_sketch_variance(x, y, m, degree)


@bound(
    "mean",
    "E |K' - K|_F^2 <= (2 (2^p - 1) / m + gcd(2, m) (3^p - 2^(p+1) + 1) / m^2) sum_i |x_i|^2p sum_j |y_j|^2p, "
    "K'_ij = phi(x_i).phi(y_j), K_ij = (x_i.y_j)^p",
    hypotheses=("phi is a TensorSketch of degree p with m features", FIXED),
    source="Derived in the proof; compare arXiv 2505.08146 (Pham and Pagh)",
)
def tensor_sketch_kernel_error(x: Floats, y: Floats, m: int, degree: int) -> float:
    """A limit of the mean squared Frobenius error of TensorSketch's estimate of a polynomial kernel matrix.

    Parameters
    ----------
    x : array, shape (n, d)
    y : array, shape (k, d)
    m, degree : int
        As in `tensor_sketch_variance`.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.tensor_sketch_kernel_error(np.eye(3), np.eye(3), 9, 1))
    2.0
    """
    powers = [float(np.sum(np.sum(rows**2, axis=1) ** degree)) for rows in (x, y)]
    both = 3**degree - 2 ** (degree + 1) + 1
    return (2 * (2**degree - 1) / m + math.gcd(2, m) * both / m**2) * powers[0] * powers[1]


@experiment(tensor_sketch_kernel_error, trials=1000, band=(0.05, 0.3))
def tensor_sketch_kernel_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x = rng.standard_normal((20, 6))
    degree = int(rng.integers(1, 4))
    phi = TensorSketch(6, 31, degree, rng=rng).apply(x)
    return np.sum((phi @ phi.T - (x @ x.T) ** degree) ** 2), tensor_sketch_kernel_error(x, x, 31, degree)


@bound(
    "moment",
    "E (phi(x).phi(y) - s^p)^2 = w_p - s^2p, where w_1 = s^2, u_1 = |x|^2 |y|^2, and for halves i, j of p "
    "w_p = (1 - 1/r) w_i w_j + g / r, u_p = (1 - 1/r) u_i u_j + g / r, g = (u_i + 2 w_i) (u_j + 2 w_j)",
    hypotheses=("phi is a PolynomialSketch of degree p with r features, kind 'gaussian'", FIXED),
    source=SOURCE,
)
def polynomial_sketch_variance(x: Floats, y: Floats, r: int, degree: int) -> float:
    """Variance of the recursive sketch's estimate of (x.y)^degree, with Gaussian nodes.

    Parameters
    ----------
    x, y, degree
        As in `tensor_sketch_variance`.
    r : int
        Number of features.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> x = np.asarray([0.6, 0.8])
    >>> [round(float(nlattn.bounds.polynomial_sketch_variance(x, x, 8, p)), 9) for p in (1, 2, 4, 8)]
    [0.0, 1.0, 7.0, 127.0]
    """
    return _second_moments(x, y, r, degree)[1] - float(np.sum(x * y)) ** (2 * degree)


@experiment(polynomial_sketch_variance, trials=2000, band=(0.85, 1.15))
def polynomial_sketch_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    degree, pairs = int(rng.integers(2, 6)), _pairs(rng)
    estimates, exact = _estimates(PolynomialSketch(5, 40, degree, rng=rng), pairs)
    variances = [polynomial_sketch_variance(x, y, 40, degree) for x, y in pairs]
    # The variance depends on the degree: relative to it all trials count alike.
    return np.mean((estimates - exact) ** 2) / np.mean(variances), 1.0


@bound(
    "moment",
    "E phi(x).phi(y) = s^p + V, V the variance of the sketch of degree p/2",
    hypotheses=(
        "phi is a PolynomialSketch of even degree p with r features before squaring, kind 'gaussian', nonnegative=True",
        FIXED,
    ),
    source=SOURCE,
)
def self_tensored_mean(x: Floats, y: Floats, r: int, degree: int) -> float:
    """Mean of the nonnegative sketch's estimate of (x.y)^degree, which is never below that.

    Parameters as in `polynomial_sketch_variance`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> x, y = np.asarray([1.0, 0.0]), np.asarray([0.0, 1.0])
    >>> float(nlattn.bounds.self_tensored_mean(x, y, 16, 4))
    0.0625
    """
    return _second_moments(x, y, r, degree // 2)[1]


@experiment(self_tensored_mean, trials=2000, band=(0.9, 1.1))
def self_tensored_mean_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    pairs = _pairs(rng)
    estimates, _ = _estimates(PolynomialSketch(5, 20, 4, nonnegative=True, rng=rng), pairs)
    return np.mean(estimates), np.mean([self_tensored_mean(x, y, 20, 4) for x, y in pairs])


def _second_moments(x: Floats, y: Floats, r: int, degree: int) -> tuple[float, float]:
    """E |phi(x)|^2 |phi(y)|^2 and E (phi(x).phi(y))^2."""
    leaf = float(np.sum(x**2) * np.sum(y**2)), float(np.sum(x * y)) ** 2
    return _node_moments(leaf, r, degree)


def _node_moments(leaf: tuple[float, float], r: int, degree: int) -> tuple[float, float]:
    """The second moments of a node over `degree` leaves, whose own moments are those of `leaf`."""
    if degree == 1:
        return leaf
    u, w = _node_moments(leaf, r, degree - degree // 2)
    t, v = _node_moments(leaf, r, degree // 2)
    joint = (u + 2 * w) * (t + 2 * v) / r
    return (1 - 1 / r) * u * t + joint, (1 - 1 / r) * w * v + joint


def _pairs(rng: np.random.Generator) -> Floats:
    """Twelve pairs of vectors for one sketch: means over several pairs have lighter tails."""
    return np.asarray([unit_pair(rng, 5) for _ in range(12)])


def _estimates(sketch: PolynomialSketch, pairs: Floats) -> tuple[Floats, Floats]:
    """The estimate for each pair, and the exact kernel."""
    phi = sketch.apply(pairs)
    return np.sum(phi[:, 0] * phi[:, 1], axis=1), np.sum(pairs[:, 0] * pairs[:, 1], axis=1) ** sketch.degree
