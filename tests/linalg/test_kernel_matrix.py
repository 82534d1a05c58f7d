"""Kernel matrices, and what is refused as not semidefinite."""

import numpy as np
import pytest

from nlattn import use_backend
from nlattn.linalg import (
    KernelMatrix,
    gaussian_kernel,
    nystrom_approximation,
    pivoted_cholesky,
    randomized_svd,
)
from nlattn.testing import to_numpy


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


def test_nan_is_never_an_error_of_zero():
    points = np.ones((4, 2))
    matrix = KernelMatrix(lambda x, y: np.full((len(x), len(y)), np.nan), points, np.ones(4))
    with pytest.raises(ValueError, match="a contains NaN or inf"):
        pivoted_cholesky(matrix, 2, rng=0)
    with pytest.raises(ValueError, match="a must have a finite diagonal"):
        pivoted_cholesky(KernelMatrix(matrix.kernel, points), 2, rng=0)


@pytest.mark.parametrize("name", ["generic", "numba_cpu"])
def test_gaussian_kernel_refuses_what_it_cannot_compute(name):
    kernel = gaussian_kernel(1.0)
    with use_backend(name):
        for x, y in ((np.nan, 1.0), (np.inf, 1.0), (1e200, 2e200)):
            with pytest.raises(ValueError, match="x and y must be finite, with squares that are"):
                kernel(np.asarray([[x]]), np.asarray([[y]]))
        np.testing.assert_array_equal(kernel(np.asarray([[1e200]]), np.asarray([[1.0]])), [[0.0]])
        with pytest.raises(ValueError, match=r"x and y must be points .* got shapes \(2, 64\), \(2, 2\)"):
            kernel(np.ones((2, 64)), np.ones((2, 2)))
        with pytest.raises(ValueError, match="x and y must be points"):
            kernel(np.ones(3), np.ones(3))
        for bandwidth in (1e-30, 1e30):
            found = gaussian_kernel(bandwidth)(np.zeros((1, 1)), np.asarray([[0.0], [1.0]]))
            np.testing.assert_array_equal(found, [[1.0, 0.0 if bandwidth < 1 else 1.0]])
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
        distance = np.sum((x[:, None] - y) ** 2, axis=2)
        np.testing.assert_allclose(gaussian_kernel(3.0)(x, y), np.exp(-distance / 18))


def test_a_diagonal_that_is_negative_by_rounding_is_none():
    a = np.diag([1.0, -1e-18])
    assert pivoted_cholesky(a, 2, rng=0).pivots.tolist() == [0]
    np.testing.assert_allclose(nystrom_approximation(a, 1, rng=0).values, [1.0])


def test_kernel_matrix_as_an_operator(backend):
    points = np.random.default_rng(0).standard_normal((12, 2))
    given = KernelMatrix(gaussian_kernel(1.0), backend.array(points, "float32"))
    expected = np.linalg.svd(gaussian_kernel(1.0)(points, points), compute_uv=False)[:3]
    found = randomized_svd(given, 3, rng=0)
    assert str(found.S.dtype).endswith("float32")
    np.testing.assert_allclose(to_numpy(found.S), expected, rtol=1e-4)
    waves = KernelMatrix(lambda x, y: np.exp(1j * (x - y.T)), np.linspace(0, 1, 5)[:, None])
    np.testing.assert_allclose(nystrom_approximation(waves, 2, rng=0).values, [5, 0], atol=1e-9)
    assert pivoted_cholesky(waves, 3, rng=0).pivots.shape == (1,)
