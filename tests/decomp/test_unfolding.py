"""Unfoldings, and products of tensors with matrices, against NumPy's own sums."""

import numpy as np
import pytest
import scipy.linalg

from nlattn.decomp import fold, khatri_rao, mode_product, unfold
from nlattn.testing import assert_close

SHAPES = [(3,), (4, 3), (3, 4, 5), (2, 1, 3, 2), (3, 20, 2), (2, 3, 18), (2, 3, 2, 2, 3)]


def drawn(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if "complex" in dtype else x.astype(dtype)


@pytest.mark.parametrize("shape", [*SHAPES, (2, 0, 3)])
def test_unfold_and_fold(backend, shape):
    x = drawn(shape)
    for mode in range(-len(shape), len(shape)):
        y = unfold(backend.array(x), mode)
        desired = np.moveaxis(x, mode, 0).reshape(x.shape[mode], x.size // max(x.shape[mode], 1) if x.size else 0)
        if x.size:
            assert_close(y, desired, rtol=0, like=backend.array(x))
            assert_close(fold(y, mode, shape), x, rtol=0, like=backend.array(x))
        assert tuple(fold(y, mode, shape).shape) == shape


def test_unfold_keeps_the_dtype_and_needs_no_copy():
    x = np.arange(24).reshape(2, 3, 4)
    assert all(unfold(x, k).dtype == x.dtype for k in range(3))
    assert all(np.shares_memory(unfold(x, k), x) for k in (0, 2))
    assert unfold(np.ones((2, 3), bool), 0).dtype == bool


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
def test_mode_product(backend, shape, dtype):
    x = drawn(shape, dtype)
    for k, size in enumerate(shape):
        matrix = drawn((6, size), dtype, seed=1)
        desired = np.moveaxis(np.tensordot(matrix, x, axes=(1, k)), 0, k)
        out = mode_product(backend.array(x), backend.array(matrix), k)
        assert_close(out, desired, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5, like=backend.array(x))


def test_products_take_mixed_precision_and_integers(backend):
    x = drawn((3, 4), "float32")
    out = mode_product(backend.array(x), backend.array(np.ones((2, 4))), 1)
    assert_close(out, x.astype(np.float64) @ np.ones((4, 2)), rtol=1e-12, like=backend.array(np.ones(1)))
    integers = backend.array(np.arange(6).reshape(3, 2))
    assert_close(
        khatri_rao([integers, integers]), scipy.linalg.khatri_rao(*[np.arange(6.0).reshape(3, 2)] * 2), rtol=0, like=out
    )


def test_half_precision_is_computed_in_single():
    x = drawn((3, 4), "float16")
    assert mode_product(x, x, 1).dtype == np.float32
    assert khatri_rao([x, x]).dtype == np.float32


def test_strided_and_read_only_input():
    x = drawn((6, 4, 10))[::2, ::-1, ::3]
    matrix = drawn((4, 5)).T
    matrix.flags.writeable = False
    desired = np.moveaxis(np.tensordot(matrix, x, axes=(1, 1)), 0, 1)
    np.testing.assert_allclose(mode_product(x, matrix, 1), desired, rtol=1e-12)
    a, b = drawn((8, 3))[::2], np.asfortranarray(drawn((5, 3)))
    np.testing.assert_array_equal(khatri_rao([a, b]), scipy.linalg.khatri_rao(a, b))
