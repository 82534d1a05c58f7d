"""Unfoldings and products of tensors, against NumPy's own sums."""

import numpy as np
import pytest
import scipy.linalg

from nlattn.arrays.host import to_float
from nlattn.decomp import fold, khatri_rao, mode_product, mttkrp, unfold
from nlattn.kernels.contract_columns import contract_columns
from nlattn.kernels.khatri_rao import khatri_rao as pairwise
from nlattn.linalg._magnitudes import residual_norm, scaled, squared_norm
from nlattn.testing import assert_close, assert_same_kind

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


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_khatri_rao(backend, dtype):
    matrices = [drawn((n, 3), dtype, seed=n) for n in (4, 1, 5)]
    desired = scipy.linalg.khatri_rao(scipy.linalg.khatri_rao(*matrices[:2]), matrices[2])
    out = khatri_rao([backend.array(a) for a in matrices])
    assert_close(out, desired.astype(dtype), rtol=1e-6, like=backend.array(matrices[0]))
    assert_close(khatri_rao([backend.array(matrices[0])]), matrices[0], rtol=0, like=backend.array(matrices[0]))


def test_khatri_rao_fits_unfold():
    """Earlier modes vary slowest in both."""
    a, b, c = (drawn((n, 2), seed=n) for n in (3, 4, 5))
    x = np.einsum("ir,jr,kr->ijk", a, b, c)
    np.testing.assert_allclose(unfold(x, 0), a @ khatri_rao([b, c]).T, rtol=1e-12)
    np.testing.assert_allclose(unfold(x, 1), b @ khatri_rao([a, c]).T, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
def test_mttkrp(backend, shape, dtype):
    x, factors = drawn(shape, dtype), [drawn((n, 3), dtype, seed=k) for k, n in enumerate(shape)]
    for mode in range(len(shape)):
        letters = "abcdefg"[: len(shape)]
        others = [k for k in range(len(shape)) if k != mode]
        terms = ",".join([letters, *(letters[k] + "r" for k in others), "r"])
        ones = np.ones(3, dtype)
        desired = np.einsum(f"{terms}->{letters[mode]}r", x, *(factors[k].conj() for k in others), ones)
        given = [backend.array(a) for a in factors]
        out = mttkrp(backend.array(x), given, mode)
        assert_close(out, desired.astype(dtype), rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-4, like=given[0])
        if others:
            given[mode] = None
            assert_close(mttkrp(backend.array(x), given, mode - len(shape)), backend.to_numpy(out), rtol=0, like=out)


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


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_kernels_are_their_generic_versions(backend, dtype):
    for shape in ((3, 4, 5, 2), (3, 19, 1, 2), (2, 19, 3, 5), (1, 8, 1, 1), (2, 3, 1, 4)):
        x, matrix = drawn(shape, dtype), drawn((shape[1], shape[3]), dtype, seed=1)
        out = contract_columns(backend.array(x), backend.array(matrix))
        assert_close(out, np.einsum("abcr,br->acr", x, matrix), rtol=1e-4, atol=1e-5, like=backend.array(x))
    x, matrix = drawn((3, 4, 5, 2), dtype), drawn((4, 2), dtype, seed=1)
    assert_same_kind(pairwise(backend.array(matrix), backend.array(matrix)), backend.array(matrix))
    empty = contract_columns(backend.array(x[:, :0]), backend.array(matrix[:0]))
    assert_close(empty, np.zeros((3, 5, 2), dtype), rtol=0, like=backend.array(x))


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


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: unfold(np.ones((2, 3)), 2), ValueError, r"mode must be at most 1 \(x has 2 axes\), got 2"),
        (lambda: unfold([[1.0]], 0), TypeError, "x must be an array, got list"),
        (
            lambda: fold(np.ones((2, 3)), 1, (2, 3)),
            ValueError,
            r"matrix must have shape \(3, 2\) to be mode 1 of \(2, 3\)",
        ),
        (lambda: khatri_rao([]), ValueError, "matrices must hold at least one matrix, got none"),
        (lambda: khatri_rao([np.ones((2, 3)), np.ones((2, 2))]), ValueError, "the same number of columns, got shapes"),
        (lambda: mode_product(np.ones((2, 3)), np.ones((2, 2)), 1), ValueError, "matrix must have 3 columns"),
        (lambda: mttkrp(np.ones((2, 3)), [np.ones((2, 1))], 0), ValueError, "factors must hold 2 matrices"),
        (lambda: mttkrp(np.ones((2, 3)), [None, np.ones((2, 1))], 0), ValueError, r"factors must have \[3\] rows"),
        (lambda: mttkrp(np.ones((2, 3)), [None, None], 0), ValueError, r"factors must have \[3\] rows"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
