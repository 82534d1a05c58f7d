"""Pivoted Cholesky factorisation."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.stats
from spectra import gram

from nlattn.linalg import (
    KernelMatrix,
    gaussian_kernel,
    nystrom_approximation,
    pivoted_cholesky,
)
from nlattn.testing import to_numpy

DTYPES = [np.float64, np.float32, np.complex128, np.complex64]


@pytest.mark.parametrize("pivoting", ["random", "greedy"])
@pytest.mark.parametrize(("block", "dtype"), [(1, np.float64), *((7, dtype) for dtype in DTYPES), (96, np.float64)])
def test_cholesky(pivoting, block, dtype):
    a = gram(80, 0.8 ** np.arange(60.0), dtype)
    found = pivoted_cholesky(a, 20, pivoting=pivoting, block=block, rng=0)
    rest = a - found.factor @ found.factor.conj().T
    eps = np.finfo(dtype).eps
    assert found.factor.dtype == dtype
    assert found.factor.shape == (80, 20)
    assert len(set(found.pivots.tolist())) == 20
    np.testing.assert_allclose(np.diag(rest).real, found.residual, atol=50 * eps)
    np.testing.assert_allclose(found.error, np.trace(rest).real / np.trace(a).real, rtol=1e-3, atol=50 * eps)
    np.testing.assert_allclose(rest[found.pivots], 0, atol=50 * eps)
    np.testing.assert_array_equal(found.residual[found.pivots], 0)
    assert np.linalg.eigvalsh(rest)[0] > -50 * eps
    np.testing.assert_allclose(np.triu(found.factor[found.pivots], 1), 0, atol=50 * eps)


@pytest.mark.parametrize("block", [1, 3, 16, 200])
def test_greedy_pivots_are_those_of_lapack(block):
    a = gram(50, 0.7 ** np.arange(50.0), seed=2)
    expected = scipy.linalg.lapack.dpstrf(a, lower=1)[1][:15] - 1
    np.testing.assert_array_equal(pivoted_cholesky(a, 15, pivoting="greedy", block=block).pivots, expected)


@pytest.mark.parametrize("block", [1, 4])
def test_random_pivots_have_their_law(block):
    """The probability of each ordered pair of pivots of a 4 x 4 matrix, against the law of one draw after the other."""
    a = gram(4, np.asarray([3.0, 1.0, 0.5, 0.1]), seed=1)
    first = np.diag(a) / np.trace(a)
    law = np.zeros((4, 4))
    for i in range(4):
        left = np.diag(a - np.outer(a[i], a[i]) / a[i, i]).copy()
        left[i] = 0
        law[i] = first[i] * left / left.sum()
    rng = np.random.default_rng(0)
    counts = np.zeros((4, 4))
    trials = 600
    for _ in range(trials):
        counts[tuple(pivoted_cholesky(a, 2, block=block, rng=rng).pivots)] += 1
    seen = ~np.eye(4, dtype=bool)
    assert scipy.stats.chisquare(counts[seen], trials * law[seen]).pvalue > 1e-4


@pytest.mark.parametrize("pivoting", ["random", "greedy"])
@pytest.mark.parametrize("rtol", [0.5, 1e-2, 1e-6])
def test_cholesky_to_tolerance_is_exactly_enough(pivoting, rtol):
    a = gram(90, 0.7 ** np.arange(70.0))
    found = pivoted_cholesky(a, rtol=rtol, pivoting=pivoting, rng=1)
    assert found.error <= rtol
    before = found.factor[:, :-1]
    assert np.trace(a - before @ before.T) > rtol * np.trace(a) * (1 - 1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("pivoting", ["random", "greedy"])
def test_duplicates_zeros_and_exhaustion(pivoting, dtype):
    """The factorisation stops at the rank, with distinct pivots and finite numbers."""
    points = np.repeat(np.random.default_rng(0).standard_normal((5, 2)), 20, axis=0).astype(dtype)
    found = pivoted_cholesky(KernelMatrix(gaussian_kernel(1.0), points), 50, pivoting=pivoting, rng=0)
    assert found.pivots.size == 5
    assert len({tuple(point) for point in points[found.pivots].tolist()}) == 5
    assert np.all(np.isfinite(found.factor))
    assert 0 <= found.error < 1e-5
    zero = pivoted_cholesky(np.zeros((4, 4), dtype), 3, pivoting=pivoting, rng=0)
    assert (zero.pivots.size, zero.factor.shape, zero.error) == (0, (4, 0), 0.0)
    some = pivoted_cholesky(np.diag([0, 2, 0, 1]).astype(dtype), 4, pivoting=pivoting, rng=0)
    assert set(some.pivots.tolist()) == {1, 3}
    low = gram(40, np.asarray([2.0, 1.0, 0.5]), dtype)
    assert 3 <= pivoted_cholesky(low, 40, pivoting=pivoting, rng=0).pivots.size <= 5


def test_random_beats_greedy_where_greedy_fails():
    """Here are far outliers, each the largest entry of what is left, and a cluster that holds most of the trace."""
    rng = np.random.default_rng(0)
    points = np.concatenate([0.05 * rng.standard_normal((180, 2)), 100 * np.arange(1, 21)[:, None] * np.ones(2)])
    a = KernelMatrix(gaussian_kernel(0.1), points)
    scaled = 0.5 * np.eye(200)
    scaled[180:, 180:] *= 2.002
    dense = scaled @ np.asarray(a @ np.eye(200)) @ scaled
    greedy = pivoted_cholesky(dense, 10, pivoting="greedy").error
    assert greedy > 2 * np.median([pivoted_cholesky(dense, 10, rng=seed).error for seed in range(5)])


def test_psd_on_backends(backend):
    a = gram(30, 0.6 ** np.arange(20.0))
    for pivoting in ("random", "greedy"):
        expected = pivoted_cholesky(a, 8, pivoting=pivoting, block=5, rng=4)
        found = pivoted_cholesky(backend.array(a), 8, pivoting=pivoting, block=5, rng=4)
        np.testing.assert_array_equal(to_numpy(found.pivots), expected.pivots)
        np.testing.assert_allclose(to_numpy(found.factor), expected.factor, atol=1e-10)
    found = nystrom_approximation(backend.array(a), 4, rng=4)
    np.testing.assert_allclose(to_numpy(found.values), nystrom_approximation(a, 4, rng=4).values, rtol=1e-9)
    points = np.random.default_rng(0).standard_normal((20, 3))
    kernel = KernelMatrix(gaussian_kernel(2.0), backend.array(points))
    expected = pivoted_cholesky(KernelMatrix(gaussian_kernel(2.0), points), 5, rng=0)
    np.testing.assert_array_equal(to_numpy(pivoted_cholesky(kernel, 5, rng=0).pivots), expected.pivots)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    x = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append(pivoted_cholesky(KernelMatrix(gaussian_kernel(2.0), x), 40, rng=0))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
