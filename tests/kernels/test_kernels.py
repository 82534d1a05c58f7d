"""Every backend's kernels against the generic version and against an independent oracle."""

import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
from array_api_compat import array_namespace

import nlattn
from nlattn.kernels.over_matrices import over_matrices
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.kernels.top_k import top_k
from nlattn.testing import assert_close, dense_attention, to_numpy


def stems(package, *below):
    folder = Path(next(iter(importlib.import_module(package).__path__)))
    return {file.stem for file in folder.joinpath(*below).glob("[!_]*.py")}


KERNELS = sorted(stems("nlattn.kernels") & stems("nlattn.backends", "numba_cpu"))
rng = np.random.default_rng(0)


@pytest.mark.parametrize("name", KERNELS)
def test_backends_have_the_signature_of_the_specification(name):
    pytest.importorskip("numba")
    generic = getattr(importlib.import_module(f"nlattn.kernels.{name}"), name)
    special = getattr(importlib.import_module(f"nlattn.backends.numba_cpu.{name}"), name)
    assert inspect.signature(special) == inspect.signature(generic)


def both(backend, kernel, *arrays, **options):
    """The kernel on a backend, compared with the generic version on NumPy arrays; results as NumPy arrays."""

    def call(convert):
        converted = [convert(x) if isinstance(x, np.ndarray) else x for x in arrays]
        keywords = {n: convert(x) if isinstance(x, np.ndarray) else x for n, x in options.items()}
        result = kernel(*converted, **keywords)
        return result if isinstance(result, tuple) else (result,)

    got = [to_numpy(x) for x in call(backend.array)]
    with nlattn.use_backend("generic"):
        wanted = call(lambda x: x)
    for x, y in zip(got, wanted, strict=True):
        assert x.dtype == y.dtype
        tight = 1e-10 if x.dtype == np.float64 else 2e-4
        assert_close(x, y, rtol=tight, atol=tight)
    return got


def intervals(b, h, length, s):
    """Start and stop of every sort: empty, reversed, single, whole."""
    start, stop = np.sort(rng.integers(0, s + 1, (2, b, h, length)), axis=0)
    start[:, :, ::7], stop[:, :, ::7] = 0, s
    start[:, :, 1::7] = stop[:, :, 1::7]
    flip = stop[:, :, 2::7].copy()
    stop[:, :, 2::7], start[:, :, 2::7] = start[:, :, 2::7], flip
    return start, stop


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("length", "s"), [(5, 9), (70, 300), (200, 64), (530, 270)])
@pytest.mark.parametrize("kind", ["plain", "mask", "bias", "mask and bias", "key weights"])
def test_softmax_attention(backend, dtype, length, s, kind):
    b, h, g = 2, 4, 2
    q, k, v = (rng.standard_normal((b, n, m, e)).astype(dtype) for n, m, e in ((h, length, 8), (g, s, 8), (g, s, 6)))
    start, stop = intervals(b, h, length, s)
    position = np.arange(s)
    allowed = (position >= start[..., None]) & (position < stop[..., None])
    scores = np.zeros((b, h, length, s))
    options = {}
    if "mask" in kind:
        options["mask"] = rng.random((b, 1, length, s)) < 0.6
        allowed = allowed & options["mask"]
    if "bias" in kind or "weights" in kind:
        shape = (1, h, 1, s) if "weights" in kind else (1, h, length, s)
        options["bias"] = np.where(rng.random(shape) < 0.8, rng.standard_normal(shape), -np.inf).astype(dtype)
        scores = scores + options["bias"]
    out, lse = both(backend, softmax_attention, q, k, v, start, stop, scale=0.3, **options)
    wanted = dense_attention(q, k, v, np.where(allowed, scores, -np.inf), scale=0.3)
    tight = 1e-11 if dtype == "float64" else 2e-5
    assert_close(out.astype(float), wanted.out, rtol=tight, atol=tight)
    assert_close(lse.astype(float), wanted.lse, rtol=tight, atol=tight)
    assert np.all(out[~allowed.any(-1)] == 0)


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 1, 2), (0, 1), (3,), (2,), (1,), (0,)])
def test_softmax_attention_broadcasts_masks(backend, axes):
    shape = [2, 4, 70, 300]
    for axis in axes:
        shape[axis] = 1
    q, k, v = (rng.standard_normal((2, n, m, 8)) for n, m in ((4, 70), (2, 300), (2, 300)))
    start, stop = np.zeros((2, 4, 70), np.int64), np.full((2, 4, 70), 300)
    mask, bias = rng.random(shape) < 0.7, rng.standard_normal(shape)
    for options in ({"mask": mask}, {"bias": bias}, {"mask": mask, "bias": bias}):
        out, _ = both(backend, softmax_attention, q, k, v, start, stop, scale=0.3, **options)
        total = np.where(options.get("mask", True), options.get("bias", 0.0), -np.inf)
        assert_close(out, dense_attention(q, k, v, total, scale=0.3).out, rtol=1e-11, atol=1e-13)


def test_softmax_attention_ignores_what_no_row_may_see(backend):
    """Keys outside of every interval are not even read into a product."""
    q, k, v = (rng.standard_normal((1, 1, n, 8)) for n in (40, 600, 600))
    start, stop = np.full((1, 1, 40), 300), np.full((1, 1, 40), 512)
    stop[..., 5] = 300
    wanted = dense_attention(q, k[:, :, 300:512], v[:, :, 300:512], np.arange(40)[:, None] != 5, scale=1.0)
    k[:, :, :300] = k[:, :, 512:] = 1e200
    v[:, :, :300] = v[:, :, 512:] = 1e200
    out, lse = both(backend, softmax_attention, q, k, v, start, stop, scale=1.0)
    assert_close(out, wanted.out, rtol=1e-11, atol=1e-13)
    assert_close(lse, wanted.lse, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 300])
def test_top_k(backend, dtype, n):
    """Ties go to the smaller index; infinities and both zeros are numbers like others."""
    x = np.round(2 * rng.standard_normal((3, 4, n))).astype(dtype)  # full of ties, also of 0.0 and -0.0
    x[0, 0, ::5], x[0, 1, ::5] = np.inf, -np.inf
    for k in sorted({0, 1, n // 4, n // 2, min(n, 64), n}):
        values, indices = both(backend, top_k, x, k)
        wanted = np.argsort(-x, axis=-1, kind="stable")[..., :k]
        assert np.array_equal(indices, wanted)
        assert np.array_equal(values, np.take_along_axis(x, wanted, axis=-1))
        assert indices.dtype == np.int64


def test_top_k_shapes(backend):
    for shape in ((7,), (0, 7), (2, 0, 7), (1, 1, 1, 7)):
        values, indices = both(backend, top_k, rng.standard_normal(shape), 3)
        assert values.shape == indices.shape == (*shape[:-1], 3)
    assert both(backend, top_k, np.zeros((4, 0)), 0)[0].shape == (4, 0)


def triangle(lead, n, lower, dtype):
    """A well-conditioned triangle with NaN in the other half."""
    a = rng.standard_normal((*lead, n, n)) / max(n, 1) ** 0.5 + 2 * np.eye(n)
    return np.where(np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, a, np.nan).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 70])
def test_solve_triangular(backend, dtype, lower, n):
    for lead_a, lead_b in (((), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 1)), ((0,), (0,))):
        a = triangle(lead_a, n, lower, dtype)
        for m in (0, 1, 5):
            b = rng.standard_normal((*lead_b, n, m)).astype(dtype)
            (x,) = both(backend, solve_triangular, a, b, lower=lower)
            lead = np.broadcast_shapes(lead_a, lead_b)
            assert x.shape == (*lead, n, m)
            full = np.nan_to_num(a.astype(np.float64))
            wanted = np.linalg.solve(np.broadcast_to(full, (*lead, n, n)), np.broadcast_to(b, (*lead, n, m)))
            tight = 1e-10 if dtype == "float64" else 1e-3
            assert_close(x.astype(float), wanted, rtol=tight, atol=tight)


def test_solve_triangular_by_zero(backend):
    """Infinite or NaN, without an error or a warning."""
    a, b = np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([[2.0], [5.0]])
    (x,) = both(backend, solve_triangular, a, b)
    assert x[0] == 1.0
    assert x[1] == np.inf


@pytest.mark.parametrize("lead", [(2, 3), (1, 1), (0, 3)])
def test_over_matrices(backend, lead):
    """One matrix at a time or all at once: results of any rank, in their places."""
    a, b = rng.standard_normal((*lead, 4, 4)), rng.standard_normal((*lead, 4, 2))

    def function(a, b):
        xp = array_namespace(a)
        return a @ b, xp.sum(a, axis=-1), xp.argmax(xp.sum(b, axis=-1), axis=-1)

    product, sums, index = both(backend, over_matrices, a, b, function=function)
    assert_close(product, a @ b, rtol=1e-12, atol=1e-14)
    assert_close(sums, a.sum(-1), rtol=1e-12, atol=1e-14)
    assert np.array_equal(index, b.sum(-1).argmax(-1))


def test_over_matrices_raises(backend):
    def function(a):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        over_matrices(backend.array(np.ones((2, 3, 4, 4))), function=function)


def test_compiled_versions_do_run():
    """What the tests above compare with the generic version is not the generic version."""
    pytest.importorskip("numba")
    from nlattn.backends.numba_cpu.kernels import softmax_attention as softmax_module
    from nlattn.backends.numba_cpu.kernels import solve_triangular as solve_module
    from nlattn.backends.numba_cpu.kernels import top_k as top_k_module

    x = rng.standard_normal((1, 1, 8, 8))
    edges = np.zeros((1, 1, 8), np.int64), np.full((1, 1, 8), 8)
    for dtype in (np.float64, np.float32, np.float16):
        y = x.astype(dtype)
        assert softmax_module.softmax_attention(y, y, y, *edges, scale=1.0) is not NotImplemented
    for dtype in (np.float64, np.float32):
        y = x.astype(dtype)
        assert top_k_module.top_k(y, 3) is not NotImplemented
        assert solve_module.solve_triangular(y, y) is not NotImplemented


def test_inputs_may_be_read_only_and_strided():
    x = rng.standard_normal((2, 2, 60, 32))[:, :, ::2, ::2]
    x.flags.writeable = False
    before = x.copy()
    edges = np.broadcast_to(np.int64(0), (2, 2, 30)), np.broadcast_to(np.int64(30), (2, 2, 30))
    for name in ("generic", "numba_cpu") if nlattn.dispatch.backend_name(np.ndarray) != "generic" else ("generic",):
        with nlattn.use_backend(name):
            out, _ = softmax_attention(x, x, x, *edges, scale=1.0)
            assert_close(out, dense_attention(x, x, x, scale=1.0).out, rtol=1e-12)
            assert top_k(x, 3)[0].shape == (2, 2, 30, 3)
            assert solve_triangular(x[..., :16, :], x[..., :16, :]).shape == (2, 2, 16, 16)
    assert np.array_equal(x, before)


def test_gradients_of_kernels():
    torch = pytest.importorskip("torch")

    def tensor(*shape):
        return torch.tensor(rng.standard_normal(shape), requires_grad=True)

    start, stop = (torch.tensor(x) for x in intervals(1, 2, 5, 4))
    q, k, v, bias = tensor(1, 2, 5, 3), tensor(1, 1, 4, 3), tensor(1, 1, 4, 2), tensor(1, 1, 5, 4)

    def softmax(q, k, v, bias):
        out, lse = softmax_attention(q, k, v, start, stop, scale=0.5, bias=bias)
        return out, torch.where(torch.isfinite(lse), lse, torch.zeros_like(lse))

    assert torch.autograd.gradcheck(softmax, (q, k, v, bias))
    assert torch.autograd.gradcheck(lambda x: top_k(x, 2)[0], (tensor(3, 5),))
    a = (2 * torch.eye(4, dtype=torch.float64) + 0.3 * tensor(4, 4).detach()).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: solve_triangular(torch.tril(a), b), (a, tensor(4, 2)))
