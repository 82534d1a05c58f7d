"""Traces, limits of norms and leave-one-out errors: on every library, at every scale, and what is refused."""

import numpy as np
import pytest
import scipy.sparse.linalg
from spectra import EXTREMES, decaying

from nlattn.linalg import (
    frobenius_norm_bound,
    leave_one_out_nystrom,
    leave_one_out_range,
    spectral_norm_bound,
    trace_estimate,
)
from nlattn.testing import to_numpy

METHODS = ["xtrace", "hutch++", "hutchinson"]


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
