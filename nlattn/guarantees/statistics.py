"""What a sample of row errors says about all rows."""

import math

import numpy as np
from scipy import special, stats

__all__ = ["mean_bound", "order_statistic", "ratio_upper"]


def order_statistic(rows: int, p: float, delta: float) -> int | None:
    """k such that the k-th largest of `rows` sampled values is at least the p-quantile, with probability 1 - delta.

    That is, at least k of the values reach the quantile with that probability. None where not even the largest value
    does. It holds for any distribution, with and without replacement, and for equal samples of several strata: the
    number of values that reach the quantile is a sum of independent Bernoulli variables (a hypergeometric one is too,
    Vatutin and Mikhailov 1982), and up to rows (1 - p) - 1 its lower tail is at most that of the binomial variable of
    the same mean (Hoeffding 1956).
    """
    if p**rows > delta:
        return None
    k = int(stats.binom.ppf(delta, rows, 1 - p))
    while k > 0 and stats.binom.cdf(k - 1, rows, 1 - p) > delta:
        k -= 1
    # The comparison of the tails needs k - 1 <= rows (1 - p) - 1. k = 1 is allowed in any case: by the inequality of
    # the means, the probability that no value reaches the quantile is at most p^rows.
    return max(1, min(k, math.floor(rows * (1 - p))))


def mean_bound(errors: np.ndarray, largest: np.ndarray, population: int, delta: float) -> np.ndarray:
    """Upper bound, with probability 1 - delta, of the mean of a population of numbers in [0, largest].

    This is the empirical Bernstein-Serfling inequality for sampling without replacement along the last axis (Bardenet
    and Maillard 2015, arXiv 1309.4029, theorem 4.3).
    """
    n = errors.shape[-1]
    average = np.asarray(np.mean(errors, axis=-1))
    if n >= population:
        return average
    rho = 1 - (n - 1) / population if 2 * n <= population else (1 - n / population) * (1 + 1 / n)
    level = math.log(5 / delta)
    deviation = np.std(errors, axis=-1)
    margin = deviation * math.sqrt(2 * rho * level / n) + (7 / 3 + 3 / math.sqrt(2)) * largest * level / n
    return np.asarray(np.minimum(average + margin, largest))


def ratio_upper(top: np.ndarray, bottom: np.ndarray, population: int, delta: float) -> np.ndarray:
    """Upper limit of sum(top) / sum(bottom) over all rows, from a sample of rows along the last axis.

    Sums also run over the strata on the axis before it, which have `population` rows each, and as many in the sample.
    The limit is one for light tails: the ratio is linearised, skewness is corrected for (Hall 1992, Annals of
    Statistics 20), and an observation of twice the largest is added, so that a constant sample does not vouch for all
    rows.
    """
    n = top.shape[-1]
    total = np.sum(bottom, axis=(-2, -1))
    ratio = np.asarray(np.sum(top, axis=(-2, -1)) / np.where(total > 0, total, 1))
    if n >= population:
        return ratio
    residual = top - ratio[..., None, None] * bottom
    extreme = 2 * np.max(top, axis=-1, keepdims=True)
    extreme = extreme - ratio[..., None, None] * np.mean(bottom, axis=-1, keepdims=True)
    residual = np.concatenate([residual, np.maximum(extreme, 0)], axis=-1)
    centred = residual - np.mean(residual, axis=-1, keepdims=True)
    # Cumulants of the sum over the strata of the sample means.
    variance = np.sum(np.mean(centred**2, axis=-1), axis=-1) / n * (1 - n / population)
    third = np.sum(np.mean(centred**3, axis=-1), axis=-1) / n**2
    deviation = np.sqrt(variance)
    skewness = np.maximum(third / np.where(variance > 0, variance, 1) ** 1.5, 1e-6)
    normal = -special.ndtri(1 - delta)
    quantile = 3 / skewness * (np.cbrt(1 + skewness * (normal - skewness / 6)) - 1)
    scale = np.mean(bottom, axis=-1).sum(axis=-1)
    return np.asarray(ratio - quantile * deviation / np.where(scale > 0, scale, 1))
