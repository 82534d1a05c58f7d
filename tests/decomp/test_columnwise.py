"""Products of matrices column by column, against NumPy's own sums, and what products refuse."""

import numpy as np
import pytest
import scipy.linalg

from nlattn.decomp import fold, khatri_rao, mode_product, mttkrp, unfold
from nlattn.kernels.contract_columns import contract_columns
from nlattn.kernels.khatri_rao import khatri_rao as pairwise
from nlattn.testing import assert_close, assert_same_kind

SHAPES = [(3,), (4, 3), (3, 4, 5), (2, 1, 3, 2), (3, 20, 2), (2, 3, 18), (2, 3, 2, 2, 3)]


def drawn(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if "complex" in dtype else x.astype(dtype)


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
