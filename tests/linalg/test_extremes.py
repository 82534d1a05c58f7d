"""Matrices at the edges of the floating range and of what can be factorised: right, or one clear sentence."""

import contextlib
import warnings

import numpy as np
import pytest
from spectra import EXTREMES

import nlattn
from nlattn.linalg import (
    KernelMatrix,
    cur,
    gaussian_kernel,
    interpolative_decomposition,
    nystrom_approximation,
    pivoted_cholesky,
    randomized_svd,
    range_finder,
    single_pass_svd,
)

SKETCHES = ["gaussian", "sparse_sign", "srht", "count", "balanced_count"]


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(("dtype", "scale"), EXTREMES)
def test_scale_changes_nothing_but_the_scale(dtype, scale):
    """2-norms of all these matrices are representable, squares of their entries are not."""
    scale = 2.0 ** np.round(np.log2(scale))
    a = (normal((20, 12)) @ np.diag(0.6 ** np.arange(12))).astype(dtype)
    big = (a * scale).astype(dtype)
    for options in ({"rank": 4}, {"rtol": 1e-2}):
        one, other = (randomized_svd(x, rng=0, **options) for x in (a, big))
        np.testing.assert_allclose(other.S, one.S * scale, rtol=1e-5)
        np.testing.assert_allclose(other.error, one.error, rtol=1e-4)
        one, other = (interpolative_decomposition(x, rng=0, **options) for x in (a, big))
        np.testing.assert_array_equal(other.columns, one.columns)
        np.testing.assert_allclose(other.error, one.error, rtol=1e-4)
        one, other = (cur(x, rng=0, **options) for x in (a, big))
        np.testing.assert_allclose(other.core * scale, one.core, rtol=1e-3)
    one, other = (single_pass_svd([x[:7], x[7:]], 3, rng=0) for x in (a, big))
    np.testing.assert_allclose(other.S, one.S * scale, rtol=1e-5)
    np.testing.assert_allclose(other.error, one.error, rtol=1e-4)
    q, same = (range_finder(x, 4, rng=0) for x in (a, big))
    np.testing.assert_allclose(q, same, atol=1e-5)
    gram = (a @ a.T).astype(dtype)
    one, other = (nystrom_approximation((gram * s).astype(dtype), 4, rng=0) for s in (1, scale))
    np.testing.assert_allclose(other.values, one.values * scale, rtol=1e-3)
    one, other = (pivoted_cholesky((gram * s).astype(dtype), 4, rng=0) for s in (1, scale))
    np.testing.assert_array_equal(other.pivots, one.pivots)
    np.testing.assert_allclose(other.factor, one.factor * scale**0.5, rtol=1e-4, atol=1e-5 * scale**0.5)
    np.testing.assert_allclose(other.error, one.error, rtol=1e-4)


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("seed", range(10))
def test_small_sketches_that_are_dependent_by_chance(sketch, seed):
    """Two columns of a sparse sketch can be equal; the rank of the result does not suffer."""
    for n in (2, 4, 5):
        np.testing.assert_allclose(randomized_svd(np.eye(n), n, sketch=sketch, rng=seed).S, np.ones(n))
        assert interpolative_decomposition(np.eye(n), n, sketch=sketch, rng=seed).columns.shape == (n,)
        assert nystrom_approximation(np.eye(4), 4, sketch="gaussian", rng=seed).error < 1e-9
    tall = np.eye(60)[:, :30]
    assert randomized_svd(tall, rtol=1e-3, sketch=sketch, rng=seed).S.shape == (30,)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (
            lambda: nystrom_approximation(np.asarray([[0.0, 5], [-5, 0]]), 2),
            ValueError,
            "entries beside a diagonal of zeros",
        ),
        (lambda: nystrom_approximation(np.asarray([[1.0, 0.9], [0, 1]]), 2), ValueError, "a must be Hermitian, got a"),
        (lambda: pivoted_cholesky(np.asarray([[0.0, 2], [2, 0]]), 1), ValueError, "entries beside a diagonal of zeros"),
        (
            lambda: pivoted_cholesky(np.diag([1 + 3j, 1]), 2),
            ValueError,
            "a must be Hermitian, got a diagonal that is not",
        ),
        (
            lambda: KernelMatrix(3, np.ones((2, 2))),
            TypeError,
            "kernel must be a function of two sets of points, got int",
        ),
        (
            lambda: KernelMatrix(gaussian_kernel(), np.ones((2, 2)), np.ones(3)),
            ValueError,
            r"diagonal must have shape \(2,\)",
        ),
        (lambda: cur(np.eye(3), rtol="a"), TypeError, "rtol must be a number, got 'a'"),
        (lambda: cur(np.eye(3), rtol=-1), ValueError, "rtol must be >= 1.77636e-15 and < 1, got -1"),
        (lambda: single_pass_svd(5, 1), TypeError, "rows must be an array or an iterable of blocks of rows, got int"),
        (lambda: randomized_svd(np.eye(3), 1, rng=np.asarray([1, 2])), TypeError, "rng must be None, an integer"),
    ],
)
def test_refusals(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call()


def test_unchecked_input_is_not_checked_again():
    """It ends in NaN or in an error of LAPACK, but not in the advice to pass check_finite=False."""
    a = np.full((6, 4), np.nan)
    for call in (randomized_svd, range_finder, interpolative_decomposition, cur):
        with contextlib.suppress(np.linalg.LinAlgError):
            call(a, 2, rng=0, check_finite=False)


def test_gradients_do_not_make_noise():
    torch = pytest.importorskip("torch")
    a = torch.tensor(normal((9, 5)), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        randomized_svd(a, 2, rng=0)
        interpolative_decomposition(a, 2, rng=0)
        cur(a, 2, rng=0)
        single_pass_svd(a, 1, rng=0)
        nystrom_approximation(a @ a.T, 2, rng=0)
        pivoted_cholesky(a @ a.T, 2, rng=0)


def test_flat_names():
    for name in ("cur", "interpolative_decomposition", "nystrom_approximation", "pivoted_cholesky", "randomized_svd"):
        assert getattr(nlattn, name) is getattr(nlattn.linalg, name)
