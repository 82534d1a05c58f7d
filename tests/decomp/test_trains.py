"""Tensor trains and their rounding, against dense sums and singular values."""

import math

import numpy as np
import pytest

from nlattn.decomp import TensorTrain, tensor_train
from nlattn.testing import assert_same_kind


def tensor(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if "complex" in dtype else x.astype(dtype)


def train(shape, ranks, dtype="float64", seed=0):
    """Random cores."""
    sides = zip((1, *ranks), shape, (*ranks, 1), strict=True)
    return [tensor(core, dtype, seed + k) for k, core in enumerate(sides)]


def dense(cores):
    x = np.ones((1, 1))
    for core in cores:
        x = np.tensordot(x, core.astype(np.result_type(core.dtype, np.float64)), axes=(-1, 0))
    return x[0, ..., 0]


def relative(x, y):
    return np.linalg.norm(x - y) / np.linalg.norm(y)


def smooth(n=9):
    i = np.arange(float(n))
    return 1 / (1 + i[:, None, None, None] + 2 * i[:, None, None] + 3 * i[:, None] + i)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_result(backend, dtype):
    x = tensor((4, 5, 3, 6), dtype)
    result = tensor_train(backend.array(x), (3, 7, 4))
    eps = np.finfo(dtype).eps
    cores = [backend.to_numpy(core) for core in result.cores]
    assert result.shape == x.shape
    assert result.ranks == (3, 7, 4)
    assert [core.shape for core in cores] == [(1, 4, 3), (3, 5, 7), (7, 3, 4), (4, 6, 1)]
    for core in cores[:-1]:
        q = core.reshape(-1, core.shape[2])
        np.testing.assert_allclose(q.conj().T @ q, np.eye(q.shape[1]), atol=50 * eps)
    assert_same_kind(result.cores[1], backend.array(x))
    assert_same_kind(result.to_tensor(), backend.array(x))
    np.testing.assert_allclose(backend.to_numpy(result.to_tensor()), dense(cores), atol=50 * eps * np.abs(x).max())
    assert 0.3 < result.error < 0.9
    assert abs(result.error - relative(dense(cores), x)) < 100 * eps


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_exact_ranks(dtype):
    x = dense(train((5, 6, 7, 4), (3, 5, 2), dtype)).astype(dtype)
    result, eps = tensor_train(x, (3, 5, 2)), np.finfo(dtype).eps
    assert 0 <= result.error < 20 * eps
    assert relative(dense(result.cores), x) < 20 * eps
    assert tensor_train(x, rtol=1e-4).ranks == (3, 5, 2)


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [("float64", 0.1), ("float64", 1e-4), ("float64", 1e-9), ("float64", 3e-14), ("float32", 1e-2), ("float32", 2e-5)],
)
def test_to_tolerance(dtype, rtol):
    x = smooth().astype(dtype)
    result = tensor_train(x, rtol=rtol)
    assert relative(dense(result.cores), x.astype(np.float64)) <= rtol * (1 + 1e-6)
    assert result.error <= rtol
    for k, r in enumerate(result.ranks):
        values = np.linalg.svd(x.astype(np.float64).reshape(9 ** (k + 1), -1), compute_uv=False)
        least = int(np.sum(np.sqrt(np.cumsum(values[::-1] ** 2))[::-1] > rtol * np.linalg.norm(values)))
        assert least <= r <= least + 1


def test_matrix_is_the_svd():
    x = tensor((9, 7))
    values = np.linalg.svd(x, compute_uv=False)
    result = tensor_train(x, 3)
    np.testing.assert_allclose(result.error, np.linalg.norm(values[3:]) / np.linalg.norm(values), rtol=1e-12)
    for k in range(1, 7):
        rtol = 1.01 * np.linalg.norm(values[k:]) / np.linalg.norm(values)
        assert tensor_train(x, rtol=rtol).ranks == (k,)
        assert tensor_train(x.T, rtol=1e-12).round(rtol=rtol).ranks == (k,)


@pytest.mark.parametrize("shape", [(5,), (1,), (1, 1, 1), (4, 1, 3), (2,) * 7])
def test_awkward_shapes(shape):
    x = tensor(shape)
    result = tensor_train(x, rtol=1e-12)
    assert result.shape == shape
    np.testing.assert_allclose(result.to_tensor(), x, atol=1e-12)
    np.testing.assert_allclose(result.round(rtol=1e-12).to_tensor(), x, atol=1e-11)
    if len(shape) == 1:
        assert result.ranks == tensor_train(x, ()).ranks == ()
        assert result.error == 0.0


def test_zero(backend):
    for result in (
        tensor_train(backend.array(np.zeros((3, 4, 5))), rtol=0.1),
        tensor_train(backend.array(np.zeros((3, 4, 5))), (2, 3)).round(rtol=0.1),
    ):
        assert result.error == 0.0
        assert result.ranks == (1, 1)
        assert np.all(backend.to_numpy(result.to_tensor()) == 0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_rounding(backend, dtype):
    """A sum of two trains has the sum of their ranks; rounding leaves as much of it as is needed."""
    a, b = train((4, 5, 6, 3), (2, 3, 2), dtype), train((4, 5, 6, 3), (2, 2, 1), dtype, seed=9)
    cores = [np.concatenate([a[0], b[0]], axis=2)]
    for p, q in zip(a[1:-1], b[1:-1], strict=True):
        core = np.zeros((p.shape[0] + q.shape[0], p.shape[1], p.shape[2] + q.shape[2]), dtype)
        core[: p.shape[0], :, : p.shape[2]], core[p.shape[0] :, :, p.shape[2] :] = p, q
        cores.append(core)
    cores.append(np.concatenate([a[-1], b[-1]], axis=0))
    doubled = [np.concatenate([cores[0]] * 2, axis=2), np.concatenate([cores[1]] * 2, axis=0) / 2, *cores[2:]]
    eps, x = float(np.finfo(dtype).eps), dense(cores)
    given = TensorTrain(cores=tuple(backend.array(core) for core in doubled), error=0.0)
    exact = given.round(rtol=1000 * eps)
    assert exact.ranks == (4, 5, 3)
    assert relative(dense([backend.to_numpy(c) for c in exact.cores]), x) < 100 * eps
    assert_same_kind(exact.cores[0], given.cores[0])
    short = given.round((2, 3, 2))
    error = relative(dense([backend.to_numpy(c) for c in short.cores]), x)
    assert short.ranks == (2, 3, 2)
    assert error > 0.01
    assert abs(short.error - error) < 100 * eps
    assert all(math.isclose(given.round(rtol=r).error, 0, abs_tol=r) for r in (0.9, 0.5, 0.1))


def test_rounding_keeps_to_the_range_of_float32():
    cores = [core * np.float32(1e15) for core in train((4, 5, 6), (2, 3), "float32")]
    cores[2] *= np.float32(1e-8)
    result = TensorTrain(cores=tuple(cores), error=0.0).round(rtol=1e-4)
    assert relative(dense(result.cores), dense(cores)) < 1e-4
    assert result.error < 1e-4


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_squares_beyond_the_range_of_float32(scale):
    x = dense(train((4, 5, 6), (2, 3))).astype(np.float32)
    result = tensor_train(x * np.float32(scale), (2, 3))
    assert relative(dense(result.cores) / scale, x) < 1e-5
    assert result.error < 1e-5


def test_input_is_only_read():
    x = tensor((8, 6, 10))[::2, ::-1, 1:7]
    x.flags.writeable = False
    before = x.copy()
    np.testing.assert_allclose(
        tensor_train(x, (2, 3)).to_tensor(), tensor_train(before, (2, 3)).to_tensor(), atol=1e-13
    )
    np.testing.assert_array_equal(x, before)


def test_other_dtypes():
    x = np.random.default_rng(0).integers(-5, 5, (4, 5, 3))
    assert tensor_train(x, 2).cores[0].dtype == np.float64
    assert tensor_train(x.astype(np.float16), 2).cores[0].dtype == np.float32


def test_gradients_flow():
    torch = pytest.importorskip("torch")
    x = torch.tensor(tensor((4, 5, 6)), requires_grad=True)
    tensor_train(x, 2).to_tensor().square().sum().backward()
    other = x.detach().clone()
    other[1, 2, 3] += 1e-6
    change = tensor_train(other, 2).to_tensor().square().sum() - tensor_train(x.detach(), 2).to_tensor().square().sum()
    assert abs(float(x.grad[1, 2, 3]) - float(change) / 1e-6) < 1e-3


X = np.ones((3, 4, 5))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: tensor_train(X), ValueError, "pass either ranks or rtol, got neither"),
        (
            lambda: tensor_train(X, (3, 6)),
            ValueError,
            r"ranks\[1\] must be at most 5 \(the rank that the tensor can have",
        ),
        (lambda: tensor_train(X, (1, 5)), ValueError, r"ranks\[1\] must be at most 4, as its neighbours are, got 5"),
        (
            lambda: tensor_train(X, (2, 2, 2)),
            ValueError,
            "ranks must be one integer or 2, one for each inner rank, got 3",
        ),
        (lambda: tensor_train(X, 0), ValueError, "ranks must be at least 1, got 0"),
        (lambda: tensor_train(X, rtol=1e-16), ValueError, "rtol must be at least"),
        (lambda: tensor_train(X * np.inf, 1), ValueError, "x contains NaN or inf"),
        (lambda: tensor_train(X, (2, 2)).round((2, 3)), ValueError, r"ranks\[1\] must be at most 2"),
        (lambda: tensor_train(X, (2, 2)).round(), ValueError, "pass either ranks or rtol, got neither"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
