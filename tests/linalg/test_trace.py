"""Traces from products with random vectors."""

import numpy as np
import pytest
from spectra import decaying

from nlattn.linalg import trace_estimate

METHODS = ["xtrace", "hutch++", "hutchinson"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("test", ["sign", "gaussian"])
def test_traces_are_unbiased(method, test):
    """The matrix is not symmetric; the standard error is right where the terms are independent."""
    a = decaying(20)
    rng = np.random.default_rng(0)
    found = [trace_estimate(a, 12, method=method, test=test, rng=rng) for _ in range(400)]
    values = np.asarray([each.value for each in found])
    assert abs(values.mean() - np.trace(a)) < 5 * values.std() / np.sqrt(values.size)
    errors = np.sqrt(np.mean([each.standard_error**2 for each in found]))
    assert (0.8 if method != "xtrace" else 0.5) < errors / values.std() < 1.25
    assert {each.products for each in found} == {12}
    assert {each.kind for each in found} == {"estimate"}


def test_leaving_one_out_against_its_definition():
    """Each term of XTrace is computed from a projector onto the images of the other vectors."""
    n, count = 9, 4
    rng = np.random.default_rng(1)
    a, w = rng.standard_normal((n, n)), np.random.default_rng(5).standard_normal((n, count))
    terms = []
    for i in range(count):
        q = np.linalg.qr(np.delete(a @ w, i, axis=1))[0]
        rest = w[:, i] - q @ (q.T @ w[:, i])
        terms.append(np.trace(q.T @ a @ q) + (n - count + 1) / (rest @ rest) * (rest @ a @ rest))
    found = trace_estimate(a, 2 * count, rng=5)
    np.testing.assert_allclose(found.value, np.mean(terms), rtol=1e-10)
    np.testing.assert_allclose(found.standard_error, np.std(terms, ddof=1) / np.sqrt(count), rtol=1e-9)


def test_better_methods_are_better():
    a = decaying(60)
    a = a @ a.T
    spread = {}
    for method in METHODS:
        values = [trace_estimate(a, 24, method=method, rng=seed).value for seed in range(60)]
        spread[method] = np.sqrt(np.mean((np.asarray(values) - np.trace(a)) ** 2))
    assert spread["xtrace"] < 0.7 * spread["hutch++"] < 0.5 * spread["hutchinson"]


@pytest.mark.parametrize("method", ["xtrace", "hutch++"])
def test_low_rank_is_exact(method):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 30))
    np.testing.assert_allclose(trace_estimate(a, 12, method=method, rng=0).value, np.trace(a), rtol=1e-9)
    assert trace_estimate(np.zeros((5, 5)), 6, method=method, rng=0).value == 0


@pytest.mark.parametrize("method", METHODS)
def test_small_sizes(method):
    assert trace_estimate(np.zeros((0, 0)), 3, method=method).value == 0
    np.testing.assert_allclose(trace_estimate(np.full((1, 1), 4), 3, method=method, rng=0).value, 4)
    assert np.isfinite(trace_estimate(np.ones((2, 2)), 40, method=method, rng=0).value)
    single = trace_estimate(np.eye(3), 1 if method == "hutchinson" else 3, method=method, rng=0)
    assert np.isnan(single.standard_error)
