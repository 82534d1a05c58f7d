"""The CP decomposition: planted components, dense errors, degenerate and deficient tensors."""

import warnings
from itertools import pairwise

import array_api_compat
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from nlattn.decomp import CPTensor, cp
from nlattn.decomp._degeneracy import cancelling_pair
from nlattn.decomp._least_squares import normalised, solved
from nlattn.decomp._sampling import draw_rows, row_probabilities
from nlattn.errors import ConvergenceWarning
from nlattn.testing import assert_same_kind, to_numpy


def normal(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if "complex" in dtype else x


def dense(weights, factors):
    letters = "abcdefg"[: len(factors)]
    return np.einsum(f"r,{','.join(c + 'r' for c in letters)}->{letters}", weights, *factors)


def planted(shape, rank, noise=0.0, dtype="float64", seed=0, collinearity=0.0):
    """A tensor of given rank, and noise of given relative size; and its factors."""
    factors = []
    for k, n in enumerate(shape):
        a = normal((n, rank + 1), dtype, 10 * seed + k)
        a /= np.linalg.norm(a, axis=0)
        factors.append(np.sqrt(1 - collinearity) * a[:, :rank] + np.sqrt(collinearity) * a[:, rank:])
    x = dense(np.linspace(2, 1, rank), factors)
    e = normal(shape, dtype, 10 * seed + 9)
    return (x + noise * np.linalg.norm(x) / np.linalg.norm(e) * e).astype(dtype), factors


def reconstructed(result):
    return dense(to_numpy(result.weights).astype(float), [to_numpy(a) for a in result.factors])


def relative(x, y):
    return np.linalg.norm(x - y) / np.linalg.norm(y)


def match(factors, others):
    """The least product of cosines over the modes between components, paired as well as can be."""
    cosines = 1.0
    for a, b in zip(factors, others, strict=True):
        a, b = a / np.linalg.norm(a, axis=0), b / np.linalg.norm(b, axis=0)
        cosines = cosines * np.abs(a.conj().T @ b)
    rows, columns = linear_sum_assignment(-cosines)
    return cosines[rows, columns].min()


def w_state():
    x = np.zeros((2, 2, 2))
    x[0, 0, 1] = x[0, 1, 0] = x[1, 0, 0] = 1.0
    return x


@pytest.mark.parametrize("method", ["als", "sampled"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_recovers_components(backend, dtype, method):
    x, factors = planted((8, 9, 7), 3, dtype=dtype, seed=1)
    result = cp(backend.array(x), 3, method=method, samples=40, tol=0, iterations=70, rng=1)
    eps = np.finfo(dtype).eps
    assert result.rank == 3
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
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(7, 8, 9), (4, 5, 3, 4), (3, 3, 2, 3, 2), (8, 9)])
def test_error_is_the_error(shape, dtype, options):
    x, _ = planted(shape, 3, noise=0.3, dtype=dtype)
    result = cp(x, 2, rng=0, tol=0, iterations=20, **options)
    assert result.iterations == 20
    assert abs(result.error - relative(reconstructed(result), x)) < 1e-5


@pytest.mark.parametrize("level", [1e-1, 1e-3, 1e-5, 1e-6])
def test_small_errors_in_single_precision(level):
    """The cheap formula would be wrong by about 3e-4 here, or the root of a negative number."""
    x, _ = planted((12, 13, 14), 3, noise=level, dtype="float32", seed=2)
    result = cp(x, 3, rng=0, tol=1e-4, iterations=300)
    truth = relative(reconstructed(result), x.astype(np.float64))
    assert abs(result.error - truth) < 0.02 * truth
    assert truth < 1.5 * level + 1e-6


def test_error_never_grows():
    """Sweep by sweep, with and without the steps beyond, and with the term that holds factors back."""
    x, _ = planted((8, 9, 7), 4, noise=0.2, collinearity=0.8)
    for options in ({}, {"line_search": False}, {"damping": 0.3}, {"init": "hosvd"}):
        errors = [cp(x, 3, rng=3, tol=0, iterations=n, **options).error for n in range(1, 25)]
        assert all(b <= a * (1 + 1e-12) for a, b in pairwise(errors))
        assert errors[-1] < errors[0]


def test_one_sweep_is_the_least_squares_update():
    x, _ = planted((5, 6, 7), 3, noise=0.5)
    start = [normal((n, 2), seed=n) for n in x.shape]
    a, b, c = start
    z = np.einsum("jr,kr->jkr", b, c).reshape(-1, 2)
    a = np.linalg.lstsq(z, x.reshape(5, -1).T)[0].T
    z = np.einsum("ir,kr->ikr", a, c).reshape(-1, 2)
    b = np.linalg.lstsq(z, x.transpose(1, 0, 2).reshape(6, -1).T)[0].T
    z = np.einsum("ir,jr->ijr", a, b).reshape(-1, 2)
    c = np.linalg.lstsq(z, x.transpose(2, 0, 1).reshape(7, -1).T)[0].T
    result = cp(x, 2, init=(None, start), iterations=1, tol=0)
    np.testing.assert_allclose(reconstructed(result), dense(np.ones(2), [a, b, c]), rtol=1e-10, atol=1e-12)


def test_line_search_saves_sweeps():
    x, _ = planted((20, 21, 22), 4, noise=0.01, collinearity=0.9)
    sweeps = {on: cp(x, 4, rng=0, iterations=2000, line_search=on).iterations for on in (True, False)}
    assert sweeps[True] < 0.5 * sweeps[False]


def test_damping_holds_factors_back():
    x, _ = planted((8, 9, 7), 3, noise=0.2)
    start = cp(x, 3, rng=0, iterations=1, tol=0)
    moves = [
        relative(reconstructed(cp(x, 3, init=start, iterations=1, tol=0, damping=d)), reconstructed(start))
        for d in (0.0, 1.0, 1e6)
    ]
    assert moves[0] > moves[1] > moves[2]
    assert moves[2] < 1e-5


def test_start_keeps_its_weights():
    """A start that is a solution is left alone, whether its weights are apart or in the factors."""
    x, factors = planted((5, 6, 7), 2, noise=0.1)
    result = cp(x, 2, rng=0, tol=1e-14, iterations=500)
    for start in (result, (result.weights, result.factors), (None, [factors[0], *result.factors[1:]])):
        again = cp(x, 2, init=start, iterations=1, tol=0)
        np.testing.assert_allclose(again.error, result.error, rtol=1e-9)
    for scale in (1.0, 1e-170):
        start = (result.weights * scale, result.factors)
        held = cp(x * scale, 2, init=start, iterations=1, tol=0, damping=1e8)
        np.testing.assert_allclose(held.to_tensor() / scale, result.to_tensor(), atol=1e-6)


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


@pytest.mark.parametrize("method", ["als", "sampled"])
@pytest.mark.parametrize("init", ["random", "hosvd"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rank_deficient(backend, method, init, dtype):
    """A constant tensor, and equal slices, with more components than there are: nothing raises, the fit is exact."""
    slices = np.broadcast_to(normal((4, 3))[:, :, None], (4, 3, 6))
    for x in (np.ones((3, 4, 5)), np.asarray(slices)):
        result = cp(backend.array(x, dtype), 5, method=method, init=init, rng=0)
        assert 0 <= result.error < 1e-4
        assert relative(reconstructed(result), x) < 1e-4
        assert np.all(np.isfinite(backend.to_numpy(result.weights)))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_singular_normal_equations_give_the_least_solution(backend, dtype):
    a = normal((5, 3), dtype).astype(dtype)
    matrix, rhs = a @ a.conj().T, normal((4, 5), dtype, seed=1).astype(dtype)
    rhs = rhs @ matrix
    xp = array_api_compat.array_namespace(backend.array(rhs))
    out = backend.to_numpy(solved(xp, backend.array(rhs), backend.array(matrix)))
    np.testing.assert_allclose(out, rhs @ np.linalg.pinv(matrix, rcond=1e-5), rtol=1e-3, atol=1e-4)
    noisy = backend.to_numpy(
        solved(xp, backend.array(rhs + normal((4, 5), dtype).astype(dtype)), backend.array(matrix))
    )
    assert np.linalg.norm(noisy @ (np.eye(5) - a @ np.linalg.pinv(a))) < 1e-3
    assert np.all(backend.to_numpy(solved(xp, backend.array(rhs), backend.array(0 * matrix))) == 0)


def test_components_that_vanish_do_not_overflow(backend):
    """Beyond the rank columns shrink from sweep to sweep, until their squares underflow."""
    x = backend.array(np.full((4, 6, 2, 5), 0.7), "float32")
    for rank in (3, 5, 7):
        for damping in (0.0, 0.1):
            result = cp(x, rank, rng=1, iterations=60, tol=0, damping=damping)
            assert 0 <= result.error < 1e-5
            assert np.all(np.isfinite(backend.to_numpy(result.weights)))
    tiny = normalised(np, np.asarray([[1e-21, 3.0], [0.0, 4.0]], np.float32))
    np.testing.assert_allclose(tiny[0], [[0, 0.6], [0, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(tiny[1], [0, 5], rtol=1e-6)


@pytest.mark.parametrize("init", ["random", "hosvd"])
def test_rank_above_the_dimensions(init):
    """Nine components fit any 3 x 3 x 3 tensor, five the generic one."""
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


def test_w_state_is_reported_as_degenerate():
    """A tensor of rank 3 and border rank 2: better and better approximations of rank 2, none of them best."""
    results = []
    for sweeps in (50, 500, 2000):
        with pytest.warns(ConvergenceWarning) as record:
            results.append(cp(w_state(), 2, rng=0, iterations=sweeps, line_search=False, tol=1e-12))
    sentences = [str(warning.message) for warning in record]
    assert any("components 0 and 1 are larger than x and nearly cancel (cosine -0.9" in s for s in sentences)
    assert any("a best approximation of rank 2 may not exist: lower the rank, or raise damping" in s for s in sentences)
    errors, weights = [r.error for r in results], [r.weights[1] for r in results]
    assert errors[0] > errors[1] > errors[2] > 1e-4
    assert weights[0] < weights[1] < weights[2]
    assert cp(w_state(), 3, rng=0, iterations=1000).error < 1e-6
    # The sequence that shows it: n (a + b / n) o (a + b / n) o (a + b / n) - n a o a o a.
    for n in (10, 1000):
        c = np.asarray([1, 1 / n])
        near = n * np.einsum("i,j,k->ijk", c, c, c)
        near[0, 0, 0] -= n
        np.testing.assert_allclose(np.linalg.norm(near - w_state()), np.sqrt(3) / n, rtol=0.1)


def test_healthy_fits_are_not_reported():
    x, _ = planted((8, 9, 7), 3, noise=0.1, collinearity=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cp(x, 3, rng=0).converged


def test_cancelling_pair():
    """Only components larger than the tensor count, and only if they cancel."""
    opposite = np.asarray([[1.0, -1.0, 0.0], [0.1, 0.1, 1.0]])
    opposite /= np.linalg.norm(opposite, axis=0)
    factors, weights = [opposite, np.ones((1, 3)), np.ones((1, 3))], np.asarray([5.0, 4.0, 3.0])
    i, j, cosine = cancelling_pair(np, weights, factors, 3.5)
    assert {i, j} == {0, 1}
    np.testing.assert_allclose(cosine, opposite[:, 0] @ opposite[:, 1])
    assert cancelling_pair(np, weights, factors, 4.5) is None
    assert cancelling_pair(np, weights, [opposite, opposite, np.ones((1, 3))], 3.5) is None


def test_says_that_it_has_not_settled():
    x, _ = planted((8, 9, 7), 3, noise=0.1)
    with pytest.warns(ConvergenceWarning, match="cp: 2 sweeps did not settle to tol=1e-05; raise iterations or tol"):
        assert not cp(x, 3, rng=0, iterations=2).converged


def test_sampled_is_nearly_as_good():
    x, _ = planted((40, 50, 45), 4, noise=0.3)
    exact = cp(x, 4, rng=0, tol=1e-9, iterations=500).error
    result = cp(x, 4, rng=0, method="sampled")
    assert exact * (1 - 1e-9) <= result.error < 1.01 * exact
    few = cp(x, 4, rng=0, method="sampled", samples=12, iterations=30, tol=0)
    assert few.error > 1.001 * exact


def test_rows_are_drawn_with_the_probabilities_given():
    """Each combination of rows in proportion to the product of leverage scores, and rows of zeros never."""
    a, b = normal((4, 2), seed=1), normal((3, 2), seed=2)
    a[2] = 0
    scores = [np.sum(np.linalg.qr(m)[0] ** 2, axis=1) / 2 for m in (a, b)]
    np.testing.assert_allclose(row_probabilities(a), scores[0], atol=1e-15)
    indices, probability = draw_rows([a, b], 40_000, np.random.default_rng(0))
    product = np.outer(*scores)
    np.testing.assert_allclose(probability, product[indices[0], indices[1]], rtol=1e-12)
    counts = np.zeros((4, 3))
    np.add.at(counts, (indices[0], indices[1]), 1)
    assert np.all(counts[2] == 0)
    chi = np.sum((counts - 40_000 * product)[product > 1e-12] ** 2 / (40_000 * product[product > 1e-12]))
    assert chi < 30


class Constant:
    """A generator of one number."""

    def __init__(self, number):
        self.number = number

    def random(self, n):
        return np.full(n, self.number)


# 1 stands for a product with the sum of all probabilities that rounding has raised to that sum.
@pytest.mark.parametrize(("number", "row"), [(0.0, 2), (np.nextafter(1.0, 0.0), 98), (1.0, 98)])
def test_rows_of_zeros_at_the_ends_are_not_drawn(number, row):
    a = np.full((104, 1), 0.1, np.float32)
    a[:2], a[99:] = 0, 0
    (indices,), probability = draw_rows([a], 3, Constant(number))
    assert np.all(indices == row)
    assert np.all(probability > 0)


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
