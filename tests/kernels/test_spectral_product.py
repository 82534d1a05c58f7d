"""Products of Fourier transforms, on every backend."""

import numpy as np
import pytest

from nlattn.kernels.spectral_product import spectral_product
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


@pytest.mark.parametrize("m", [1, 2, 5, 8])
@pytest.mark.parametrize("sizes", [(4,), (2, 6, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_against_a_product_of_transforms(backend, m, sizes, dtype):
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


def test_is_the_same_on_any_number_of_threads(monkeypatch):
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
