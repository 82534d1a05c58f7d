"""Matrices at the edges of the floating range and of what can be factorised: right, or one clear sentence."""

import contextlib
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg

from nlattn import use_backend
from nlattn.arrays.random import standard_normal
from nlattn.linalg import (
    KernelMatrix,
    cur,
    gaussian_kernel,
    interpolative_decomposition,
    nystrom_approximation,
    pivoted_cholesky,
    randomized_svd,
    range_finder,
    single_pass_svd,
)
from nlattn.linalg._orthonormal import orthonormal
from nlattn.testing import to_numpy

SCALES = [(np.float64, 1e200), (np.float64, 1e-200), (np.float64, 1e-160), (np.float32, 1e-30), (np.float32, 1e25)]
SKETCHES = ["gaussian", "sparse_sign", "srht", "count", "balanced_count"]


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(("dtype", "scale"), SCALES)
def test_scale_changes_nothing_but_the_scale(dtype, scale):
    """2-norms of all these matrices are representable, squares of their entries are not."""
    scale = 2.0 ** np.round(np.log2(scale))
    a = (normal((20, 12)) @ np.diag(0.6 ** np.arange(12))).astype(dtype)
    big = (a * scale).astype(dtype)
    for options in ({"rank": 4}, {"rtol": 1e-2}):
        one, other = (randomized_svd(x, rng=0, **options) for x in (a, big))
        np.testing.assert_allclose(other.S, one.S * scale, rtol=1e-5)
        np.testing.assert_allclose(other.error, one.error, rtol=1e-4)
        one, other = (interpolative_decomposition(x, rng=0, **options) for x in (a, big))
        np.testing.assert_array_equal(other.columns, one.columns)
        np.testing.assert_allclose(other.error, one.error, rtol=1e-4)
        one, other = (cur(x, rng=0, **options) for x in (a, big))
        np.testing.assert_allclose(other.core * scale, one.core, rtol=1e-3)
    one, other = (single_pass_svd([x[:7], x[7:]], 3, rng=0) for x in (a, big))
    np.testing.assert_allclose(other.S, one.S * scale, rtol=1e-5)
    np.testing.assert_allclose(other.error, one.error, rtol=1e-4)
    q, same = (range_finder(x, 4, rng=0) for x in (a, big))
    np.testing.assert_allclose(q, same, atol=1e-5)
    gram = (a @ a.T).astype(dtype)
    one, other = (nystrom_approximation((gram * s).astype(dtype), 4, rng=0) for s in (1, scale))
    np.testing.assert_allclose(other.values, one.values * scale, rtol=1e-3)
    one, other = (pivoted_cholesky((gram * s).astype(dtype), 4, rng=0) for s in (1, scale))
    np.testing.assert_array_equal(other.pivots, one.pivots)
    np.testing.assert_allclose(other.factor, one.factor * scale**0.5, rtol=1e-4, atol=1e-5 * scale**0.5)
    np.testing.assert_allclose(other.error, one.error, rtol=1e-4)


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("seed", range(40))
def test_small_sketches_that_are_dependent_by_chance(sketch, seed):
    """Two columns of a sparse sketch can be equal; the rank of the result does not suffer."""
    for n in (2, 4, 5):
        np.testing.assert_allclose(randomized_svd(np.eye(n), n, sketch=sketch, rng=seed).S, np.ones(n))
        assert interpolative_decomposition(np.eye(n), n, sketch=sketch, rng=seed).columns.shape == (n,)
        assert nystrom_approximation(np.eye(4), 4, sketch="gaussian", rng=seed).error < 1e-9
    tall = np.eye(60)[:, :30]
    assert randomized_svd(tall, rtol=1e-3, sketch=sketch, rng=seed).S.shape == (30,)


def test_a_krylov_space_that_ends_early():
    """One product with a projector gives nothing new; the next block is a fresh one."""
    a = np.diag(np.repeat([1.0, 0.0], 25))
    found = randomized_svd(a, rtol=1e-8, rng=0)
    np.testing.assert_allclose(found.S, np.ones(25))
    np.testing.assert_allclose(randomized_svd(a, 20, oversampling=0, rng=0).S, np.ones(20))


@pytest.mark.parametrize("seed", range(10))
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
        x, y = normal((5, 3)), normal((4, 3), 1)
        distance = np.sum((x[:, None] - y) ** 2, axis=2)
        np.testing.assert_allclose(gaussian_kernel(3.0)(x, y), np.exp(-distance / 18))


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (
            lambda: nystrom_approximation(np.asarray([[0.0, 5], [-5, 0]]), 2),
            ValueError,
            "entries beside a diagonal of zeros",
        ),
        (lambda: nystrom_approximation(np.asarray([[1.0, 0.9], [0, 1]]), 2), ValueError, "a must be Hermitian, got a"),
        (lambda: pivoted_cholesky(np.asarray([[0.0, 2], [2, 0]]), 1), ValueError, "entries beside a diagonal of zeros"),
        (
            lambda: pivoted_cholesky(np.diag([1 + 3j, 1]), 2),
            ValueError,
            "a must be Hermitian, got a diagonal that is not",
        ),
        (
            lambda: KernelMatrix(3, np.ones((2, 2))),
            TypeError,
            "kernel must be a function of two sets of points, got int",
        ),
        (
            lambda: KernelMatrix(gaussian_kernel(), np.ones((2, 2)), np.ones(3)),
            ValueError,
            r"diagonal must have shape \(2,\)",
        ),
        (lambda: cur(np.eye(3), rtol="a"), TypeError, "rtol must be a number, got 'a'"),
        (lambda: cur(np.eye(3), rtol=-1), ValueError, "rtol must be >= 1.77636e-15 and < 1, got -1"),
        (lambda: single_pass_svd(5, 1), TypeError, "rows must be an array or an iterable of blocks of rows, got int"),
        (lambda: randomized_svd(np.eye(3), 1, rng=np.asarray([1, 2])), TypeError, "rng must be None, an integer"),
    ],
)
def test_refusals(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call()


def test_a_diagonal_that_is_negative_by_rounding_is_none():
    a = np.diag([1.0, -1e-18])
    assert pivoted_cholesky(a, 2, rng=0).pivots.tolist() == [0]
    np.testing.assert_allclose(nystrom_approximation(a, 1, rng=0).values, [1.0])


def test_operators_without_declarations():
    class Turned:
        """Complex products, no dtype."""

        shape = (4, 4)

        def __matmul__(self, x):
            return 1j * x

        @property
        def H(self):
            return Backward()

    class Backward(Turned):
        def __matmul__(self, x):
            return -1j * x

    np.testing.assert_allclose(randomized_svd(Turned(), 4, rng=0).S, np.ones(4))
    Turned.dtype = np.float64
    with pytest.raises(TypeError, match="a must declare a complex dtype, since its products are complex"):
        randomized_svd(Turned(), 2, rng=0)
    one_way = scipy.sparse.linalg.LinearOperator((8, 5), matvec=lambda x: np.ones(8))
    with pytest.raises(TypeError, match="the adjoint of a cannot be multiplied by ndarray"):
        randomized_svd(one_way, 2, rng=0)
    wide = scipy.sparse.linalg.aslinearoperator(np.eye(3, dtype=np.longdouble))
    with pytest.raises(TypeError, match="a must have at most 64 bits a number"):
        randomized_svd(wide, 2, rng=0)


def test_kernel_matrix_as_an_operator(backend):
    points = normal((12, 2))
    given = KernelMatrix(gaussian_kernel(1.0), backend.array(points, "float32"))
    expected = np.linalg.svd(gaussian_kernel(1.0)(points, points), compute_uv=False)[:3]
    found = randomized_svd(given, 3, rng=0)
    assert str(found.S.dtype).endswith("float32")
    np.testing.assert_allclose(to_numpy(found.S), expected, rtol=1e-4)
    waves = KernelMatrix(lambda x, y: np.exp(1j * (x - y.T)), np.linspace(0, 1, 5)[:, None])
    np.testing.assert_allclose(nystrom_approximation(waves, 2, rng=0).values, [5, 0], atol=1e-9)
    assert pivoted_cholesky(waves, 3, rng=0).pivots.shape == (1,)


def test_lower_rank_on_backends(backend):
    given = backend.array(np.ones((8, 5)))
    found = randomized_svd(given, 3, rng=0)
    np.testing.assert_allclose(to_numpy(found.S), [40**0.5, 0, 0], atol=1e-12)
    u = to_numpy(found.U)
    np.testing.assert_allclose(u.T @ u, np.eye(3), atol=1e-12)
    assert to_numpy(randomized_svd(backend.array(np.zeros((8, 5))), 2, rng=0).S).tolist() == [0, 0]


def test_unchecked_input_is_not_checked_again():
    """It ends in NaN or in an error of LAPACK, not in advice that was followed."""
    a = np.full((6, 4), np.nan)
    for call in (randomized_svd, range_finder, interpolative_decomposition, cur):
        with contextlib.suppress(np.linalg.LinAlgError):
            call(a, 2, rng=0, check_finite=False)


def test_gradients_do_not_make_noise():
    torch = pytest.importorskip("torch")
    a = torch.tensor(normal((9, 5)), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        randomized_svd(a, 2, rng=0)
        interpolative_decomposition(a, 2, rng=0)
        cur(a, 2, rng=0)
        single_pass_svd(a, 1, rng=0)
        nystrom_approximation(a @ a.T, 2, rng=0)
        pivoted_cholesky(a @ a.T, 2, rng=0)


def test_bases_do_not_turn_with_rounding():
    """The same columns from a matrix and from one that differs by rounding, in both passes of a Gram matrix."""
    y = normal((200, 20))
    q = orthonormal(y)
    np.testing.assert_allclose(orthonormal(y * (1 + 1e-15)), q, atol=1e-12)
    r = q.T @ y
    np.testing.assert_allclose(np.tril(r, -1), 0, atol=1e-10)
    assert np.all(np.diag(r) > 0)
    ill = y * 10.0 ** -np.arange(0, 10, 0.5)
    q = orthonormal(ill)
    np.testing.assert_allclose(q.T @ q, np.eye(20), atol=1e-13)


def test_complex_phases_are_fixed():
    a = normal((9, 6)) + 1j * normal((9, 6), 1)
    u, _, vh, _ = randomized_svd(a, 4, rng=0)
    stacked = np.concatenate([u, vh.conj().T])
    largest = np.take_along_axis(stacked, np.argmax(np.abs(stacked), axis=0)[None], axis=0)
    assert np.all(largest.real > 0)
    np.testing.assert_allclose(largest.imag, 0, atol=1e-12)


def test_a_matrix_and_its_adjoint_see_one_sketch():
    """Also where the result is not converged."""
    a = normal((30, 12))
    one, other = (randomized_svd(x, 3, power_iterations=0, oversampling=1, rng=0) for x in (a, a.T))
    np.testing.assert_allclose(one.S, other.S, rtol=1e-12)
    np.testing.assert_allclose(one.U, other.Vh.T, atol=1e-10)


def test_trimming_is_relative():
    a = 10 * normal((40, 30)) @ np.diag(0.5 ** np.arange(30))
    found = interpolative_decomposition(a, rtol=0.05, rng=0)
    fewer = interpolative_decomposition(a, found.columns.size - 1, rng=0)
    assert found.error <= 0.05 < 1.3 * fewer.error


def test_complex_draws_do_not_depend_on_the_blocks():
    rng, like = np.random.default_rng(0), np.zeros(0, complex)
    whole = standard_normal(np.random.default_rng(0), (5, 3), like)
    np.testing.assert_array_equal(np.concatenate([standard_normal(rng, (n, 3), like) for n in (2, 3)]), whole)
    many = standard_normal(rng, (20000,), like)
    np.testing.assert_allclose(np.mean(np.abs(many) ** 2), 1, rtol=0.03)
    np.testing.assert_allclose(np.mean(many**2), 0, atol=0.03)


def test_nystrom_of_low_rank_in_single_precision():
    root = normal((50, 3)).astype(np.float32)
    a = root @ root.T
    found = nystrom_approximation(a, 8, rng=0)
    exact = np.linalg.eigvalsh(a.astype(float))[::-1][:8]
    np.testing.assert_allclose(found.values, exact, atol=1e-4 * exact[0])
    assert np.all(found.values[3:] < 2e-5 * exact[0])
    assert np.all(np.isfinite(found.vectors))
    # The shift is taken off again: no eigenvalue of a projection exceeds that of the matrix.
    assert found.values[0] <= exact[0] * (1 + 1e-6)
