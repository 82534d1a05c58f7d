"""Bounds of samples, tested by counting how often they fail."""

import numpy as np
import pytest
from scipy import stats

from nlattn.guarantees.statistics import mean_bound, order_statistic, ratio_upper

DELTA = 0.05
TRIALS = 2000


def allowed(delta: float, trials: int) -> int:
    """Failures that a true statement at `delta` exceeds with probability below 1e-6."""
    return int(stats.binom.isf(1e-6, trials, delta))


@pytest.mark.parametrize(("p", "delta", "least"), [(0.95, 0.01, 90), (0.99, 0.05, 299), (0.95, 0.05, 59)])
def test_rows_that_a_quantile_needs(p, delta, least):
    assert order_statistic(least - 1, p, delta) is None
    assert order_statistic(least, p, delta) == 1


@pytest.mark.parametrize("rows", [90, 256, 1000])
def test_order_statistic_is_the_largest_that_is_safe(rows):
    k = order_statistic(rows, 0.95, 0.01)
    # Fewer than k of the rows lie above the quantile with probability at most 1 %, and with k + 1 it would be more.
    assert stats.binom.cdf(k - 1, rows, 0.05) <= 0.01
    assert stats.binom.cdf(k, rows, 0.05) > 0.01


@pytest.mark.parametrize("population", [400, 5000])
def test_quantile_bound_fails_no_more_often_than_stated(population):
    rng = np.random.default_rng(0)
    values = rng.lognormal(0, 2, population)
    truth = np.sort(values)[int(np.ceil(0.95 * population)) - 1]
    k = order_statistic(200, 0.95, DELTA)
    failures, ratios = 0, []
    for _ in range(TRIALS):
        bound = np.sort(rng.choice(values, 200, replace=False))[200 - k]
        failures += bound < truth
        ratios.append(bound / truth)
    assert failures <= allowed(DELTA, TRIALS)
    assert np.median(ratios) < 4  # not vacuous


def test_pooled_quantile_of_unequal_strata():
    """All that is above the quantile may lie in one stratum."""
    rng = np.random.default_rng(5)
    values = rng.random((4, 3000))
    values[0, :600] += 1  # 5 % of all, 20 % of the first stratum
    truth = np.sort(values.ravel())[int(np.ceil(0.95 * values.size)) - 1]
    k = order_statistic(4 * 64, 0.95, DELTA)
    failures = 0
    for _ in range(TRIALS):
        sample = np.concatenate([rng.choice(row, 64, replace=False) for row in values])
        failures += np.sort(sample)[4 * 64 - k] < truth
    assert failures <= allowed(DELTA, TRIALS)


@pytest.mark.parametrize("bad", [0.002, 0.02, 0.3])
@pytest.mark.parametrize("population", [500, 10_000])
def test_mean_bound_fails_no_more_often_than_stated(bad, population):
    rng = np.random.default_rng(1)
    values = (np.arange(population) < bad * population).astype(float)  # the hardest kind: two points
    samples = np.stack([rng.choice(values, 256, replace=False) for _ in range(TRIALS)])
    bounds = mean_bound(samples, 1.0, population, DELTA)
    assert np.sum(bounds < values.mean()) <= allowed(DELTA, TRIALS)
    assert np.median(bounds) < values.mean() + 0.2


def test_mean_bound_of_all_rows_is_the_mean():
    values = np.random.default_rng(0).random(50)
    assert mean_bound(values, 1.0, 50, 0.01) == values.mean()


def test_mean_bound_needs_its_range():
    """With a range that is too small it is no bound: unseen rows of value 1 go uncounted."""
    values = (np.arange(10_000) < 20).astype(float)
    rng = np.random.default_rng(2)
    samples = np.stack([rng.choice(values, 100, replace=False) for _ in range(500)])
    assert np.sum(mean_bound(samples, 1e-3, 10_000, DELTA) < values.mean()) > allowed(DELTA, 500)


@pytest.mark.parametrize("strata", [1, 4])
@pytest.mark.parametrize("tail", ["chi-square", "exponential", "constant"])
def test_ratio_upper_has_nominal_coverage_for_light_tails(strata, tail):
    rng = np.random.default_rng(3)
    population = 4096
    draw = {"chi-square": lambda s: rng.chisquare(8, s), "exponential": lambda s: rng.exponential(size=s)}
    top = draw.get(tail, lambda s: np.full(s, 0.5))((strata, population))
    bottom = rng.chisquare(32, (strata, population))
    truth = top.sum() / bottom.sum()
    rows = np.stack([rng.choice(population, 128, replace=False) for _ in range(TRIALS * strata)])
    sample = (x[np.arange(strata)[:, None], rows.reshape(TRIALS, strata, 128)] for x in (top, bottom))
    upper = ratio_upper(*sample, population, DELTA)
    assert np.sum(upper < truth) <= allowed(DELTA, TRIALS)
    assert 1 < np.median(upper / truth) < 1.6


def test_ratio_upper_cannot_see_rare_bad_rows():
    """The counterexample outside its hypothesis: it is an estimate, not a bound."""
    rng = np.random.default_rng(4)
    top = np.full((1, 8192), 1e-4)
    top[0, :8] = 1.0
    bottom = np.ones((1, 8192))
    failures = 0
    for _ in range(200):
        rows = rng.choice(8192, 256, replace=False)
        failures += ratio_upper(top[:, rows], bottom[:, rows], 8192, 0.01) < top.mean()
    assert failures > allowed(0.01, 200)


def test_ratio_upper_of_constant_samples():
    ones = np.ones((1, 64))
    assert ratio_upper(0 * ones, ones, 1000, 0.01) == 0
    assert ratio_upper(0.25 * ones, ones, 1000, 0.01) > 0.25
    assert ratio_upper(0.25 * ones, ones, 64, 0.01) == 0.25
