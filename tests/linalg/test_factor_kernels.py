"""The kernels under the factorisations of linalg."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.stats
from spectra import gram, normal

from nlattn import use_backend
from nlattn.kernels.cholesky_panel import cholesky_panel
from nlattn.kernels.choose_pivots import choose_pivots
from nlattn.kernels.gaussian_gram import gaussian_gram
from nlattn.kernels.pivoted_qr import pivoted_qr

DTYPES = [np.float64, np.float32, np.complex128, np.complex64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (6, 6)])
def test_pivoted_qr(dtype, shape):
    a = normal(np.random.default_rng(0), shape, dtype).astype(dtype)
    expected = scipy.linalg.qr(a, mode="economic", pivoting=True)[2][:4]
    for name in ("generic", "numba_cpu"):
        with use_backend(name):
            q, r, pivots = pivoted_qr(a, 4)
        np.testing.assert_array_equal(pivots, expected)
        np.testing.assert_allclose(q.conj().T @ q, np.eye(4), atol=1e-5)
        np.testing.assert_allclose(q @ r[:, pivots], a[:, pivots], atol=1e-5)
        np.testing.assert_allclose(np.tril(r[:, pivots], -1), 0, atol=1e-5)
        with use_backend(name):
            assert [part.shape[0] for part in pivoted_qr(np.outer(a[:, 0], a[0]), 4)[1:]] == [1, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gaussian_gram(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((700, 5)).astype(dtype), rng.standard_normal((130, 5)).astype(dtype)
    expected = np.exp(-0.3 * np.sum((x[:, None].astype(float) - y[None]) ** 2, axis=2))
    for name in ("generic", "numba_cpu"):
        with use_backend(name):
            np.testing.assert_allclose(gaussian_gram(x, y, 0.3), expected, rtol=200 * np.finfo(dtype).eps)
            np.testing.assert_array_equal(gaussian_gram(x[:0], y, 0.3).shape, (0, 130))
            frozen = x[::-1]
            np.testing.assert_allclose(gaussian_gram(frozen, y[:, ::-1], 0.3).shape, (700, 130))
            assert np.all(gaussian_gram(1e4 * x, 1e4 * x[:3], 0.3) <= 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 255, 256, 600])
def test_cholesky_panel(dtype, n):
    rng = np.random.default_rng(0)
    columns, inverse = rng.standard_normal((n, 7)).astype(dtype), rng.standard_normal((7, 7)).astype(dtype)
    factors = tuple(rng.standard_normal((n, k)).astype(dtype) for k in (3, 11))
    rows = tuple(rng.standard_normal((7, k)).astype(dtype) for k in (3, 11))
    expected = (columns - sum(f @ r.T for f, r in zip(factors, rows, strict=True))) @ inverse
    before = columns.copy()
    for name in ("generic", "numba_cpu"):
        with use_backend(name):
            for given in (columns, np.asfortranarray(columns)):
                panel, squares = cholesky_panel(given, inverse, factors, rows)
                np.testing.assert_allclose(panel, expected, rtol=1e-4 if dtype == np.float32 else 1e-11, atol=1e-4)
                np.testing.assert_allclose(squares, np.sum(panel.astype(float) ** 2, axis=1), rtol=1e-6)
    np.testing.assert_array_equal(columns, before)


@pytest.mark.parametrize("greedy", [True, False])
def test_choose_pivots(greedy):
    core = gram(12, 0.5 ** np.arange(12.0))
    draws = None if greedy else np.random.default_rng(0).random(12)
    results = []
    for name in ("generic", "numba_cpu"):
        with use_backend(name):
            results.append(choose_pivots(core, np.full(12, 1e-9), 1e-3, draws, 7))
    (chosen, triangle), (same, equal) = results
    np.testing.assert_array_equal(chosen, same)
    np.testing.assert_allclose(triangle, equal, atol=1e-12)
    np.testing.assert_allclose(triangle @ triangle.T, core[np.ix_(chosen, chosen)], atol=1e-12)
