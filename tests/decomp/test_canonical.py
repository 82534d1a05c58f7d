"""The CP decomposition: planted components, dense errors, given tolerances."""

import warnings

import numpy as np
import pytest
from cp_tensors import dense, match, normal, planted, reconstructed, relative

from nlattn.decomp import CPTensor, cp
from nlattn.errors import ConvergenceWarning
from nlattn.testing import assert_same_kind


# The kinds of numbers with both methods in turn: each combination runs the same code.
@pytest.mark.parametrize(
    ("dtype", "method"), [("float64", "als"), ("float32", "sampled"), ("complex128", "als"), ("complex64", "sampled")]
)
def test_recovers_components(backend, dtype, method):
    x, factors = planted((6, 7, 5), 2, dtype=dtype, seed=1)
    result = cp(backend.array(x), 2, method=method, samples=20, tol=0, iterations=40, rng=1)
    eps = np.finfo(dtype).eps
    assert result.rank == 2
    assert result.shape == x.shape
    assert result.converged
    assert_same_kind(result.factors[1], backend.array(x))
    assert_same_kind(result.to_tensor(), backend.array(x))
    weights = backend.to_numpy(result.weights)
    assert weights.dtype == np.finfo(dtype).dtype
    assert np.all(np.diff(weights) <= 0)
    for a in result.factors:
        np.testing.assert_allclose(np.linalg.norm(backend.to_numpy(a), axis=0), 1, rtol=20 * eps)
    assert match([backend.to_numpy(a) for a in result.factors], factors) > 1 - 1e-5
    assert 0 <= result.error < 500 * eps
    assert relative(reconstructed(result), x) < 500 * eps
    np.testing.assert_allclose(backend.to_numpy(result.to_tensor()), reconstructed(result), atol=100 * eps)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"init": "hosvd"},
        {"line_search": False},
        {"damping": 0.1},
        {"method": "sampled", "samples": 30},
        {"method": "sampled"},
    ],
)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((7, 8, 9), "float64"),
        ((7, 8, 9), "complex64"),
        ((4, 5, 3, 4), "float32"),
        ((3, 3, 2, 3, 2), "float64"),
        ((8, 9), "float64"),
    ],
)
def test_error_is_the_error(shape, dtype, options):
    x, _ = planted(shape, 3, noise=0.3, dtype=dtype)
    result = cp(x, 2, rng=0, tol=0, iterations=20, **options)
    assert result.iterations == 20
    assert abs(result.error - relative(reconstructed(result), x)) < 1e-5


@pytest.mark.parametrize("level", [1e-1, 1e-3, 1e-5, 1e-6])
def test_small_errors_in_single_precision(level):
    """Here the formula by norms would be wrong by about 3e-4, or take the root of a negative number."""
    x, _ = planted((12, 13, 14), 3, noise=level, dtype="float32", seed=2)
    result = cp(x, 3, rng=0, tol=1e-4, iterations=300)
    truth = relative(reconstructed(result), x.astype(np.float64))
    assert abs(result.error - truth) < 0.02 * truth
    assert truth < 1.5 * level + 1e-6


def test_matrix_and_vector():
    x = normal((8, 6))
    values = np.linalg.svd(x, compute_uv=False)
    result = cp(x, 3, rng=0, tol=1e-12, iterations=1000)
    np.testing.assert_allclose(result.error, np.linalg.norm(values[3:]) / np.linalg.norm(values), rtol=1e-8)
    for rank in (1, 3):
        for method in ("als", "sampled"):
            vector = cp(x[0], rank, rng=0, method=method)
            np.testing.assert_allclose(vector.to_tensor(), x[0], rtol=1e-12)
            assert 0 <= vector.error < 1e-15


@pytest.mark.parametrize("method", ["als", "sampled"])
@pytest.mark.parametrize("init", ["random", "hosvd"])
def test_zero(backend, method, init):
    result = cp(backend.array(np.zeros((4, 3, 5))), 2, method=method, init=init, rng=0)
    assert result.error == 0.0
    assert result.converged
    assert np.all(backend.to_numpy(result.weights) == 0)
    assert np.all(backend.to_numpy(result.to_tensor()) == 0)
    assert cp(backend.array(np.zeros((4, 3, 5))), rtol=0.1).rank == 1


@pytest.mark.parametrize("init", ["random", "hosvd"])
def test_rank_above_the_dimensions(init):
    """Nine components fit every 3 x 3 x 3 tensor, and five fit almost every one."""
    x = normal((3, 3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        errors = [cp(x, r, init=init, rng=0, iterations=1000, tol=1e-7).error for r in (1, 3, 5, 9, 12)]
    assert errors[0] > errors[1] > errors[2]
    assert max(errors[3:]) < 1e-6


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 1, 4), (1, 6), (1, 4, 5, 1)])
def test_size_one_modes(shape):
    x = normal(shape)
    result = cp(x, min(4, max(shape)), rng=0, iterations=500, tol=1e-9)
    assert relative(reconstructed(result), x) < 1e-8


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rank", [1, 2, 3, 5, 6])
def test_grows_to_the_planted_rank(rank, dtype):
    x, _ = planted((9, 10, 11), rank, dtype=dtype, seed=3)
    result = cp(x, rtol=1e-3, rng=0)
    assert result.rank == rank
    assert relative(reconstructed(result), x) <= 1e-3 * (1 + 1e-4)
    assert result.error <= 1e-3


def test_tolerance_that_is_not_reached():
    x = normal((6, 7, 8))
    with pytest.warns(
        ConvergenceWarning, match=r"cp: error 0.\d+ at rank 3 exceeds rtol=0.01; raise rank or iterations"
    ):
        result = cp(x, 3, rtol=0.01, rng=0)
    assert result.rank == 3
    assert not result.converged
    assert result.error > 0.5


@pytest.mark.parametrize("seed", [20, 23])
def test_growth_starts_anew_where_what_is_there_leads_nowhere(seed):
    """Here the components of rank 4 do not extend to a fit of rank 5."""
    x = dense(np.ones(5), [normal((n, 5), seed=100 * seed + n) for n in (6, 7, 8)])
    assert cp(x, 20, rtol=1e-6, rng=0).rank == 5


@pytest.mark.parametrize("method", ["als", "sampled"])
def test_tolerance_ends_the_sweeps(method):
    x, _ = planted((9, 10, 11), 3, noise=0.01)
    result = cp(x, 3, rtol=0.1, rng=0, tol=0, iterations=100, method=method)
    assert result.converged
    assert result.iterations < 50


def test_seeds(backend):
    x, _ = planted((12, 9, 10), 3, noise=0.5)
    for options in ({}, {"method": "sampled", "samples": 20}):
        runs = [cp(backend.array(x), 3, rng=s, iterations=6, tol=0, **options) for s in (0, 0, 1)]
        assert runs[0].error == runs[1].error != runs[2].error
        np.testing.assert_array_equal(*(backend.to_numpy(r.factors[0]) for r in runs[:2]))
        reference = cp(x, 3, rng=0, iterations=6, tol=0, **options)
        np.testing.assert_allclose(runs[0].error, reference.error, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_squares_beyond_the_range_of_float32(scale):
    x, _ = planted((6, 7, 8), 2, dtype="float32")
    result = cp(x * np.float32(scale), 2, rng=0)
    assert relative(reconstructed(result) / scale, x) < 1e-4
    assert 0 <= result.error < 1e-4


def test_other_dtypes():
    x = np.random.default_rng(0).integers(-5, 5, (4, 5, 3))
    assert cp(x, 1, rng=0).factors[0].dtype == np.float64
    assert cp(x.astype(np.float16), 1, rng=0).factors[0].dtype == np.float32
    assert isinstance(cp(x, 1, rng=0), CPTensor)


def test_input_is_only_read():
    x = planted((12, 9, 10), 3, noise=0.1)[0][::2, ::-1, 1:7]
    x.flags.writeable = False
    before = x.copy()
    for method in ("als", "sampled"):
        results = [cp(y, 2, rng=0, method=method, samples=20) for y in (x, before)]
        np.testing.assert_allclose(results[0].error, results[1].error, rtol=1e-9)
    np.testing.assert_array_equal(x, before)


def test_gradients_flow():
    torch = pytest.importorskip("torch")
    x = torch.tensor(planted((5, 4, 6), 2, noise=0.1)[0], requires_grad=True)
    cp(x, 2, rng=0, iterations=5, tol=0).to_tensor().square().sum().backward()

    def value(y):
        return float(cp(y, 2, rng=0, iterations=5, tol=0).to_tensor().square().sum())

    other = x.detach().clone()
    other[1, 2, 3] += 1e-6
    assert abs(float(x.grad[1, 2, 3]) - (value(other) - value(x.detach())) / 1e-6) < 1e-4


X = np.ones((3, 4, 5))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: cp(X), ValueError, "pass rank, rtol or both, got neither"),
        (lambda: cp(X, 0), ValueError, "rank must be at least 1, got 0"),
        (lambda: cp(X, 1.5), TypeError, "rank must be an integer, got 1.5"),
        (lambda: cp(X, 1, tol=-1), ValueError, "tol must be >= 0, got -1"),
        (lambda: cp(X, 1, damping=-1), ValueError, "damping must be >= 0, got -1"),
        (lambda: cp(X, 1, iterations=0), ValueError, "iterations must be at least 1, got 0"),
        (lambda: cp(X, 1, method="svd"), ValueError, "method must be one of 'als', 'sampled'"),
        (lambda: cp(X, 1, init="svd"), ValueError, "init must be one of 'random', 'hosvd', got 'svd'"),
        (
            lambda: cp(X, 2, init=(None, [np.ones((3, 2))])),
            ValueError,
            "init must have 2 weights and factors of shapes",
        ),
        (
            lambda: cp(X, 2, init=3),
            TypeError,
            r"init must be 'random', 'hosvd', a CPTensor or \(weights, factors\), got int",
        ),
        (
            lambda: cp(X, 1, init=(None, [np.ones((n, 1)) * 1j for n in (3, 4, 5)])),
            TypeError,
            r"init\[1\]\[0\] must be real",
        ),
        (lambda: cp(X, rtol=0.1, init=cp(X, 1, rng=0)), ValueError, "init must be 'random' or 'hosvd' with rtol"),
        (lambda: cp(X, 4, method="sampled", samples=3), ValueError, "samples must be at least 4, got 3"),
        (lambda: cp(X, rtol=1e-16), ValueError, "rtol must be at least"),
        (lambda: cp(np.ones((3, 0)), 1), ValueError, "x must have at least one axis and one element"),
        (lambda: cp(X * np.nan, 1), ValueError, "x contains NaN or inf"),
        (lambda: cp(X, 1, rng=-1), ValueError, "rng must not be negative"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
