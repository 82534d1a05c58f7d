"""Randomised range finding."""

import numpy as np
import pytest
from spectra import assert_orthonormal, matrix

from nlattn.arrays.random import standard_normal
from nlattn.linalg import (
    range_finder,
)
from nlattn.linalg._orthonormal import orthonormal

KINDS = ["gaussian", "sparse_sign", "srht", "count", "balanced_count"]


@pytest.mark.parametrize("sketch", KINDS)
@pytest.mark.parametrize("method", ["power", "krylov"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_range_of_low_rank_is_found(sketch, method, dtype):
    a = matrix(60, 40, [3.0, 2.0, 1.0], dtype=dtype)
    q = range_finder(a, 12, method=method, sketch=sketch, power_iterations=1, rng=0)
    assert q.shape == (60, 12)
    assert_orthonormal(q)
    np.testing.assert_allclose(q @ (q.conj().T @ a), a, atol=1e-12)


def test_power_iterations_sharpen_a_flat_spectrum():
    a = matrix(300, 200, np.concatenate([np.ones(10), np.full(150, 0.3)]))
    left = [
        np.linalg.norm(a - q @ (q.T @ a), 2) for q in (range_finder(a, 15, power_iterations=p, rng=1) for p in (0, 3))
    ]
    assert left[1] < 0.301 < 0.4 < left[0]


def test_bases_do_not_turn_with_rounding():
    """Matrices that differ by rounding have the same basis, whether one or two Gram matrices are factorised."""
    y = np.random.default_rng(0).standard_normal((200, 20))
    q = orthonormal(y)
    np.testing.assert_allclose(orthonormal(y * (1 + 1e-15)), q, atol=1e-12)
    r = q.T @ y
    np.testing.assert_allclose(np.tril(r, -1), 0, atol=1e-10)
    assert np.all(np.diag(r) > 0)
    ill = y * 10.0 ** -np.arange(0, 10, 0.5)
    q = orthonormal(ill)
    np.testing.assert_allclose(q.T @ q, np.eye(20), atol=1e-13)


def test_complex_draws_do_not_depend_on_the_blocks():
    rng, like = np.random.default_rng(0), np.zeros(0, complex)
    whole = standard_normal(np.random.default_rng(0), (5, 3), like)
    np.testing.assert_array_equal(np.concatenate([standard_normal(rng, (n, 3), like) for n in (2, 3)]), whole)
    many = standard_normal(rng, (20000,), like)
    np.testing.assert_allclose(np.mean(np.abs(many) ** 2), 1, rtol=0.03)
    np.testing.assert_allclose(np.mean(many**2), 0, atol=0.03)
