"""Randomised singular value decompositions."""

import numpy as np
import pytest
from spectra import assert_orthonormal, matrix, normal, rebuilt, relative

from nlattn.errors import ConvergenceWarning
from nlattn.linalg import (
    randomized_svd,
    range_finder,
    single_pass_svd,
)
from nlattn.testing import to_numpy


@pytest.mark.parametrize(
    ("m", "n", "dtype"),
    [
        *((50, 30, dtype) for dtype in (np.float64, np.float32, np.complex128, np.complex64)),
        *((m, n, np.float64) for m, n in ((30, 50), (40, 40), (1, 9), (9, 1))),
    ],
)
@pytest.mark.parametrize("method", ["power", "krylov"])
def test_all_singular_triplets(m, n, dtype, method):
    a = matrix(m, n, 0.5 ** np.arange(min(m, n, 12)), dtype=dtype)
    found = randomized_svd(a, min(m, n), method=method, rng=0)
    eps = np.finfo(dtype).eps
    assert found.U.dtype == found.Vh.dtype == dtype
    assert found.S.dtype == np.zeros(0, dtype).real.dtype
    np.testing.assert_allclose(found.S, np.linalg.svd(a, compute_uv=False), atol=50 * eps)
    np.testing.assert_allclose(rebuilt(found), a, atol=50 * eps)
    assert_orthonormal(found.U, 100 * eps)
    assert_orthonormal(found.Vh.conj().T, 100 * eps)
    assert found.error < 50 * eps


def test_against_numpy_on_a_slow_spectrum():
    a = matrix(250, 200, 1 / np.arange(1.0, 201))
    found = randomized_svd(a, 20, rng=0)
    exact = np.linalg.svd(a, compute_uv=False)
    best = np.linalg.norm(exact[20:]) / np.linalg.norm(exact)
    np.testing.assert_allclose(found.S, exact[:20], rtol=2e-3)
    assert relative(a, rebuilt(found)) < 1.002 * best
    np.testing.assert_allclose(found.error, relative(a, rebuilt(found)), rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "dtype"),
    [("power", np.float64), ("krylov", np.float64), ("krylov", np.float32), ("power", np.complex128)],
)
@pytest.mark.parametrize("rtol", [0.3, 1e-2, 1e-4, 3e-6])
def test_tolerance_is_met_with_the_least_rank(dtype, rtol, method):
    """The tolerances reach below the floor of the indicator, which is at 3e-3 in float32 and 1.5e-7 in float64."""
    values = 0.7 ** np.arange(120.0)
    a = matrix(180, 130, values, dtype=dtype)
    found = randomized_svd(a, rtol=rtol, method=method, rng=3)
    assert relative(a, rebuilt(found)) <= rtol * (1 + 1e-3)
    np.testing.assert_allclose(found.error, relative(a, rebuilt(found)), rtol=0.02)
    tails = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1]) / np.linalg.norm(values)
    assert int(np.sum(tails > rtol)) <= found.S.size <= int(np.sum(tails > rtol)) + 1


def test_floor_of_the_indicator():
    """In float32 the difference of squared norms says nothing below 1e-3; what is reported is the residual itself."""
    a = matrix(500, 400, [1.0, 1e-5], dtype=np.float32)
    found = randomized_svd(a, 1, rng=0)
    np.testing.assert_allclose(found.error, 1e-5, rtol=0.05)


def test_rank_too_small_for_the_tolerance():
    a = matrix(100, 80, np.ones(50))
    with pytest.warns(
        ConvergenceWarning, match=r"rank 10 has a relative error of 0.89, more than rtol=0.1: raise rank"
    ):
        found = randomized_svd(a, 10, rtol=0.1, rng=0)
    assert found.S.size == 10


def test_signs():
    a = matrix(70, 40, 1 / np.arange(1.0, 21))
    found, adjoint = randomized_svd(a, 20, rng=0), randomized_svd(a.T, 20, rng=0)
    stacked = np.concatenate([found.U, found.Vh.T])
    largest = np.take_along_axis(stacked, np.argmax(np.abs(stacked), axis=0)[None], axis=0)
    assert np.all(largest > 0)
    np.testing.assert_allclose(adjoint.U, found.Vh.T, atol=1e-10)
    np.testing.assert_allclose(adjoint.Vh, found.U.T, atol=1e-10)
    other = randomized_svd(a, 20, method="power", power_iterations=6, rng=9)
    np.testing.assert_allclose(other.U[:, :10], found.U[:, :10], atol=1e-3)


def test_backends(backend):
    a = matrix(50, 30, 0.6 ** np.arange(30.0))
    given = backend.array(a)
    found = randomized_svd(given, 8, rng=5)
    host = randomized_svd(a, 8, rng=5)
    assert type(found.U) is type(given)
    np.testing.assert_allclose(to_numpy(found.S), host.S, rtol=1e-10)
    np.testing.assert_allclose(to_numpy(found.U), host.U, atol=1e-8)
    np.testing.assert_allclose(found.error, host.error, rtol=1e-8)
    q, expected = to_numpy(range_finder(given, 8, sketch="srht", rng=5)), range_finder(a, 8, sketch="srht", rng=5)
    np.testing.assert_allclose(q @ q.T, expected @ expected.T, atol=1e-8)
    few = single_pass_svd(given, 4, rng=5)
    np.testing.assert_allclose(to_numpy(few.S), single_pass_svd(a, 4, rng=5).S, rtol=1e-9)


@pytest.mark.parametrize("rank", [0, 3])
def test_zero_matrix(rank):
    found = randomized_svd(np.zeros((7, 5)), rank, rng=0)
    assert found.error == 0
    np.testing.assert_array_equal(found.S, np.zeros(rank))
    assert_orthonormal(found.U)
    assert_orthonormal(found.Vh.T)
    assert found.U.shape == (7, rank)
    assert randomized_svd(np.zeros((7, 5)), rtol=0.1, rng=0).S.size == 0


def test_rank_deficient_and_duplicates():
    a = np.repeat(matrix(40, 3, [2.0, 1.0]), 10, axis=1)
    found = randomized_svd(a, 6, rng=0)
    np.testing.assert_allclose(found.S[2:], 0, atol=1e-13)
    assert_orthonormal(found.U)
    assert_orthonormal(found.Vh.T)
    np.testing.assert_allclose(rebuilt(found), a, atol=1e-12)
    assert randomized_svd(a, rtol=1e-10, rng=0).S.size == 2


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_empty(shape):
    found = randomized_svd(np.zeros(shape), 0, rng=0)
    assert (found.U.shape, found.S.shape, found.Vh.shape) == ((shape[0], 0), (0,), (0, shape[1]))
    assert range_finder(np.zeros(shape), 0).shape == (shape[0], 0)
    assert single_pass_svd(np.zeros(shape), 0).S.shape == (0,)


def test_integers_half_precision_and_frozen_strides():
    a = np.arange(24).reshape(4, 6) % 7
    np.testing.assert_allclose(randomized_svd(a, 4, rng=0).S, np.linalg.svd(a, compute_uv=False), atol=1e-12)
    half = a.astype(np.float16)
    assert randomized_svd(half, 2, rng=0).U.dtype == np.float32
    strided = np.zeros((8, 12))[::2, ::2]
    strided[...] = a
    before = strided.copy()
    strided.flags.writeable = False
    np.testing.assert_array_equal(randomized_svd(strided, 2, rng=0).S, randomized_svd(a.astype(float), 2, rng=0).S)
    np.testing.assert_array_equal(strided, before)


def test_seeds():
    a = matrix(40, 30, np.ones(30))
    one, same, other = (randomized_svd(a, 3, power_iterations=0, rng=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.U, same.U)
    assert not np.allclose(one.U, other.U)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda a: randomized_svd(a), ValueError, "rank and rtol are both None: give the number of singular values"),
        (lambda a: randomized_svd(a, 7), ValueError, r"rank must be at most 4 \(the smaller dimension\), got 7"),
        (lambda a: randomized_svd(a, -1), ValueError, "rank must be at least 0, got -1"),
        (lambda a: randomized_svd(a, 2.0), TypeError, "rank must be an integer, got 2.0 of type float"),
        (lambda a: randomized_svd(a, rtol=1e-17), ValueError, r"rtol must be >= 1.77636e-15 and < 1, got 1e-17"),
        (lambda a: randomized_svd(a, 2, method="QR"), ValueError, "method must be one of 'krylov', 'power', got 'QR'"),
        (lambda a: randomized_svd(a, 2, sketch="sparse"), ValueError, "sketch must be one of 'gaussian', "),
        (lambda a: randomized_svd(a[0], 1), ValueError, r"a must be a matrix, of 2 axes, got shape \(6,\)"),
        (
            lambda a: randomized_svd(a.tolist(), 1),
            TypeError,
            "a must be a matrix, or have a shape .* got list; convert it",
        ),
        (lambda a: randomized_svd(a * np.nan, 1), ValueError, "a contains NaN or inf; clean it"),
        (lambda a: randomized_svd(a, 2, rng="x"), TypeError, "rng must be None, an integer"),
        (lambda a: range_finder(a, 5), ValueError, "size must be at most 4"),
        (lambda a: single_pass_svd([], 1), ValueError, "rows must hold at least one block"),
        (
            lambda a: single_pass_svd([a, a[:, 1:]], 1),
            ValueError,
            "rows must be blocks of one width and dtype, got 6 of float64 and 5 of float64",
        ),
        (lambda a: single_pass_svd(a, 9), ValueError, r"rank must be at most 6 \(the number of columns\), got 9"),
    ],
)
def test_bad_input(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call(np.arange(24.0).reshape(4, 6))


def test_a_krylov_space_that_ends_early():
    """One product with a projector gives nothing new; the next block is a fresh one."""
    a = np.diag(np.repeat([1.0, 0.0], 25))
    found = randomized_svd(a, rtol=1e-8, rng=0)
    np.testing.assert_allclose(found.S, np.ones(25))
    np.testing.assert_allclose(randomized_svd(a, 20, oversampling=0, rng=0).S, np.ones(20))


def test_lower_rank_on_backends(backend):
    given = backend.array(np.ones((8, 5)))
    found = randomized_svd(given, 3, rng=0)
    np.testing.assert_allclose(to_numpy(found.S), [40**0.5, 0, 0], atol=1e-12)
    u = to_numpy(found.U)
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-12)
    assert to_numpy(randomized_svd(backend.array(np.zeros((8, 5))), 2, rng=0).S).tolist() == [0, 0]


def test_complex_phases_are_fixed():
    a = normal(np.random.default_rng(0), (9, 6), complex)
    u, _, vh, _ = randomized_svd(a, 4, rng=0)
    stacked = np.concatenate([u, vh.conj().T])
    largest = np.take_along_axis(stacked, np.argmax(np.abs(stacked), axis=0)[None], axis=0)
    assert np.all(largest.real > 0)
    np.testing.assert_allclose(largest.imag, 0, atol=1e-12)


def test_a_matrix_and_its_adjoint_see_one_sketch():
    """Both give the same result, also where it is far from the exact one."""
    a = normal(np.random.default_rng(0), (30, 12))
    one, other = (randomized_svd(x, 3, power_iterations=0, oversampling=1, rng=0) for x in (a, a.T))
    np.testing.assert_allclose(one.S, other.S, rtol=1e-12)
    np.testing.assert_allclose(one.U, other.Vh.T, atol=1e-10)
