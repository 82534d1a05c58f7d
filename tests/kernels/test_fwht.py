"""The fast Walsh-Hadamard transform on every backend, against its matrix."""

import numpy as np
import pytest
from kernel_calls import cases_for
from scipy import linalg

from nlattn.kernels.fwht import fwht
from nlattn.testing import assert_close, to_numpy

rng = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 32, 128, 512])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_along_each_axis(backend, n, dtype):
    """Columns of every width, also such as do not fill the tiles."""
    for others in cases_for(backend, [(3,), (), (1,), (70,)]):
        compare_along_each_axis(backend, n, others, dtype)


def compare_along_each_axis(backend, n, others, dtype):
    H = linalg.hadamard(n, dtype=float)
    tight = 1e-12 * n if dtype == "float64" else 2e-6 * n
    for shape, axis in {((n, *others), 0), ((*others, n), len(others)), ((2, n, *others), 1)}:
        x = rng.standard_normal(shape).astype(dtype)
        wanted = np.moveaxis(np.tensordot(H, x, (1, axis)), 0, axis).astype(dtype)
        for where in (axis, axis - len(shape)):
            assert_close(fwht(backend.array(x), where), wanted, rtol=0, atol=tight, like=backend.array(x))


def test_is_its_own_inverse_and_copies(backend):
    x = rng.standard_normal((1 << 14, 2))
    before = x.copy()
    assert_close(fwht(fwht(backend.array(x), 0), 0), x * 2**14, rtol=1e-9, atol=1e-9 * 2**14, like=backend.array(x))
    one = backend.array(np.ones((3, 1)))
    result = fwht(one, 1)
    assert result is not one
    assert not np.shares_memory(to_numpy(result), to_numpy(one))
    assert np.array_equal(x, before)


@pytest.mark.parametrize("length", [0, 3, 12])
def test_refuses_other_lengths(backend, length):
    with pytest.raises(ValueError, match=f"power of two as its length, got {length}"):
        fwht(backend.array(np.ones((length, 2))), 0)
