"""Upper limits of norms from products with random vectors."""

import math
from typing import Any, NamedTuple

from scipy import optimize

from nlattn.linalg.operators import operator
from nlattn.linalg.residuals import frobenius_squared
from nlattn.rng import generator, standard_normal
from nlattn.validation import check_integer, check_number

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
    kind: str = "probabilistic"


def spectral_norm_bound(
    a: Any, products: int = 10, *, failure: float = 1e-3, rng: Any = None, check_finite: bool = True
) -> NormBound:
    """A limit of the spectral norm.

    Parameters
    ----------
    a : array, shape (m, n), or operator
        Real; an operator has ``shape`` and ``@``.
    products : int, default 10
        r: more of them make the limit tighter, by ``failure^(-1/r)``.
    failure : float, default 1e-3
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
    op = operator("a", a, allow_complex=False, check_finite=check_finite)
    failure = check_number("failure", failure, above=0.0, below=1.0)
    count = check_integer("products", products)
    images = op @ standard_normal(generator(rng), (op.shape[1], count), op.like)
    largest = max((math.sqrt(frobenius_squared(images[:, i : i + 1])) for i in range(count)), default=0.0)
    return NormBound(failure ** (-1 / count) * math.sqrt(2 / math.pi) * largest, failure, largest)


def frobenius_norm_bound(
    a: Any, products: int = 10, *, failure: float = 1e-3, rng: Any = None, check_finite: bool = True
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
    op = operator("a", a, allow_complex=False, check_finite=check_finite)
    failure = check_number("failure", failure, above=0.0, below=1.0)
    count = check_integer("products", products)
    images = op @ standard_normal(generator(rng), (op.shape[1], count), op.like)
    mean = frobenius_squared(images) / count
    return NormBound(math.sqrt(mean / chernoff_factor(count, failure)), failure, math.sqrt(mean))


def chernoff_factor(products: int, failure: float) -> float:
    """The t < 1 with ``(t e^(1 - t))^(products / 2) = failure``."""
    aim = 2 * math.log(failure) / products
    return math.exp(optimize.brentq(lambda x: x + 1 - math.exp(x) - aim, aim - 1, 0.0))
