"""What every compiled kernel keeps: the signature of its specification, inputs as they are, and that it runs at all."""

import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest

import nlattn
from nlattn.kernels.softmax_attention import softmax_attention
from nlattn.kernels.solve_triangular import solve_triangular
from nlattn.kernels.top_k import top_k
from nlattn.testing import assert_close, dense_attention

FOLDER = Path(next(iter(importlib.import_module("nlattn.backends").__path__)))
KERNELS = sorted(file.stem for file in FOLDER.joinpath("numba_cpu", "kernels").glob("[!_]*.py"))
rng = np.random.default_rng(0)


@pytest.mark.parametrize("name", KERNELS)
def test_signatures_are_those_of_the_specification(name):
    pytest.importorskip("numba")

    def parameters(package):
        function = getattr(importlib.import_module(f"{package}.{name}"), name)
        return [(x.name, x.kind, x.default) for x in inspect.signature(function).parameters.values()]

    assert parameters("nlattn.backends.numba_cpu.kernels") == parameters("nlattn.kernels")


def test_compiled_versions_do_run():
    """What other tests compare with the generic version is not the generic version."""
    pytest.importorskip("numba")
    package = "nlattn.backends.numba_cpu.kernels"
    softmax, largest, solve = (
        getattr(importlib.import_module(f"{package}.{name}"), name)
        for name in ("softmax_attention", "top_k", "solve_triangular")
    )
    x = rng.standard_normal((1, 1, 8, 8))
    edges = np.zeros((1, 1, 8), np.int64), np.full((1, 1, 8), 8)
    for dtype in (np.float64, np.float32, np.float16):
        y = x.astype(dtype)
        assert softmax(y, y, y, *edges, scale=1.0) is not NotImplemented
    for dtype in (np.float64, np.float32):
        y = x.astype(dtype)
        assert largest(y, 3) is not NotImplemented
        assert solve(y, y) is not NotImplemented


@pytest.mark.parametrize("name", ["generic", "numba_cpu"])
def test_inputs_may_be_read_only_strided_and_unaligned(name):
    if name == "numba_cpu":
        pytest.importorskip("numba")
    x = rng.standard_normal((2, 2, 60, 32))[:, :, ::2, ::2]
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.float64, offset=1).reshape(x.shape)
    assert not unaligned.flags.aligned
    x.flags.writeable = False
    before = x.copy()
    edges = np.broadcast_to(np.int64(0), (2, 2, 30)), np.broadcast_to(np.int64(30), (2, 2, 30))
    for y in (x, unaligned):
        with nlattn.use_backend(name):
            out, _ = softmax_attention(y, y, y, *edges, scale=1.0)
            assert_close(out, dense_attention(x, x, x, scale=1.0).out, rtol=1e-12)
            assert top_k(y, 3)[0].shape == (2, 2, 30, 3)
            assert solve_triangular(y[..., :16, :], y[..., :16, :]).shape == (2, 2, 16, 16)
        assert np.array_equal(y, before)
