"""The kernels under the sketches, on every backend, against dense formulas."""

import numpy as np
import pytest
from scipy import linalg

from nlattn.kernels.fwht import fwht
from nlattn.kernels.segment_sum import segment_sum
from nlattn.kernels.spectral_product import spectral_product
from nlattn.testing import assert_close, to_numpy

rng = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 8, 32, 128, 512, 2048])
@pytest.mark.parametrize("others", [(), (1,), (3,), (70,)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fwht_along_each_axis(backend, n, others, dtype):
    """Columns of every width, also such as do not fill the tiles."""
    H = linalg.hadamard(n, dtype=float)
    tight = 1e-12 * n if dtype == "float64" else 2e-6 * n
    for shape, axis in {((n, *others), 0), ((*others, n), len(others)), ((2, n, *others), 1)}:
        x = rng.standard_normal(shape).astype(dtype)
        wanted = np.moveaxis(np.tensordot(H, x, (1, axis)), 0, axis).astype(dtype)
        for where in (axis, axis - len(shape)):
            assert_close(fwht(backend.array(x), where), wanted, rtol=0, atol=tight, like=backend.array(x))


def test_fwht_is_its_own_inverse_and_copies(backend):
    x = rng.standard_normal((1 << 15, 2))
    before = x.copy()
    assert_close(fwht(fwht(backend.array(x), 0), 0), x * 2**15, rtol=1e-9, atol=1e-9 * 2**15, like=backend.array(x))
    one = backend.array(np.ones((3, 1)))
    result = fwht(one, 1)
    assert result is not one
    assert not np.shares_memory(to_numpy(result), to_numpy(one))
    assert np.array_equal(x, before)


@pytest.mark.parametrize("length", [0, 3, 12])
def test_fwht_refuses_other_lengths(backend, length):
    with pytest.raises(ValueError, match=f"power of two as its length, got {length}"):
        fwht(backend.array(np.ones((length, 2))), 0)


def summed(x, index, m, weights):
    lead = np.broadcast_shapes(x.shape[:-2], index.shape[:-2])
    (n, c), k = x.shape[-2:], index.shape[-1]
    x = np.broadcast_to(x, (*lead, n, c)).reshape(-1, n, c)
    index, weights = (np.broadcast_to(z, (*lead, n, k)).reshape(-1, n, k) for z in (index, weights))
    out = np.zeros((len(x), m, c))
    for total, rows, at, w in zip(out, x, index, weights, strict=True):
        np.add.at(total, at, w[:, :, None] * rows[:, None, :])
    return out.reshape(*lead, m, c)


@pytest.mark.parametrize(
    ("n", "k", "m", "c"), [(1, 1, 1, 1), (50, 1, 7, 3), (40, 3, 5, 1), (900, 2, 4, 70), (3, 2, 50, 2)]
)
@pytest.mark.parametrize("leads", [((), ()), ((3,), ()), ((), (3,)), ((2, 1), (3,)), ((2, 3), (2, 3))], ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_segment_sum(backend, n, k, m, c, leads, weighted):
    x, index = rng.standard_normal((*leads[0], n, c)), rng.integers(0, m, (*leads[1], n, k))
    weights = rng.standard_normal(index.shape) if weighted else np.ones(index.shape)
    got = segment_sum(backend.array(x), backend.array(index), m, backend.array(weights) if weighted else None)
    assert_close(got, summed(x, index, m, weights), rtol=1e-11, atol=1e-11, like=backend.array(x))


def test_segment_sum_of_one_giant_segment(backend):
    """In float32 a sum of n equal terms, one after the other, would be off by about n eps / 4."""
    n = 1 << 18
    index = np.zeros((n, 1), np.int64)
    index[::5000] = 2
    x = np.full((n, 2), 0.1, np.float32)
    got = to_numpy(segment_sum(backend.array(x), backend.array(index), 4))
    counts = np.bincount(index[:, 0], minlength=4)
    np.testing.assert_allclose(got, np.float32(0.1) * counts.astype(float)[:, None] * np.ones(2), rtol=2e-6)
    assert got.dtype == np.float32


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_segment_sum_of_nothing(backend, shape):
    index = backend.array(np.zeros((shape[0], 1), np.int64))
    got = segment_sum(backend.array(np.ones(shape)), index, 3)
    assert_close(got, np.zeros((3, shape[1])), rtol=0, like=backend.array(np.ones(1)))


def test_segment_sum_never_writes_outside():
    pytest.importorskip("numba")
    for wrong in (-1, 3):
        with pytest.raises(IndexError, match="index must lie between 0 and 2"):
            segment_sum(np.ones((2, 2)), np.asarray([[0], [wrong]]), 3)


@pytest.mark.parametrize(("n", "k", "m", "c"), [(100000, 1, 10, 8), (5000, 8, 64, 300), (3000, 2, 50, 1)])
def test_segment_sum_is_the_same_on_any_number_of_threads(monkeypatch, n, k, m, c):
    x = rng.standard_normal((2, n, c)).astype(np.float32)
    index, weights = rng.integers(0, m, (n, k)), rng.standard_normal((n, k)).astype(np.float32)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append(segment_sum(x, index, m, weights))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("m", [1, 2, 5, 8, 300])
@pytest.mark.parametrize("sizes", [(4,), (4, 3), (2, 6, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_spectral_product(backend, m, sizes, dtype):
    n, half = 700, m // 2 + 1
    inputs = [rng.standard_normal((n, d)).astype(dtype) for d in sizes]
    # The transforms of real vectors, whose columns are conjugate to each other.
    spectra = [np.fft.rfft(rng.standard_normal((d, m))) for d in sizes]
    product = np.prod([x.astype(float) @ e for x, e in zip(inputs, spectra, strict=True)], axis=0)
    wanted = np.concatenate([product.real, product.imag[:, 1 : m - half + 1]], axis=1).astype(dtype)
    transforms = [backend.array(np.concatenate([e.real, e.imag], axis=1).astype(dtype)) for e in spectra]
    got = spectral_product(*map(backend.array, inputs), transforms=transforms, m=m)
    tight = (1e-12 if dtype == "float64" else 1e-5) * max(1.0, np.max(np.abs(wanted)))
    assert_close(got, wanted, rtol=0, atol=tight, like=backend.array(inputs[0]))
    none = spectral_product(*(backend.array(x[:0]) for x in inputs), transforms=transforms, m=m)
    assert tuple(none.shape) == (0, m)


def test_spectral_product_is_the_same_on_any_number_of_threads(monkeypatch):
    x, transforms = (
        rng.standard_normal((5000, 20)).astype(np.float32),
        rng.standard_normal((2, 20, 102)).astype(np.float32),
    )
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append(spectral_product(x, x, transforms=list(transforms), m=100))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
