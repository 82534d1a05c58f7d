"""Leverage scores and Lewis weights."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from spectra import spiked

from nlattn.errors import ConvergenceWarning
from nlattn.linalg import leverage_scores, lewis_weights
from nlattn.sketch import sketch_operator


def hat(a, ridge=0.0):
    """The diagonal of a (a^H a + ridge I)^+ a^H."""
    wide = a.astype(complex)
    return np.diag(wide @ np.linalg.pinv(wide.conj().T @ wide + ridge * np.eye(a.shape[1])) @ wide.conj().T).real


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_exact_scores(dtype, ridge):
    a = spiked(dtype=dtype)
    scores = leverage_scores(a, ridge=ridge)
    assert scores.dtype == np.zeros(0, dtype).real.dtype
    np.testing.assert_allclose(scores, hat(a, ridge), atol=1e-5 if dtype == np.float32 else 1e-11)
    s = np.linalg.svd(a, compute_uv=False)
    np.testing.assert_allclose(scores.sum(), np.sum(s**2 / (s**2 + ridge)), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rank_deficient(dtype):
    a = spiked(dtype=dtype)
    doubled = np.concatenate([a, a, np.zeros((60, 2), dtype)], axis=1)
    np.testing.assert_allclose(
        leverage_scores(doubled), leverage_scores(a), atol=2e-5 if dtype == np.float32 else 1e-10
    )
    np.testing.assert_allclose(leverage_scores(doubled).sum(), 4, rtol=1e-5)
    ill = np.diag([1.0, 1e-4, 1e-5]).astype(dtype)
    np.testing.assert_allclose(leverage_scores(ill), np.ones(3), rtol=1e-4)
    np.testing.assert_array_equal(leverage_scores(np.zeros((5, 3), dtype)), np.zeros(5))
    copies = leverage_scores(np.repeat(np.eye(3, dtype=dtype), 4, axis=0))
    np.testing.assert_allclose(copies, np.full(12, 0.25), rtol=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "sparse_sign", "srht", "count", "balanced_count"])
def test_sketched_scores_lie_in_their_band(kind):
    """How well the sketch keeps the range is computed here, and the band then holds for certain."""
    a = spiked(400, 5)
    found = leverage_scores(a, method="sketch", sketch=kind, size=80, rng=3)
    kept = np.linalg.svd(sketch_operator(kind, 80, 400, rng=3).apply(scipy.linalg.orth(a)), compute_uv=False)
    ratio = found / hat(a)
    assert np.all(ratio <= kept[-1] ** -2 * (1 + 1e-9))
    assert np.all(ratio >= kept[0] ** -2 * (1 - 1e-9))
    assert 0.3 < np.median(ratio) < 3


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 40.0])
def test_lewis_weights(p):
    a = spiked()
    a[7] = 0
    w = lewis_weights(a, p, rtol=1e-9, iterations=1000)
    assert w[7] == 0
    used = w > 0
    scaled = a[used] * (w[used] ** (0.5 - 1 / p))[:, None]
    np.testing.assert_allclose(hat(scaled), w[used], rtol=1e-7)
    np.testing.assert_allclose(w.sum(), 4, rtol=1e-8)
    if p == 2:
        np.testing.assert_allclose(w, leverage_scores(a), rtol=1e-12)


def test_lewis_weights_that_do_not_converge():
    with pytest.warns(ConvergenceWarning, match="2 iterations reach an accuracy of"):
        lewis_weights(spiked(), 30.0, iterations=2)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 3)])
def test_empty_and_single(shape):
    assert leverage_scores(np.ones(shape)).shape == (shape[0],)
    np.testing.assert_allclose(leverage_scores(np.ones(shape)).sum(), min(1, *shape))


def test_ridge_is_scaled():
    a = spiked(40, 3)
    np.testing.assert_allclose(leverage_scores(a * 1e145, ridge=1e290), leverage_scores(a, ridge=1.0), rtol=1e-9)
    np.testing.assert_allclose(leverage_scores(a * 1e-145, ridge=1e-290), leverage_scores(a, ridge=1.0), rtol=1e-9)


def test_unchecked_values_reach_the_sketch():
    with pytest.raises(np.linalg.LinAlgError):
        leverage_scores(np.full((40, 3), np.nan), method="sketch", check_finite=False, rng=0)


@pytest.mark.parametrize("kind", ["srht", "sparse_sign", "count"])
@pytest.mark.parametrize("shape", [(40, 20), (1, 3), (3, 5)])
def test_default_sizes(kind, shape):
    a = np.random.default_rng(0).standard_normal(shape)
    found = leverage_scores(a, method="sketch", sketch=kind, rng=0)
    assert found.shape == (shape[0],)
    if kind == "srht":  # with as many rows as that an isometry
        np.testing.assert_allclose(found, leverage_scores(a), rtol=1e-9)


@pytest.mark.parametrize("p", [1e-3, 0.05])
def test_lewis_weights_of_small_p(p):
    column = np.asarray([[1.0], [0.0], [1e-8], [1e8]])
    expected = np.abs(column[:, 0]) ** p
    np.testing.assert_allclose(lewis_weights(column, p), expected / expected.sum(), rtol=1e-6)
    with pytest.warns(ConvergenceWarning):
        found = lewis_weights(spiked(), p, iterations=20)
    assert np.all((found > 0) & (found < 2))


def test_small_p_converges():
    a = spiked(20, 3)
    w = lewis_weights(a, 0.02, rtol=1e-6, iterations=3000)
    np.testing.assert_allclose(hat(a * ((w / w.max()) ** (0.5 - 1 / 0.02))[:, None]), w, rtol=1e-4)
