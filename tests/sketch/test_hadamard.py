"""The Walsh-Hadamard transform."""

import numpy as np
import pytest
from scipy import linalg

from nlattn.sketch import (
    hadamard_transform,
)
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 64, 256])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_hadamard_transform(backend, n, dtype):
    A = rng.standard_normal((3, n, 2)).astype(dtype)
    A = A + 1j * rng.standard_normal((3, n, 2)) if dtype == "complex128" else A
    H = linalg.hadamard(n, dtype=float)
    got = hadamard_transform(backend.array(A), axis=1)
    assert_close(
        got,
        (H @ A).astype(dtype),
        rtol=1e-4 if dtype == "float32" else 1e-11,
        atol=1e-4 if dtype == "float32" else 1e-11,
        like=backend.array(A),
    )
    assert tuple(hadamard_transform(backend.array(A[:0]), axis=1).shape) == (0, n, 2)
