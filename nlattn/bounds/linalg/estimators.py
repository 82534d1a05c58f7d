"""Estimates of traces, limits of norms, and leave-one-out errors."""

from typing import get_args

import numpy as np

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.bounds.catalogue.arguments import check_failure
from nlattn.bounds.catalogue.data import psd, with_spectrum
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.linalg import frobenius_norm_bound, leave_one_out_range, spectral_norm_bound, trace_estimate
from nlattn.linalg._norms import chernoff_factor
from nlattn.linalg._trace import Test as TestVector

__all__ = ["frobenius_norm_limit", "leave_one_out_mean", "spectral_norm_limit", "trace_variance"]

FAILURE = 0.05
SPECTRUM = 0.8 ** np.arange(12.0)
NORMAL = ("the entries of w_1, ..., w_r are independent, standard normal, and independent of A",)


@bound(
    "moment",
    "Var (1/m) sum_i w_i^T A w_i = (2/m) (||A||_F^2 - sum_j a_jj^2) for signs, (2/m) ||A||_F^2 for normal entries",
    hypotheses=(
        "A is symmetric",
        "the entries of the m vectors w_i are independent, and random signs or standard normal",
    ),
    source="A. Girard, H. Avron and S. Toledo, DOI 10.1145/1944345.1944349",
)
def trace_variance(a: Floats, products: int, test: TestVector = "sign") -> float:
    """Variance of the Girard-Hutchinson estimate of a trace, which is unbiased.

    Parameters
    ----------
    a : array, shape (n, n)
    products : int
        m.
    test : {"sign", "gaussian"}, default "sign"

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> a = np.asarray([[2.0, 1.0], [1.0, 5.0]])
    >>> nlattn.bounds.trace_variance(a, 4), nlattn.bounds.trace_variance(a, 4, "gaussian")
    (1.0, 15.5)
    """
    check_integer("products", products)
    check_choice("test", test, get_args(TestVector))
    total = np.sum(a * a) - (np.sum(np.diagonal(a) ** 2) if test == "sign" else 0.0)
    return float(2 * total / products)


@experiment(trace_variance, trials=4000, band=(0.9, 1.1))
def trace_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = psd(SPECTRUM, rng)
    test = rng.choice(get_args(TestVector))
    found = trace_estimate(a, 3, method="hutchinson", test=test, rng=rng)
    return (found.value - np.trace(a)) ** 2, trace_variance(a, 3, test)


@bound(
    "probability",
    "||A||_2 <= delta^(-1/r) (2/pi)^(1/2) max_{i <= r} |A w_i|, except with probability delta",
    hypotheses=NORMAL,
    source="arXiv 0909.4061, Lemma 4.1",
)
def spectral_norm_limit(images: Floats, failure: float) -> float:
    """A limit that the spectral norm rarely exceeds, from images of normal vectors.

    Parameters
    ----------
    images : array, shape (m, r)
        A w_i.
    failure : float
        delta.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.spectral_norm_limit(np.asarray([[1.0, 2.0]]), 0.01), 3)
    15.958
    """
    check_failure(failure)
    lengths = np.linalg.norm(images, axis=0)
    return float(failure ** (-1 / lengths.size) * np.sqrt(2 / np.pi) * np.max(lengths))


@experiment(spectral_norm_limit, trials=400, band=(0.2, 1.0), failure=FAILURE)
def spectral_norm_limit_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = with_spectrum(np.asarray([1.0, 0.02]), 6, 5, rng)
    return np.linalg.norm(a, 2), spectral_norm_bound(a, 4, failure=FAILURE, rng=rng).value


@bound(
    "probability",
    "||A||_F^2 <= (1/(t r)) sum_{i <= r} |A w_i|^2 with (t e^(1 - t))^(r/2) = delta, except with probability delta",
    hypotheses=NORMAL,
    source="The Chernoff bound of a chi-square variable, and convexity",
)
def frobenius_norm_limit(images: Floats, failure: float) -> float:
    """A limit that the Frobenius norm rarely exceeds, from images of normal vectors.

    Parameters as in `spectral_norm_limit`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.frobenius_norm_limit(np.ones((1, 10)), 0.01), 2)
    2.39
    """
    check_failure(failure)
    count = images.shape[1]
    return float(np.linalg.norm(images) / np.sqrt(count * chernoff_factor(count, failure)))


@experiment(frobenius_norm_limit, trials=400, band=(0.2, 1.0), failure=FAILURE)
def frobenius_norm_limit_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = with_spectrum(np.asarray([1.0, 0.3]), 6, 5, rng)
    return np.linalg.norm(a), frobenius_norm_bound(a, 4, failure=FAILURE, rng=rng).value


@bound(
    "moment",
    "E (1/s) sum_i 1 / |e_i^T R^-1|^2 = E ||A - Q' Q'^T A||_F^2, Q' from s - 1 columns, A G = Q R with s columns",
    hypotheses=(
        "the columns of G are independent and equally distributed, with uncorrelated entries of mean 0 and variance 1",
        "A G has full column rank",
    ),
    source="arXiv 2207.06342",
)
def leave_one_out_mean(a: Floats, test: Floats) -> float:
    """What the leave-one-out error estimates: the squared error of a range finder with one vector less.

    Parameters
    ----------
    a : array, shape (m, n)
    test : array, shape (n, s - 1)
        Independent columns of one distribution, with uncorrelated entries of mean 0 and variance 1.

    Returns
    -------
    float
        ``||a - Q' Q'^T a||_F^2`` for this draw; its mean is that of the squared `leave_one_out_range`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.leave_one_out_mean(np.diag([3.0, 4.0]), np.asarray([[0.0], [1.0]]))
    9.0
    """
    q = np.linalg.qr(a @ test)[0]
    return float(np.linalg.norm(a - q @ (q.T @ a)) ** 2)


@experiment(leave_one_out_mean, trials=3000, band=(0.95, 1.05))
def leave_one_out_mean_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = with_spectrum(SPECTRUM, 14, 12, rng)
    estimate = leave_one_out_range(a @ rng.standard_normal((12, 5)))
    return estimate**2, leave_one_out_mean(a, rng.standard_normal((12, 4)))
