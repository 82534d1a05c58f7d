"""Interpolative and CUR decompositions."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats
from spectra import matrix, relative

from nlattn.errors import ConvergenceWarning
from nlattn.linalg import (
    cur,
    interpolative_decomposition,
)
from nlattn.testing import to_numpy

DTYPES = [np.float64, np.float32, np.complex128, np.complex64]


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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_error_of_cur_is_that_of_its_product(seed, dtype):
    rng = np.random.default_rng(seed)
    hard = [scipy.linalg.hilbert(30), np.exp(-((np.linspace(0, 1, 50)[:, None] - np.linspace(0, 1, 40)) ** 2) / 0.1)]
    hard.append(
        np.linalg.qr(rng.standard_normal((30, 20)))[0] * 10.0 ** -np.arange(20.0) @ rng.standard_normal((20, 25))
    )
    for a in hard:
        a = a.astype(dtype)
        rank = int(rng.integers(1, 18))
        columns, core, rows, error = cur(a, rank, rng=seed)
        product = a[:, columns] @ core @ a[rows]
        true = np.linalg.norm(a.astype(float) - product) / np.linalg.norm(a)
        np.testing.assert_allclose(error, true, rtol=0.2, atol=4 * np.finfo(dtype).eps)
        assert len(columns) == len(rows) <= rank
        values = np.linalg.svd(a.astype(float), compute_uv=False)
        best = np.linalg.norm(values[len(columns) :]) / np.linalg.norm(values)
        assert error < 20 * best + 30 * np.finfo(dtype).eps ** 0.5


def test_trimming_is_relative():
    a = 10 * np.random.default_rng(0).standard_normal((40, 30)) @ np.diag(0.5 ** np.arange(30))
    found = interpolative_decomposition(a, rtol=0.05, rng=0)
    fewer = interpolative_decomposition(a, found.columns.size - 1, rng=0)
    assert found.error <= 0.05 < 1.3 * fewer.error
