"""Leverage scores, Lewis weights and samples: on every library, at every scale, and what is refused."""

import numpy as np
import pytest
from spectra import EXTREMES, spiked

from nlattn.linalg import importance_sample, leverage_scores, lewis_weights, product_probabilities, sampled_product
from nlattn.testing import to_numpy


def test_backends(backend):
    a = spiked(30, 3)
    np.testing.assert_allclose(to_numpy(leverage_scores(backend.array(a))), leverage_scores(a), atol=1e-12)
    sketched = leverage_scores(backend.array(a), method="sketch", rng=1)
    np.testing.assert_allclose(to_numpy(sketched), leverage_scores(a, method="sketch", rng=1), rtol=1e-9)
    np.testing.assert_allclose(to_numpy(lewis_weights(backend.array(a), 1.0)), lewis_weights(a, 1.0), rtol=1e-6)
    for replace in (True, False):
        weights = np.abs(a[:, 0])
        found = importance_sample(backend.array(weights), 8, replace=replace, rng=4)
        expected = importance_sample(weights, 8, replace=replace, rng=4)
        np.testing.assert_array_equal(to_numpy(found.index), expected.index)
        np.testing.assert_allclose(to_numpy(found.log_weight), expected.log_weight, rtol=1e-12)
    product = sampled_product(backend.array(a.T.copy()), backend.array(a), 5, rng=2)
    np.testing.assert_allclose(to_numpy(product), sampled_product(a.T, a, 5, rng=2), rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda a: leverage_scores(a, ridge=-1.0), ValueError, "ridge must be >= 0, got -1"),
        (lambda a: leverage_scores(a, method="svd"), ValueError, "method must be one of 'exact', 'sketch', got 'svd'"),
        (
            lambda a: leverage_scores(a, method="sketch", size=2),
            ValueError,
            "size must be at least 4, the columns of a, got 2",
        ),
        (lambda a: leverage_scores(a[0]), ValueError, "a must be a matrix"),
        (lambda a: leverage_scores(a * np.nan), ValueError, "a contains NaN or inf"),
        (lambda a: lewis_weights(a, 0), ValueError, "p must be >= 0.001, got 0"),
        (lambda a: lewis_weights(a, np.inf), ValueError, "^p must be finite, got inf"),
        (lambda a: leverage_scores(a, sketch="srht", size=65), ValueError, "size must be at most 64 .the least power"),
        (lambda a: importance_sample(np.asarray([1, np.inf]), 2), ValueError, "weights must be finite, got inf"),
        (lambda a: importance_sample(np.asarray([1, np.nan]), 2), ValueError, "weights must be finite, got nan"),
        (lambda a: importance_sample(a, 2), ValueError, r"weights must have one axis, got shape \(60, 4\)"),
        (lambda a: importance_sample(-np.ones(3), 2), ValueError, "weights must not be negative, got -1"),
        (lambda a: importance_sample(np.zeros(3), 2), ValueError, "weights must have a positive sum"),
        (lambda a: importance_sample(np.ones(3), -1), ValueError, "size must be at least 0, got -1"),
        (lambda a: importance_sample(np.ones(3) * 1j, 1), TypeError, "weights must be real"),
        (lambda a: sampled_product(a, a, 2), ValueError, r"a and b must match in the middle, got shapes \(60, 4\) and"),
        (lambda a: sampled_product(a.T, a.astype(np.float32), 2), TypeError, "a and b must share one dtype"),
        (lambda a: sampled_product(a.T, a, 0), ValueError, "size must be at least 1, got 0"),
    ],
)
def test_bad_input(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call(spiked())


@pytest.mark.parametrize(("dtype", "scale"), EXTREMES)
def test_scale(dtype, scale):
    a = spiked(40, 3).astype(dtype)
    big = a * dtype(scale)
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    ridge = float(np.float64(scale)) ** 2 if dtype == np.float32 else 0.0
    for method in ("exact", "sketch"):
        options = {"method": method, "rng": 1}
        np.testing.assert_allclose(leverage_scores(big, **options), leverage_scores(a, **options), rtol=rtol)
        np.testing.assert_allclose(
            leverage_scores(big, ridge=ridge, **options),
            leverage_scores(a, ridge=float(ridge > 0), **options),
            rtol=rtol,
        )
    far = 1.0 if scale < 1 else 0.0
    np.testing.assert_allclose(leverage_scores(big, ridge=1.0), (1 - far) * leverage_scores(a), rtol=rtol, atol=1e-30)
    for p in (1.0, 3.0):
        np.testing.assert_allclose(lewis_weights(big, p), lewis_weights(a, p), rtol=10 * rtol)
    b = spiked(40, 2, seed=1).astype(dtype)
    for kind in ("optimal", "rows", "uniform"):
        expected = product_probabilities(a.T, b, kind)
        np.testing.assert_allclose(product_probabilities(big.T, b, kind), expected, rtol=rtol)
        np.testing.assert_allclose(product_probabilities(a.T, b * dtype(scale), kind), expected, rtol=rtol)
        product = sampled_product(a.T, b * dtype(scale), 6, kind=kind, rng=2)
        np.testing.assert_allclose(product / dtype(scale), sampled_product(a.T, b, 6, kind=kind, rng=2), rtol=rtol)


def test_recorded_gradients():
    torch = pytest.importorskip("torch")
    a = torch.tensor(spiked(20, 3), requires_grad=True)
    for call in (
        lambda: leverage_scores(a),
        lambda: leverage_scores(a, ridge=1.0),
        lambda: leverage_scores(a, method="sketch", rng=0),
        lambda: lewis_weights(a, 1.0),
        lambda: product_probabilities(a.T, a),
        lambda: importance_sample(torch.abs(a[:, 0]), 3, rng=0),
        lambda: importance_sample(torch.abs(a[:, 0]), 3, replace=False, rng=0),
        lambda: sampled_product(a.T, a, 3, rng=0),
    ):
        call()
