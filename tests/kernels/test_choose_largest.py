"""Which entries of each row are the largest, on every backend, against a stable sort."""

import numpy as np
import pytest
from kernel_calls import call_on, cases_for

from nlattn.kernels.choose_largest import choose_largest

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_stable_choice(backend, dtype):
    """Ties, signed zeros, infinities, sorted rows, tiny numbers."""
    for n in cases_for(backend, [1000, 5000, 64, 5, 2, 1]):
        x = rng.standard_normal((6, n)).astype(dtype)
        x[1] = np.round(x[1])
        x[2] = np.where(np.arange(n) % 2, 0.0, -0.0)
        x[3, n // 3 :] = -np.inf
        x[4] = np.sort(x[4])
        x[5] = -np.sort(-x[5]) * 1e-40
        for k in sorted({0, 1, 2, n // 20, n // 2, n - 1, n} & set(range(n + 1))):
            order = np.sort(np.argsort(-x, axis=-1, kind="stable")[:, :k], axis=-1)
            values, index = call_on(backend, choose_largest, x, k)
            assert np.array_equal(index, order), (n, k)
            assert np.array_equal(values, np.take_along_axis(x, order, axis=-1))
