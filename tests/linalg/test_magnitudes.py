"""Norms without overflow and without cancellation."""

import numpy as np
import pytest

from nlattn.arrays.host import to_float
from nlattn.linalg._magnitudes import residual_norm, scaled, squared_norm


def drawn(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if "complex" in dtype else x.astype(dtype)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 100_003])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_squared_norm(backend, size, dtype):
    x = drawn(size, dtype)
    np.testing.assert_allclose(
        to_float(squared_norm(backend.array(x))), np.sum(np.abs(x.astype(complex)) ** 2), rtol=1e-6, atol=1e-12
    )


def test_long_sums_of_squares_in_single_precision():
    x = np.full(1 << 23, 0.1, np.float32)
    np.testing.assert_allclose(float(squared_norm(x)), (1 << 23) * float(x[0]) ** 2, rtol=1e-6)


@pytest.mark.parametrize("entries", [1, 7, 40, 1000])
def test_residual_in_pieces(backend, entries, monkeypatch):
    monkeypatch.setattr("nlattn.linalg._magnitudes.ENTRIES", entries)
    x, left, right = drawn((3, 4, 5)), drawn((12, 2), seed=1), drawn((2, 5), seed=2)
    residual = residual_norm(*(backend.array(a) for a in (x, left, right)))
    np.testing.assert_allclose(residual, np.linalg.norm(x.reshape(12, 5) - left @ right), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e160, 5e-324])
def test_scaled(scale):
    y, norm, power = scaled(np.asarray([3.0, 4.0]) * scale)
    np.testing.assert_allclose(y * power, np.asarray([3.0, 4.0]) * scale, rtol=1e-15)
    np.testing.assert_allclose(norm, np.linalg.norm(y), rtol=1e-15)
    assert 1e-100 < norm < 1e100
    assert (power == 1) == (scale == 1)
