"""Traces, limits of norms, and leave-one-out errors."""

import numpy as np
import pytest
import scipy.sparse.linalg

from nlattn.linalg import (
    frobenius_norm_bound,
    leave_one_out_nystrom,
    leave_one_out_range,
    spectral_norm_bound,
    trace_estimate,
)
from nlattn.testing import to_numpy

METHODS = ["xtrace", "hutch++", "hutchinson"]


def decaying(n=40, seed=0):
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (left * 0.7 ** np.arange(n)) @ right.T + 0.3 * np.eye(n)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("test", ["sign", "gaussian"])
def test_traces_are_unbiased(method, test):
    """Of a matrix that is not symmetric; the standard error is right where the terms are independent."""
    a = decaying()
    rng = np.random.default_rng(0)
    found = [trace_estimate(a, 12, method=method, test=test, rng=rng) for _ in range(1500)]
    values = np.asarray([each.value for each in found])
    assert abs(values.mean() - np.trace(a)) < 5 * values.std() / np.sqrt(values.size)
    errors = np.sqrt(np.mean([each.standard_error**2 for each in found]))
    assert (0.8 if method != "xtrace" else 0.5) < errors / values.std() < 1.25
    assert {each.products for each in found} == {12}
    assert {each.kind for each in found} == {"estimate"}


def test_leaving_one_out_against_its_definition():
    """Each term of XTrace from a projector on the images of the other vectors."""
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


@pytest.mark.parametrize("failure", [0.3, 0.05])
@pytest.mark.parametrize(("function", "norm"), [(spectral_norm_bound, 2), (frobenius_norm_bound, "fro")])
def test_limits_of_norms_are_kept(failure, function, norm):
    a = decaying(20) if norm == 2 else np.diag([1.0] + [0.0] * 19)  # one direction is the worst case for both
    exact = np.linalg.norm(a, norm)
    found = [function(a, 4, failure=failure, rng=seed) for seed in range(600)]
    missed = np.sum(np.asarray([each.value for each in found]) < exact)
    assert missed <= 600 * failure + 5 * np.sqrt(600 * failure)
    assert np.median([each.value for each in found]) < 12 * exact
    assert {each.failure for each in found} == {failure}
    assert found[0].kind == "probabilistic"
    assert function(np.zeros((3, 2)), rng=0).value == 0


def test_frobenius_estimate_is_unbiased():
    a = decaying(20)
    squares = [frobenius_norm_bound(a, 5, rng=seed).estimate ** 2 for seed in range(800)]
    np.testing.assert_allclose(np.mean(squares), np.linalg.norm(a) ** 2, rtol=0.03)


def test_leave_one_out_identities():
    rng = np.random.default_rng(0)
    a, g = decaying(15), rng.standard_normal((15, 5))
    y = a @ g
    left = []
    for i in range(5):
        q = np.linalg.qr(np.delete(y, i, axis=1))[0]
        left.append(np.linalg.norm(y[:, i] - q @ (q.T @ y[:, i])) ** 2)
    np.testing.assert_allclose(leave_one_out_range(y) ** 2, np.mean(left), rtol=1e-10)
    a = a @ a.T
    y, left = a @ g, []
    for i in range(5):
        w, image = np.delete(g, i, axis=1), np.delete(y, i, axis=1)
        left.append(g[:, i] @ (a - image @ np.linalg.solve(w.T @ image, image.T)) @ g[:, i])
    np.testing.assert_allclose(leave_one_out_nystrom(y, g), np.mean(left), rtol=1e-9)
    assert leave_one_out_range(np.zeros((4, 2))) == leave_one_out_nystrom(np.zeros((4, 2)), np.ones((4, 2))) == 0


def test_operators_and_backends(backend):
    a = decaying()
    op = scipy.sparse.linalg.aslinearoperator(a)
    for method in METHODS:
        expected = trace_estimate(a, 9, method=method, rng=1)
        np.testing.assert_allclose(trace_estimate(op, 9, method=method, rng=1).value, expected.value, rtol=1e-9)
        np.testing.assert_allclose(
            trace_estimate(backend.array(a), 9, method=method, rng=1).value, expected.value, rtol=1e-9
        )
    for function in (spectral_norm_bound, frobenius_norm_bound):
        np.testing.assert_allclose(function(backend.array(a), rng=1).value, function(op, rng=1).value, rtol=1e-9)
    y = backend.array(a[:, :4].copy())
    np.testing.assert_allclose(leave_one_out_range(y), leave_one_out_range(to_numpy(y)), rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda a: trace_estimate(a[:3], 4), ValueError, "a must be square, got shape"),
        (lambda a: trace_estimate(a, 1), ValueError, "products must be at least 2, got 1"),
        (lambda a: trace_estimate(a, 4, method="xnystrace"), ValueError, "method must be one of"),
        (lambda a: trace_estimate(a * 1j, 4), TypeError, "a must be real"),
        (lambda a: spectral_norm_bound(a, failure=0.0), ValueError, "failure must be > 0 and < 1, got 0"),
        (lambda a: spectral_norm_bound(a, 0), ValueError, "products must be at least 1"),
        (
            lambda a: leave_one_out_range(a.T[:3]),
            ValueError,
            "images must have at least one column and no more than rows",
        ),
        (lambda a: leave_one_out_nystrom(a, a[:3]), ValueError, "images and test must have one shape"),
    ],
)
def test_bad_input(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call(decaying())
