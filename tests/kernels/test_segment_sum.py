"""Sums of rows by segment, on every backend."""

import numpy as np
import pytest

from nlattn.kernels.segment_sum import segment_sum
from nlattn.testing import assert_close, to_numpy

rng = np.random.default_rng(0)


def summed(x, index, m, weights):
    lead = np.broadcast_shapes(x.shape[:-2], index.shape[:-2])
    (n, c), k = x.shape[-2:], index.shape[-1]
    x = np.broadcast_to(x, (*lead, n, c)).reshape(-1, n, c)
    index, weights = (np.broadcast_to(z, (*lead, n, k)).reshape(-1, n, k) for z in (index, weights))
    out = np.zeros((len(x), m, c))
    for total, rows, at, w in zip(out, x, index, weights, strict=True):
        np.add.at(total, at, w[:, :, None] * rows[:, None, :])
    return out.reshape(*lead, m, c)


@pytest.mark.parametrize(("n", "k", "m", "c"), [(50, 1, 7, 3), (40, 3, 5, 1), (300, 2, 4, 70), (3, 2, 50, 2)])
@pytest.mark.parametrize("leads", [((), ()), ((3,), ()), ((), (3,)), ((2, 1), (3,))], ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_against_a_loop(backend, n, k, m, c, leads, weighted):
    x, index = rng.standard_normal((*leads[0], n, c)), rng.integers(0, m, (*leads[1], n, k))
    weights = rng.standard_normal(index.shape) if weighted else np.ones(index.shape)
    got = segment_sum(backend.array(x), backend.array(index), m, backend.array(weights) if weighted else None)
    assert_close(got, summed(x, index, m, weights), rtol=1e-11, atol=1e-11, like=backend.array(x))


def test_one_giant_segment(backend):
    """In float32 a sum of n equal terms, one after the other, would be off by about n eps / 4."""
    n = 1 << 17
    index = np.zeros((n, 1), np.int64)
    index[::5000] = 2
    x = np.full((n, 2), 0.1, np.float32)
    got = to_numpy(segment_sum(backend.array(x), backend.array(index), 4))
    counts = np.bincount(index[:, 0], minlength=4)
    np.testing.assert_allclose(got, np.float32(0.1) * counts.astype(float)[:, None] * np.ones(2), rtol=2e-6)
    assert got.dtype == np.float32


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_nothing(backend, shape):
    index = backend.array(np.zeros((shape[0], 1), np.int64))
    got = segment_sum(backend.array(np.ones(shape)), index, 3)
    assert_close(got, np.zeros((3, shape[1])), rtol=0, like=backend.array(np.ones(1)))


def test_never_writes_outside():
    pytest.importorskip("numba")
    for wrong in (-1, 3):
        with pytest.raises(IndexError, match="index must lie between 0 and 2"):
            segment_sum(np.ones((2, 2)), np.asarray([[0], [wrong]]), 3)


@pytest.mark.parametrize(("n", "k", "m", "c"), [(100000, 1, 10, 8), (5000, 8, 64, 300), (3000, 2, 50, 1)])
def test_is_the_same_on_any_number_of_threads(monkeypatch, n, k, m, c):
    x = rng.standard_normal((2, n, c)).astype(np.float32)
    index, weights = rng.integers(0, m, (n, k)), rng.standard_normal((n, k)).astype(np.float32)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append(segment_sum(x, index, m, weights))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
