"""Upper limits of norms from products with random vectors."""

import math
import sys
from typing import Literal, NamedTuple

from nlattn.arrays.arguments import check_integer, check_number
from nlattn.arrays.boundary import on_numpy
from nlattn.arrays.host import to_float
from nlattn.arrays.random import generator, standard_normal
from nlattn.arrays.typing import Array, RngLike
from nlattn.linalg._magnitudes import scaled, squared_norm
from nlattn.linalg._operators import LinearMap, Operator, operator

__all__ = ["NormBound", "chernoff_factor", "frobenius_norm_bound", "spectral_norm_bound"]


class NormBound(NamedTuple):
    """An upper limit that holds except with a given probability.

    Attributes
    ----------
    value : float
        The limit.
    failure : float
        The probability, over the random vectors, that the norm is larger.
    estimate : float
        What the same products say of the size of the norm; neither an upper nor a lower limit.
    kind : str
        "probabilistic".
    """

    value: float
    failure: float
    estimate: float
    kind: Literal["probabilistic"] = "probabilistic"


@on_numpy
def spectral_norm_bound(
    a: Array | LinearMap, products: int = 10, *, failure: float = 1e-3, rng: RngLike = None, check_finite: bool = True
) -> NormBound:
    """A limit of the spectral norm.

    Parameters
    ----------
    a : array, shape (m, n), or operator
        Real; an operator has ``shape`` and ``@``.
    products : int, default 10
        r: more of them make the limit tighter, by ``failure^(-1/r)``.
    failure : float, default 1e-3
        Above 0. Refused if the limit is beyond the largest float64 number.
    rng : None, int, SeedSequence or Generator, optional
        Must be independent of the matrix: a residual needs fresh vectors.
    check_finite : bool, default True

    Returns
    -------
    NormBound
        ``value = failure^(-1/r) (2/pi)^(1/2) max_i |a w_i|``.

    Notes
    -----
    ``spectral_norm_limit`` in ``nlattn.bounds`` (arXiv 0909.4061, Lemma 4.1).

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import spectral_norm_bound
    >>> spectral_norm_bound(np.diag([3.0, 1.0]), rng=0).value > 3
    True
    """
    op, count, failure = _checked(a, products, failure, check_finite)
    images, _, scale = _images(op, count, rng)
    largest = scale * max(math.sqrt(to_float(squared_norm(images[:, i : i + 1]))) for i in range(count))
    return _limit(-math.log(failure) / count, math.sqrt(2 / math.pi), largest, failure, count)


@on_numpy
def frobenius_norm_bound(
    a: Array | LinearMap, products: int = 10, *, failure: float = 1e-3, rng: RngLike = None, check_finite: bool = True
) -> NormBound:
    """A limit of the Frobenius norm; parameters as in `spectral_norm_bound`.

    Returns
    -------
    NormBound
        ``value^2 = mean_i |a w_i|^2 / t`` with ``(t e^(1 - t))^(r/2) = failure``, and ``estimate^2`` the mean, which
        is unbiased.

    Notes
    -----
    ``frobenius_norm_limit`` in ``nlattn.bounds``.

    Examples
    --------
    >>> import numpy as np
    >>> from nlattn.linalg import frobenius_norm_bound
    >>> frobenius_norm_bound(np.diag([3.0, 4.0]), rng=0).value > 5
    True
    """
    op, count, failure = _checked(a, products, failure, check_finite)
    _, norm, scale = _images(op, count, rng)
    return _limit(-_log_chernoff(count, failure) / 2, 1.0, scale * norm / math.sqrt(count), failure, count)


def chernoff_factor(products: int, failure: float) -> float:
    """The t < 1 with ``(t e^(1 - t))^(products / 2) = failure``."""
    return math.exp(_log_chernoff(products, failure))


def _log_chernoff(products: int, failure: float) -> float:
    from scipy import optimize  # nlattn.METHODS is listed without SciPy

    aim = 2 * math.log(failure) / products
    return float(optimize.brentq(lambda x: x + 1 - math.exp(x) - aim, aim - 1, 0.0))


def _checked(a: Array | LinearMap, products: int, failure: float, check_finite: bool) -> tuple[Operator, int, float]:
    op = operator("a", a, allow_complex=False, check_finite=check_finite)
    failure = check_number("failure", failure, above=0.0, below=1.0)
    return op, check_integer("products", products), failure


def _images(op: Operator, count: int, rng: RngLike) -> tuple[Array, float, float]:
    """Products with Gaussian vectors as `scaled` gives them, with the scale of `op` too."""
    images = op @ standard_normal(generator(rng), (op.shape[1], count), op.like)
    if 0 in images.shape:
        return images, 0.0, 1.0
    images, norm, scale = scaled(images)
    return images, norm, scale * op.scale


def _limit(log_factor: float, constant: float, estimate: float, failure: float, count: int) -> NormBound:
    """The limit ``exp(log_factor) constant estimate``; raises where it is beyond the largest number."""
    root = math.exp(log_factor / 2)  # its square may overflow where the limit does not
    value = root * (constant * estimate) * root
    if value == math.inf and math.isfinite(estimate):
        # For factors as large as this, log_factor is -log(failure) / count plus a constant.
        room = math.log(sys.float_info.max) - math.log(constant * estimate) - (log_factor + math.log(failure) / count)
        raise ValueError(
            f"failure must be above about {math.exp(-count * room):.2g}, or products larger, for a limit below "
            f"{sys.float_info.max:.2g}, got failure={failure:g} and products={count}"
        )
    return NormBound(value, failure, estimate)
