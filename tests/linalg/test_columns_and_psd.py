"""Interpolative and CUR decompositions, Nystrom approximation, pivoted Cholesky, and the kernels under them."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.stats

import nlattn
from nlattn import use_backend
from nlattn.errors import ConvergenceWarning
from nlattn.kernels.cholesky_panel import cholesky_panel
from nlattn.kernels.choose_pivots import choose_pivots
from nlattn.kernels.gaussian_gram import gaussian_gram
from nlattn.kernels.pivoted_qr import pivoted_qr
from nlattn.linalg import (
    KernelMatrix,
    cur,
    gaussian_kernel,
    interpolative_decomposition,
    nystrom_approximation,
    pivoted_cholesky,
)
from nlattn.testing import to_numpy

DTYPES = [np.float64, np.float32, np.complex128, np.complex64]


def normal(rng, shape, dtype):
    draws = rng.standard_normal(shape)
    return draws + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else draws


def matrix(m, n, values, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(normal(rng, (size, len(values)), dtype))[0] for size in (m, n))
    return ((left * values) @ right.conj().T).astype(dtype)


def gram(n, values, dtype=np.float64, seed=0):
    root = matrix(n, n, np.sqrt(values), np.complex128 if np.dtype(dtype).kind == "c" else np.float64, seed)
    return (root @ root.conj().T).astype(dtype)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(a)


# -- columns and rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(60, 40), (40, 60)])
def test_columns_and_rows_of_a_decaying_spectrum(dtype, m, n):
    values = 0.5 ** np.arange(16)
    a = matrix(m, n, values, dtype)
    best = np.linalg.norm(values[8:]) / np.linalg.norm(values)
    columns, coefficients, error = interpolative_decomposition(a, 8, rng=0)
    assert coefficients.dtype == dtype
    np.testing.assert_array_equal(coefficients[:, columns], np.eye(8))
    assert np.max(np.abs(coefficients)) < 3
    assert len(set(columns.tolist())) == 8
    np.testing.assert_allclose(error, relative(a, a[:, columns] @ coefficients), rtol=1e-2)
    assert best < error < 4 * best
    found = cur(a, 8, rng=0)
    assert len(set(found.rows.tolist())) == len(set(found.columns.tolist())) == 8
    whole = a[:, found.columns] @ found.core @ a[found.rows]
    np.testing.assert_allclose(found.error, relative(a, whole), rtol=2e-2)
    assert best < found.error < 6 * best


def test_core_is_the_best_for_its_columns_and_rows():
    a = matrix(30, 25, 0.6 ** np.arange(20))
    columns, core, rows, _ = cur(a, 5, rng=0)
    np.testing.assert_allclose(core, np.linalg.pinv(a[:, columns]) @ a @ np.linalg.pinv(a[rows]), rtol=1e-6)


@pytest.mark.parametrize("rtol", [0.2, 1e-2, 1e-5])
def test_to_tolerance(rtol):
    a = matrix(80, 70, 0.6 ** np.arange(60.0))
    columns, coefficients, error = interpolative_decomposition(a, rtol=rtol, rng=0)
    assert relative(a, a[:, columns] @ coefficients) <= rtol * (1 + 1e-6)
    found = cur(a, rtol=rtol, rng=0)
    assert found.error <= rtol
    assert relative(a, a[:, found.columns] @ found.core @ a[found.rows]) <= rtol * (1 + 1e-6)
    exact = np.sqrt(np.cumsum(0.36 ** np.arange(60.0)[::-1]))[::-1]
    assert columns.size <= np.sum(exact / exact[0] > rtol) + 4
    assert error <= rtol


@pytest.mark.parametrize("function", [interpolative_decomposition, cur])
def test_exact_rank_and_degenerate(function):
    a = np.repeat(matrix(20, 4, [3.0, 2.0]), 5, axis=1)
    assert function(a, 6, rng=0)[0].size == 2
    assert function(a, 6, rng=0).error < 1e-14
    assert function(np.zeros((5, 4)), 3, rng=0)[0].size == 0
    assert function(np.zeros((5, 4)), 3, rng=0).error == 0
    for shape in ((1, 7), (7, 1), (0, 3)):
        found = function(np.ones(shape), min(shape), rng=0)
        assert found.error < 1e-14
        assert found[0].size == min(shape)
    assert function(np.ones((3, 3)), 0, rng=0).error == 1
    with pytest.warns(ConvergenceWarning, match="2 columns .*have a relative error of"):
        function(np.eye(9), 2, rtol=0.5, rng=0)
    with pytest.raises(ValueError, match="rank and rtol are both None"):
        function(a)
    with pytest.raises(ValueError, match="rank must be at most 3"):
        function(np.ones((3, 4)), 4)


def test_columns_of_operators_and_backends(backend):
    a = matrix(40, 30, 0.5 ** np.arange(20))
    expected = interpolative_decomposition(a, 6, rng=3)
    found = interpolative_decomposition(backend.array(a), 6, rng=3)
    np.testing.assert_array_equal(to_numpy(found.columns), expected.columns)
    np.testing.assert_allclose(to_numpy(found.coefficients), expected.coefficients, atol=1e-8)
    np.testing.assert_array_equal(to_numpy(cur(backend.array(a), 6, rng=3).rows), cur(a, 6, rng=3).rows)
    sparse = interpolative_decomposition(scipy.sparse.csr_array(a), 6, rng=3)
    assert relative(a, a[:, sparse.columns] @ sparse.coefficients) < 2 * expected.error


# -- semidefinite matrices --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_nystrom(dtype):
    values = 0.5 ** np.arange(30.0)
    a = gram(60, values, dtype)
    found = nystrom_approximation(a, 8, rng=0)
    eps = np.finfo(dtype).eps
    assert found.vectors.dtype == dtype
    np.testing.assert_allclose(found.vectors.conj().T @ found.vectors, np.eye(8), atol=100 * eps)
    np.testing.assert_allclose(found.values, values[:8], rtol=1e-2)
    rest = a - (found.vectors * found.values) @ found.vectors.conj().T
    np.testing.assert_allclose(found.error, np.linalg.norm(rest, "nuc") / np.trace(a).real, rtol=1e-2, atol=100 * eps)
    assert np.linalg.eigvalsh(rest)[0] > -100 * eps
    assert found.error < 1.5 * np.sum(values[8:]) / np.sum(values) + 100 * eps


def test_nystrom_of_operators_has_an_honest_estimate():
    values = 1 / np.arange(1.0, 61) ** 2
    a = gram(60, values)
    estimates = [nystrom_approximation(scipy.sparse.csr_array(a), 5, rng=seed).error for seed in range(40)]
    errors = [nystrom_approximation(a, 5, rng=seed).error for seed in range(40)]
    assert 0.9 < np.mean(estimates) / np.mean(errors) < 1.25


@pytest.mark.parametrize("pivoting", ["random", "greedy"])
@pytest.mark.parametrize("block", [1, 7, 96])
@pytest.mark.parametrize("dtype", DTYPES)
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


@pytest.mark.parametrize("block", [1, 4, 30])
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
    trials = 4000
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


def test_kernel_matrix_is_never_formed():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((400, 3))
    asked = []

    def kernel(x, y):
        asked.append((len(x), len(y)))
        return gaussian_kernel(1.0)(x, y)

    found = pivoted_cholesky(KernelMatrix(kernel, points), 30, block=16, rng=0)
    assert max(n for _, n in asked) <= 16
    assert sum(m * n for m, n in asked) < 400 * 45 + 400
    dense = np.exp(-0.5 * np.sum((points[:, None] - points[None]) ** 2, axis=2))
    np.testing.assert_allclose(found.error, np.trace(dense - found.factor @ found.factor.T) / 400, rtol=1e-9)
    same = pivoted_cholesky(dense, 30, block=16, rng=0)
    np.testing.assert_array_equal(found.pivots, same.pivots)
    few = nystrom_approximation(KernelMatrix(gaussian_kernel(1.0), points), 10, rng=0)
    np.testing.assert_allclose(few.values, nystrom_approximation(dense, 10, rng=0).values, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("pivoting", ["random", "greedy"])
def test_duplicates_zeros_and_exhaustion(pivoting, dtype):
    """Stops at the rank, with distinct pivots and finite numbers."""
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
    """Far outliers, each the largest of what is left, and a large cluster, which holds most of the trace."""
    rng = np.random.default_rng(0)
    points = np.concatenate([0.05 * rng.standard_normal((180, 2)), 100 * np.arange(1, 21)[:, None] * np.ones(2)])
    a = KernelMatrix(gaussian_kernel(0.1), points)
    scaled = 0.5 * np.eye(200)
    scaled[180:, 180:] *= 2.002
    dense = scaled @ np.asarray(a @ np.eye(200)) @ scaled
    greedy = pivoted_cholesky(dense, 10, pivoting="greedy").error
    assert greedy > 2 * np.median([pivoted_cholesky(dense, 10, rng=seed).error for seed in range(5)])


@pytest.mark.parametrize("pivoting", ["random", "greedy"])
def test_indefinite_matrices_are_refused(pivoting):
    with pytest.raises(ValueError, match="a must be positive semidefinite; after 1 pivots its rest is not"):
        pivoted_cholesky(np.asarray([[1.0, 2.0], [2.0, 1.0]]), 2, pivoting=pivoting, rng=0)
    with pytest.raises(ValueError, match="a must be positive semidefinite, got -1 on its diagonal"):
        pivoted_cholesky(np.diag([1.0, -1.0]), 2, pivoting=pivoting)
    with pytest.raises(
        ValueError, match="a must be positive semidefinite; up to its scale it has a Rayleigh quotient of -1"
    ):
        nystrom_approximation(np.asarray([[1.0, 2.0], [2.0, 1.0]]), 2, rng=0)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda a: pivoted_cholesky(a), ValueError, "rank and rtol are both None"),
        (lambda a: pivoted_cholesky(a, 4), ValueError, r"rank must be at most 3 \(the size of a\), got 4"),
        (lambda a: pivoted_cholesky(a[:2], 1), ValueError, r"a must be square, got shape \(2, 3\)"),
        (lambda a: pivoted_cholesky(a, 1, pivoting="best"), ValueError, "pivoting must be one of 'random', 'greedy'"),
        (lambda a: pivoted_cholesky(a, rtol=0.0), ValueError, "rtol must be > 0 and < 1, got 0"),
        (lambda a: pivoted_cholesky(a.tolist(), 1), TypeError, "a must be a matrix or a KernelMatrix, got list"),
        (lambda a: pivoted_cholesky(a * np.inf, 1), ValueError, "a contains NaN or inf"),
        (lambda a: nystrom_approximation(a, 4), ValueError, "rank must be at most 3"),
        (lambda a: nystrom_approximation(a[:2], 1), ValueError, "a must be square"),
        (lambda a: gaussian_kernel(0.0), ValueError, "bandwidth must be >= 1e-30 and <= 1e.30, got 0"),
        (lambda a: KernelMatrix(gaussian_kernel(), a[0]), ValueError, "points must be a matrix"),
    ],
)
def test_bad_input(call, kind, sentence):
    with pytest.raises(kind, match=sentence), np.errstate(invalid="ignore"):
        call(np.eye(3))


def test_sizes_zero_and_one():
    for function in (pivoted_cholesky, nystrom_approximation):
        assert function(np.zeros((0, 0)), 0).error == 0
        assert function(np.eye(3), 0).error == 1
        assert function(np.full((1, 1), 4), 1, rng=0).error < 1e-14
    np.testing.assert_allclose(pivoted_cholesky(np.full((1, 1), 4), 1, rng=0).factor, [[2.0]])


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


# -- kernels ----------------------------------------------------------------------------------------------------------


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


def test_results_do_not_depend_on_the_number_of_threads(run_python):
    code = """
import numpy as np, nlattn, zlib
from nlattn.linalg import KernelMatrix, gaussian_kernel
x = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)
found = nlattn.pivoted_cholesky(KernelMatrix(gaussian_kernel(2.0), x), 40, rng=0)
print(zlib.crc32(found.factor.tobytes()))
"""
    assert run_python(code, NLATTN_NUM_THREADS="1") == run_python(code, NLATTN_NUM_THREADS="2")


def test_flat_names():
    for name in ("cur", "interpolative_decomposition", "nystrom_approximation", "pivoted_cholesky"):
        assert getattr(nlattn, name) is getattr(nlattn.linalg, name)
