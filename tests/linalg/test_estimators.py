"""Traces, limits of norms, and leave-one-out errors."""

import itertools
import math

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
        (lambda a: trace_estimate(a, 4, test=""), ValueError, "test must be one of 'sign', 'gaussian', got ''"),
        (
            lambda a: spectral_norm_bound(a, 1, failure=1e-320),
            ValueError,
            "failure must be above about .*, or products larger",
        ),
        (
            lambda a: frobenius_norm_bound(a, 1, failure=5e-324),
            ValueError,
            "failure must be above about .*, or products larger",
        ),
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


class Opaque:
    """Only a shape and products."""

    def __init__(self, a):
        self.shape, self._a = a.shape, a

    def __matmul__(self, x):
        return self._a @ x


def test_what_has_only_a_shape_and_products():
    a = decaying(12)
    for method in METHODS:
        expected = trace_estimate(a, 6, method=method, rng=1).value
        np.testing.assert_allclose(trace_estimate(Opaque(a), 6, method=method, rng=1).value, expected, rtol=1e-9)
    for function in (spectral_norm_bound, frobenius_norm_bound):
        np.testing.assert_allclose(function(Opaque(a), rng=1).value, function(a, rng=1).value, rtol=1e-12)


EXTREMES = [(np.float64, s) for s in (1e200, 1e-200, 1e-160)] + [(np.float32, s) for s in (1e-30, 1e25)]


@pytest.mark.parametrize(("dtype", "scale"), EXTREMES)
def test_scale(dtype, scale):
    a = decaying(20).astype(dtype)
    big = a * dtype(scale)
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    opaque = scipy.sparse.linalg.aslinearoperator(big)
    for function in (spectral_norm_bound, frobenius_norm_bound):
        expected = function(a, 4, rng=1)
        for given in (big, opaque):
            np.testing.assert_allclose(np.asarray(function(given, 4, rng=1)[:3:2]) / scale, expected[:3:2], rtol=rtol)
    for method in METHODS:
        expected = trace_estimate(a, 6, method=method, rng=1)
        for given in (big, opaque):
            found = trace_estimate(given, 6, method=method, rng=1)
            np.testing.assert_allclose(np.asarray(found[:2]) / scale, expected[:2], rtol=rtol)
    g = np.random.default_rng(0).standard_normal((20, 4)).astype(dtype)
    np.testing.assert_allclose(leave_one_out_range(big @ g) / scale, leave_one_out_range(a @ g), rtol=rtol)
    y = (a @ a.T @ g).astype(dtype)
    found = leave_one_out_nystrom(y * dtype(scale), g)
    np.testing.assert_allclose(found / scale, leave_one_out_nystrom(y, g), rtol=rtol)
    if dtype == np.float64:
        found = leave_one_out_nystrom(y * scale, g / scale)
        np.testing.assert_allclose(found, leave_one_out_nystrom(y, g), rtol=rtol)


def test_limits_by_their_formulas():
    a = np.diag([3.0, 2.0, 1.0])
    images = a @ np.random.default_rng(1).standard_normal((3, 4))
    lengths = np.linalg.norm(images, axis=0)
    found = spectral_norm_bound(a, 4, failure=0.01, rng=1)
    np.testing.assert_allclose(found.value, 0.01**-0.25 * np.sqrt(2 / np.pi) * lengths.max(), rtol=1e-12)
    found = frobenius_norm_bound(a, 4, failure=0.01, rng=1)
    t = np.mean(lengths**2) / found.value**2
    assert 0 < t < 1
    np.testing.assert_allclose((t * math.exp(1 - t)) ** 2, 0.01, rtol=1e-9)


def test_tiny_failures():
    a = np.diag([3.0, 4.0])
    found = frobenius_norm_bound(a, 1, failure=1e-200, rng=0)
    np.testing.assert_allclose(math.log(found.value / found.estimate), 200 * math.log(10) + 0.5, rtol=1e-9)
    found = spectral_norm_bound(a * 1e-100, 1, failure=1e-320, rng=0)
    expected = 320 * math.log(10) + 0.5 * math.log(2 / math.pi)
    np.testing.assert_allclose(math.log(found.value) - math.log(found.estimate), expected, rtol=1e-4)  # subnormal
    assert spectral_norm_bound(np.zeros((2, 2)), 1, failure=1e-320).value == 0
    for function in (spectral_norm_bound, frobenius_norm_bound):
        with pytest.raises(ValueError, match="above about") as refused:
            function(a, 1, failure=1e-320, rng=0)
        least = float(str(refused.value).split("about ")[1].split(",")[0])
        assert 1e306 < function(a, 1, failure=1.1 * least, rng=0).value < math.inf
        with pytest.raises(ValueError, match="above about"):
            function(a, 1, failure=0.9 * least, rng=0)


def draws(count):
    return [np.reshape(signs, (3, count)) for signs in itertools.product([-1.0, 1.0], repeat=3 * count)]


def test_leave_one_out_range_over_all_signs():
    """Many of the draws have dependent columns."""
    a = np.diag([3.0, 2.0, 1.0])
    squares = [leave_one_out_range(a @ g) ** 2 for g in draws(3)]
    left = [np.linalg.norm(a - (a @ g) @ np.linalg.pinv(a @ g) @ a) ** 2 for g in draws(2)]
    np.testing.assert_allclose(np.mean(squares), np.mean(left), rtol=1e-10)


def test_leave_one_out_nystrom_over_all_signs():
    a = np.diag([3.0, 2.0, 1.0])
    found = [leave_one_out_nystrom(a @ g, g) for g in draws(3)]
    left = [np.trace(a - a @ g @ np.linalg.pinv(g.T @ a @ g) @ g.T @ a) for g in draws(2)]
    np.testing.assert_allclose(np.mean(found), np.mean(left), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_dependent_columns_count_for_nothing(dtype):
    rtol = 1e-4 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(leave_one_out_range(np.asarray([[3, 0], [0, 0], [0, 0]], dtype)), 4.5**0.5, rtol=rtol)
    y = np.random.default_rng(0).standard_normal((30, 4)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        y = y + 1j * np.random.default_rng(1).standard_normal((30, 4))
    y = np.concatenate([y, y[:, :1] * 2 - y[:, 1:2]], axis=1)
    left = []
    for i in (2, 3):
        others = np.delete(y, [i, 4], axis=1).astype(complex)
        left.append(np.linalg.norm(y[:, i] - others @ np.linalg.pinv(others) @ y[:, i]) ** 2)
    np.testing.assert_allclose(leave_one_out_range(y) ** 2, np.sum(left) / 5, rtol=rtol)
    # With a = I and the columns for test vectors, what is left is the same.
    np.testing.assert_allclose(leave_one_out_nystrom(y, y), np.sum(left) / 5, rtol=rtol)


def test_leave_one_out_backends(backend):
    y = np.asarray([[3.0, 1, 4], [0, 2, 2], [0, 0, 0], [1, 1, 2]])
    g = np.asarray([[1.0, -1, 0], [1, 1, 2], [1, -1, 0], [-1, 1, 0]])
    for columns in (2, 3):
        image, test = y[:, :columns].copy(), g[:, :columns].copy()
        found = leave_one_out_range(backend.array(image))
        np.testing.assert_allclose(found, leave_one_out_range(image), rtol=1e-9, atol=1e-14)
        found = leave_one_out_nystrom(backend.array(test), backend.array(test))
        np.testing.assert_allclose(found, leave_one_out_nystrom(test, test), rtol=1e-9, atol=1e-14)


def test_recorded_gradients():
    torch = pytest.importorskip("torch")
    a = torch.tensor(decaying(10), requires_grad=True)
    for method in METHODS:
        trace_estimate(a, 6, method=method, rng=0)
    for function in (spectral_norm_bound, frobenius_norm_bound):
        function(a, rng=0)
    leave_one_out_range(a[:, :3])
    leave_one_out_range(torch.concat([a[:, :3], a[:, :1]], dim=1))
    leave_one_out_nystrom(a[:, :3], a[:, :3])
    leave_one_out_nystrom(torch.concat([a[:, :3], a[:, :1]], dim=1), torch.concat([a[:, :3], a[:, :1]], dim=1))
