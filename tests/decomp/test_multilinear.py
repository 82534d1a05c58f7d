"""The Tucker decomposition against dense sums and singular values."""

import warnings

import numpy as np
import pytest

from nlattn.decomp import TuckerTensor, tucker
from nlattn.decomp._allowances import Allowance
from nlattn.decomp._subspaces import sketched_basis
from nlattn.errors import ConvergenceWarning
from nlattn.testing import assert_same_kind

METHODS = ["sthosvd", "hosvd", "hooi", "randomized"]


def tensor(shape, ranks=None, noise=0.0, dtype="float64", seed=0):
    """A random tensor of given multilinear ranks, and noise of given relative size."""
    rng = np.random.default_rng(seed)

    def normal(*size):
        x = rng.standard_normal(size)
        return x + 1j * rng.standard_normal(size) if "complex" in dtype else x

    x = normal(*(ranks or shape))
    if ranks:
        for k, (n, r) in enumerate(zip(shape, ranks, strict=True)):
            x = np.moveaxis(np.tensordot(normal(n, r), x, axes=(1, k)), 0, k)
    e = normal(*shape)
    return (x + noise * np.linalg.norm(x) / np.linalg.norm(e) * e).astype(dtype)


def dense(result, backend=None):
    core, factors = result.core, result.factors
    if backend is not None:
        core, factors = backend.to_numpy(core), [backend.to_numpy(u) for u in factors]
    x = core.astype(np.result_type(core.dtype, np.float64))
    for k, u in enumerate(factors):
        x = np.moveaxis(np.tensordot(u, x, axes=(1, k)), 0, k)
    return x


def relative(x, y):
    return np.linalg.norm(x - y) / np.linalg.norm(y)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("method", METHODS)
def test_result(backend, method, dtype):
    """Orthonormal factors with positive largest entries, a core of the given shape, and the error that it says."""
    x = tensor((7, 6, 8), (3, 2, 3), 0.2, dtype)
    result = tucker(backend.array(x), (3, 2, 3), method=method, oversampling=2, rng=0)
    eps = np.finfo(dtype).eps
    assert result.ranks == (3, 2, 3)
    assert result.shape == x.shape
    assert result.converged
    assert isinstance(result.error, float)
    for u in result.factors:
        assert_same_kind(u, backend.array(x))
        u = backend.to_numpy(u)
        np.testing.assert_allclose(u.conj().T @ u, np.eye(u.shape[1]), atol=50 * eps)
        largest = u[np.argmax(np.abs(u), axis=0), np.arange(u.shape[1])]
        assert np.all(largest.real > 0)
        assert np.all(np.abs(largest.imag) < 10 * eps)
    assert_same_kind(result.to_tensor(), backend.array(x))
    np.testing.assert_allclose(
        backend.to_numpy(result.to_tensor()), dense(result, backend), atol=100 * eps * abs(x).max()
    )
    assert 0.1 < result.error < 0.3
    assert abs(result.error - relative(dense(result, backend), x)) < 100 * eps


def test_hosvd_is_the_svd_of_the_unfoldings():
    x = tensor((7, 6, 8))
    result = tucker(x, (3, 2, 4), method="hosvd")
    for k, u in enumerate(result.factors):
        reference = np.linalg.svd(np.moveaxis(x, k, 0).reshape(x.shape[k], -1))[0][:, : u.shape[1]]
        np.testing.assert_allclose(u @ u.T, reference @ reference.T, atol=1e-12)
        gram = np.tensordot(result.core, result.core, axes=([m for m in range(3) if m != k],) * 2)
        full = np.tensordot(x, x, axes=([m for m in range(3) if m != k],) * 2)
        assert np.all(np.diag(gram) <= np.linalg.eigvalsh(full)[::-1][: u.shape[1]] * (1 + 1e-12))


def test_full_hosvd_has_an_all_orthogonal_core():
    x = tensor((5, 4, 6))
    result = tucker(x, x.shape, method="hosvd")
    for k in range(3):
        gram = np.tensordot(result.core, result.core, axes=([m for m in range(3) if m != k],) * 2)
        values = np.linalg.svd(np.moveaxis(x, k, 0).reshape(x.shape[k], -1), compute_uv=False)
        np.testing.assert_allclose(gram, np.diag(values**2), atol=1e-12 * values[0] ** 2)
    assert result.error < 1e-14


def test_matrix_and_vector():
    x = tensor((8, 6))
    values = np.linalg.svd(x, compute_uv=False)
    for method in METHODS:
        result = tucker(x, 3, method=method, power_iterations=4, rng=0)
        best = np.sqrt(np.sum(values[3:] ** 2)) / np.linalg.norm(x)
        np.testing.assert_allclose(result.error, best, rtol=1e-6 if method == "randomized" else 1e-12)
        np.testing.assert_allclose(np.linalg.svd(result.core, compute_uv=False), values[:3], rtol=1e-6)
        vector = tucker(x[0], 1, method=method)
        np.testing.assert_allclose(vector.to_tensor(), x[0], rtol=1e-12)
        assert vector.error < 1e-15


def test_hooi_improves_on_sthosvd():
    x = tensor((6, 7, 8))
    first = tucker(x, 3)
    errors = [first.error]
    for sweeps in (1, 2, 4, 40):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            errors.append(tucker(x, 3, method="hooi", iterations=sweeps, tol=1e-12).error)
    assert np.all(np.diff(errors) <= 1e-14)
    assert errors[-1] < 0.99 * errors[0]


def test_hooi_says_that_it_has_not_settled():
    with pytest.warns(
        ConvergenceWarning, match="tucker: 1 sweeps did not settle to tol=1e-12; raise iterations or tol"
    ):
        result = tucker(tensor((6, 7, 8)), 3, method="hooi", iterations=1, tol=1e-12)
    assert not result.converged
    assert result.iterations == 1


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("method", METHODS)
def test_exact_rank(method, dtype):
    """The error is that of rounding, and not a difference of squares that has cancelled."""
    x = tensor((12, 10, 11), (3, 2, 4), dtype=dtype)
    result = tucker(x, (3, 2, 4), method=method, rng=0)
    eps = np.finfo(dtype).eps
    truth = relative(dense(result), x.astype(np.result_type(dtype, np.float64)))
    assert truth < 20 * eps
    assert 0 <= result.error < 20 * eps
    assert abs(result.error - truth) < 3 * eps


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_small_singular_values_are_not_lost(dtype):
    """Where rounding hides a direction that is kept, a more precise factorisation takes over."""
    rng = np.random.default_rng(0)
    eps = float(np.finfo(dtype).eps)
    values = np.geomspace(1, eps**0.75, 4)
    q = [np.linalg.qr(rng.standard_normal((30, 4)))[0] for _ in range(3)]
    x = np.einsum("r,ir,jr,kr->ijk", values, *q).astype(dtype)
    for method in ("sthosvd", "hosvd", "hooi"):
        result = tucker(x, 4, method=method)
        # eigenvectors of the Gram matrix would leave about the least value
        assert result.error < 20 * eps < values[-1]
        assert relative(dense(result), x.astype(np.float64)) < 20 * eps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [
        ("float64", 0.3),
        ("float64", 1e-3),
        ("float64", 1e-9),
        ("float64", 3e-14),
        ("float32", 0.3),
        ("float32", 1e-3),
        ("float32", 2e-5),
        ("complex128", 1e-5),
    ],
)
def test_to_tolerance(method, dtype, rtol):
    """The tolerance is met, by ranks near the least that the lower bound allows."""
    i = np.arange(16.0)
    x = 1 / (1 + i[:, None, None] + 2 * i[:, None] + 3 * i)
    x = (x * np.exp(1j * x)).astype(dtype) if "complex" in dtype else x.astype(dtype)
    result = tucker(x, rtol=rtol, method=method, rng=0)
    assert relative(dense(result), x.astype(np.result_type(dtype, np.float64))) <= rtol * (1 + 1e-6)
    assert result.error <= rtol
    for k, r in enumerate(result.ranks):
        values = np.linalg.svd(np.moveaxis(x, k, 0).reshape(16, -1), compute_uv=False)
        least = int(np.sum(np.sqrt(np.cumsum(values[::-1] ** 2))[::-1] > rtol * np.linalg.norm(x)))
        assert least <= r <= least + 2


def test_tolerance_leaves_what_is_not_used_to_later_modes():
    """A matrix comes out with the ranks of its SVD, although the first mode may use up half of the tolerance only."""
    x = tensor((20, 20, 1))
    result = tucker(x, rtol=0.5)
    values = np.linalg.svd(x[:, :, 0], compute_uv=False)
    rank = np.sum(np.sqrt(np.cumsum(values[::-1] ** 2))[::-1] > 0.5 * np.linalg.norm(values))
    assert result.ranks == (rank, rank, 1)
    np.testing.assert_allclose(result.error, np.linalg.norm(values[rank:]) / np.linalg.norm(values), rtol=1e-12)
    assert abs(relative(dense(result), x) - result.error) < 1e-12
    assert all(np.all(np.max(u, axis=0) == np.max(np.abs(u), axis=0)) for u in result.factors)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 1, 4), (1, 6), (2, 2, 2, 2, 2)])
def test_size_one_modes(method, shape):
    x = tensor(shape)
    result = tucker(x, rtol=1e-10, method=method, rng=0)
    assert relative(dense(result), x) < 1e-10
    assert all(r <= n for r, n in zip(result.ranks, shape, strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_zero(backend, method):
    x = backend.array(np.zeros((4, 3, 5)))
    for options in ({"ranks": 2}, {"rtol": 0.1}):
        result = tucker(x, method=method, rng=0, oversampling=0, **options)
        assert result.error == 0.0
        assert result.ranks == ((2, 2, 2) if "ranks" in options else (1, 1, 1))
        assert np.all(backend.to_numpy(result.core) == 0)
        for u in result.factors:
            u = backend.to_numpy(u)
            np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-14)


@pytest.mark.parametrize("scale", [1e-30, 1e25, 1e-42])
def test_squares_beyond_the_range_of_float32(scale):
    x = tensor((6, 5, 4), (2, 2, 2)).astype(np.float32)
    result = tucker((x * np.float32(scale)), 2)
    assert relative(dense(result) / scale, x) < (0.1 if scale < 1e-40 else 1e-5)
    assert 0 <= result.error < (0.1 if scale < 1e-40 else 1e-5)


def test_other_dtypes():
    x = np.random.default_rng(0).integers(-5, 5, (4, 5, 3))
    assert tucker(x, 2).core.dtype == np.float64
    assert tucker(x.astype(np.float16), 2).core.dtype == np.float32
    assert relative(dense(tucker(x, x.shape)), x.astype(float)) < 1e-14


def test_input_is_only_read():
    x = tensor((6, 8, 10))[::2, ::-1, 1:7]
    x.flags.writeable = False
    before = x.copy()
    for method in METHODS:
        assert abs(tucker(x, 2, method=method, rng=0).error - tucker(before, 2, method=method, rng=0).error) < 1e-14
    np.testing.assert_array_equal(x, before)


def test_seeds(backend):
    x = tensor((30, 20, 25), noise=1.0)
    errors = [
        tucker(backend.array(x), 2, method="randomized", oversampling=1, power_iterations=0, rng=s).error
        for s in (0, 0, 1)
    ]
    assert errors[0] == errors[1] != errors[2]
    reference = tucker(x, 2, method="randomized", oversampling=1, power_iterations=0, rng=0).error
    assert abs(errors[0] - reference) < 1e-12


def test_power_iterations_and_oversampling_help():
    x = tensor((40, 30, 35))

    def error(**options):
        return np.mean([tucker(x, 3, method="randomized", rng=s, **options).error ** 2 for s in range(10)])

    plain, more, power = (
        error(oversampling=2, power_iterations=0),
        error(oversampling=12, power_iterations=0),
        error(oversampling=2, power_iterations=2),
    )
    assert tucker(x, 3).error ** 2 < power < more < plain


def test_randomised_range_to_a_tolerance():
    """The range is doubled until it misses little enough, well before it is the whole."""
    y = tensor((80, 300)) / np.arange(1.0, 81)[:, None] ** 2
    values = np.linalg.svd(y, compute_uv=False)
    tails = np.sqrt(np.cumsum(values[::-1] ** 2))[::-1]
    for rtol in (0.1, 0.01):
        allowed = (rtol * np.linalg.norm(y)) ** 2
        u = sketched_basis(np, y, Allowance(allowed, 1), np.random.default_rng(0), oversampling=4, power_iterations=0)
        other = sketched_basis(
            np, y, Allowance(allowed, 1), np.random.default_rng(1), oversampling=4, power_iterations=0
        )
        assert np.linalg.norm(y - u @ (u.T @ y)) ** 2 <= allowed
        assert u.shape[1] <= np.sum(tails > rtol * np.linalg.norm(y)) + 8
        assert np.linalg.norm(u[:, 0] - other[:, 0]) > 1e-12


def test_order_is_followed():
    x = tensor((6, 7, 8))
    results = {order: tucker(x, (2, 3, 2), order=order).error for order in [(0, 1, 2), (2, 1, 0)]}
    assert results[0, 1, 2] != results[2, 1, 0]
    # By default the mode that is compressed most comes first.
    assert tucker(x, (2, 3, 2)).error == tucker(x, (2, 3, 2), order=(2, 0, 1)).error


def test_gradients_flow():
    torch = pytest.importorskip("torch")
    x = torch.tensor(tensor((5, 4, 6)), requires_grad=True)
    tucker(x, 2).to_tensor().square().sum().backward()
    step = 1e-6
    other = x.detach().clone()
    other[1, 2, 3] += step
    slope = (tucker(other, 2).to_tensor().square().sum() - tucker(x.detach(), 2).to_tensor().square().sum()) / step
    assert abs(float(x.grad[1, 2, 3]) - float(slope)) < 1e-3


X = np.ones((3, 4, 5))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: tucker(X), ValueError, "pass either ranks or rtol, got neither"),
        (lambda: tucker(X, 2, rtol=0.1), ValueError, "pass either ranks or rtol, got both"),
        (lambda: tucker(X, 4), ValueError, r"ranks\[0\] must be at most 3 \(the smaller of its dimension"),
        (lambda: tucker(X, (2, 0, 2)), ValueError, r"ranks\[1\] must be at least 1, got 0"),
        (lambda: tucker(X, (2, 2)), ValueError, "ranks must be one integer or 3, one for each mode, got 2"),
        (
            lambda: tucker(X, (3, 1, 2)),
            ValueError,
            r"ranks\[0\] must be at most 2, the product of the other ranks, got 3",
        ),
        (lambda: tucker(X, 2.0), TypeError, "ranks must be an integer, got 2.0"),
        (lambda: tucker(X, rtol=1e-15), ValueError, "rtol must be at least 2.2e-14, 100 times the precision of x"),
        (lambda: tucker(X, rtol=1.0), ValueError, "rtol must be > 0 and < 1, got 1"),
        (
            lambda: tucker(X, 2, method="svd"),
            ValueError,
            "method must be one of 'sthosvd', 'hosvd', 'hooi', 'randomized'",
        ),
        (lambda: tucker(X, 2, order=(0, 0, 1)), ValueError, "order must name each mode from 0 to 2 once"),
        (
            lambda: tucker(np.ones((3, 0)), 1),
            ValueError,
            r"x must have at least one axis and one element, got shape \(3, 0\)",
        ),
        (lambda: tucker(np.ones(()), 1), ValueError, r"x must have at least one axis and one element, got shape \(\)"),
        (lambda: tucker(X * np.nan, 2), ValueError, "x contains NaN or inf"),
        (lambda: tucker(X.tolist(), 2), TypeError, "x must be an array, got list"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


def test_result_is_a_tucker_tensor():
    assert isinstance(tucker(X, 2), TuckerTensor)
