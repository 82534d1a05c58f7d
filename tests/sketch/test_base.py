"""Linear sketches against their dense matrices."""

import numpy as np
import pytest

from nlattn.sketch import (
    count_sketch,
    gaussian_sketch,
    hadamard_transform,
    sketch_operator,
    sparse_sign_sketch,
    srht_sketch,
)
from nlattn.testing import assert_close, to_numpy

KINDS = ["gaussian", "sparse_sign", "count", "balanced_count", "srht"]


ONE = np.zeros(1)


rng = np.random.default_rng(0)


def tolerance(dtype):
    return 1e-12 if np.dtype(dtype).itemsize >= 8 and np.dtype(dtype) != np.complex64 else 2e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), [(7, 12), (1, 1), (16, 16), (20, 1000), (3, 17), (300, 260)])
def test_matrix_on_every_axis(backend, kind, m, n):
    sketch = sketch_operator(kind, m, n, rng=1)
    S = sketch.matrix(ONE)
    assert S.shape == sketch.shape == (m, n)
    for shape, axis in [((n,), 0), ((n, 3), 0), ((4, n), 1), ((2, n, 3), -2), ((2, 2, n), 2), ((n, 2, 2), 0)]:
        A = rng.standard_normal(shape)
        wanted = np.moveaxis(np.tensordot(S, A, (1, axis)), 0, axis)
        assert_close(sketch.apply(backend.array(A), axis), wanted, rtol=1e-11, atol=1e-11, like=backend.array(A))
        back = np.moveaxis(np.tensordot(S.T, wanted, (1, axis)), 0, axis)
        got = sketch.T.apply(backend.array(wanted), axis)
        assert_close(got, back, rtol=1e-10, atol=1e-10, like=backend.array(A))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_dtypes(backend, kind, dtype):
    sketch = sketch_operator(kind, 9, 40, rng=2)
    A = (rng.standard_normal((40, 5)) + 1j * rng.standard_normal((40, 5))).astype(dtype) if "c" in dtype else None
    A = rng.standard_normal((40, 5)).astype(dtype) if A is None else A
    wanted = (sketch.matrix(ONE) @ A).astype(dtype)
    tight = tolerance(dtype)
    for got in (sketch @ backend.array(A), sketch.matrix(backend.array(A)) @ backend.array(A)):
        assert_close(got, wanted, rtol=tight, atol=tight, like=backend.array(A))
    got = sketch.apply(backend.array(A.T), axis=1)
    assert_close(got, wanted.T, rtol=tight, atol=tight, like=backend.array(A))


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_numbers_and_integers(backend, kind):
    sketch = sketch_operator(kind, 4, 8, rng=0)
    A = rng.integers(-5, 5, (8, 3))
    exact = sketch.matrix(ONE) @ A
    assert_close(sketch @ backend.array(A), exact, rtol=1e-13, atol=1e-13, like=backend.array(exact))
    assert_close(
        sketch @ backend.array(A > 0), sketch.matrix(ONE) @ (A > 0), rtol=1e-13, atol=1e-13, like=backend.array(exact)
    )
    for dtype in backend.dtypes[2:]:
        half = backend.array(A.astype(np.float64), dtype)
        like = backend.array(exact, "float32")
        assert_close(sketch @ half, exact, rtol=2e-6, atol=1e-5, like=like)
        assert sketch.matrix(half).dtype == like.dtype


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_those_of_every_library(backend, kind):
    got = sketch_operator(kind, 5, 30, rng=3).matrix(backend.array(ONE))
    assert np.array_equal(to_numpy(got), sketch_operator(kind, 5, 30, rng=3).matrix(ONE))


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("shape", [(20000, 40), (4096, 300), (3, 4096, 20), (50, 4096)])
def test_thread_count_changes_no_bit(monkeypatch, kind, shape):
    axis = shape.index(max(shape))
    A = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    sketch = sketch_operator(kind, 64, max(shape), rng=0)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append((sketch.apply(A, axis), sketch.T.apply(sketch.apply(A, axis), axis)))
    for one, two in zip(*results, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("kind", KINDS)
def test_input_of_any_layout_is_left_alone(kind):
    sketch = sketch_operator(kind, 6, 32, rng=0)
    A = rng.standard_normal((64, 8))
    wanted = sketch.matrix(ONE) @ A[::2, ::3]
    strided = A[::2, ::3]
    layouts = [strided, np.asfortranarray(strided), strided[::-1][::-1], strided.astype(">f8"), np.array(strided)]
    layouts[-1].flags.writeable = False
    for array in layouts:
        before = array.copy()
        np.testing.assert_allclose(sketch @ array, wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(sketch.apply(array.T, 1), wanted.T, rtol=1e-12, atol=1e-12)
        assert np.array_equal(array, before)
    np.testing.assert_allclose(
        sketch @ np.broadcast_to(A[:1, :4], (32, 4)), sketch.matrix(ONE) @ np.ones((32, 1)) * A[:1, :4], atol=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
def test_empty(backend, kind):
    sketch = sketch_operator(kind, 3, 4, rng=0)
    for shape, axis, wanted in [((4, 0), 0, (3, 0)), ((0, 4), 1, (0, 3)), ((0, 4, 0), 1, (0, 3, 0))]:
        assert tuple(sketch.apply(backend.array(np.zeros(shape)), axis).shape) == wanted
    nothing = sketch_operator(kind, 1, 0, rng=0)
    assert_close(nothing @ backend.array(np.zeros((0, 2))), np.zeros((1, 2)), rtol=0, like=backend.array(ONE))
    assert tuple((nothing.T @ backend.array(np.ones((1, 2)))).shape) == (0, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_the_matrix(kind):
    torch = pytest.importorskip("torch")
    sketch = sketch_operator(kind, 300 if kind == "count" else 8, 320, rng=0)
    A = torch.tensor(rng.standard_normal((320, 2)), requires_grad=True)
    weights = torch.tensor(rng.standard_normal((sketch.shape[0], 2)))
    (sketch @ A * weights).sum().backward()
    np.testing.assert_allclose(A.grad.numpy(), sketch.matrix(ONE).T @ weights.numpy(), atol=1e-12)


def test_transpose_and_repr():
    sketch = sketch_operator("sparse_sign", 4, 10, nonzeros=2, rng=0)
    assert sketch.T.T is sketch
    assert sketch.T.shape == (10, 4)
    assert np.array_equal(sketch.T.matrix(ONE), sketch.matrix(ONE).T)
    assert repr(sketch) == "Sketch('sparse_sign', shape=(4, 10))"
    assert repr(sketch.T) == "Sketch('sparse_sign', shape=(4, 10)).T"
    vectors = rng.standard_normal((3, 10, 2))
    np.testing.assert_allclose(sketch @ vectors, sketch.matrix(ONE) @ vectors, atol=1e-13)


def test_huge_and_tiny_numbers():
    for kind in KINDS:
        sketch = sketch_operator(kind, 4, 8, rng=0)
        for scale in (1e300, 1e-300):
            np.testing.assert_allclose(
                sketch @ np.full((8, 1), scale), sketch.matrix(ONE) @ np.full((8, 1), scale), rtol=1e-12
            )
        assert np.array_equal(sketch @ np.zeros((8, 2)), np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gaussian_sketch(0, 5), ValueError, "m must be at least 1, got 0"),
        (lambda: gaussian_sketch(2, -1), ValueError, "n must be at least 0, got -1"),
        (lambda: count_sketch(2.0, 5), TypeError, "m must be an integer, got 2.0"),
        (
            lambda: sparse_sign_sketch(4, 9, 5),
            ValueError,
            r"nonzeros must be at most 4 \(the number of rows, m\), got 5",
        ),
        (lambda: sparse_sign_sketch(4, 9, 0), ValueError, "nonzeros must be at least 1, got 0"),
        (lambda: srht_sketch(17, 9), ValueError, "m must be at most 16, the least power of two .* n = 9, got 17"),
        (lambda: sketch_operator("cauchy", 2, 3), ValueError, "kind must be one of 'gaussian', .*, got 'cauchy'"),
        (lambda: gaussian_sketch(2, 3, rng="a"), TypeError, "rng must be None"),
        (
            lambda: gaussian_sketch(2, 3) @ np.ones((4, 1)),
            ValueError,
            r"axis 0 of A must have the length 3 .* \(4, 1\)",
        ),
        (lambda: gaussian_sketch(2, 3).apply(np.ones((3, 4)), 1), ValueError, "axis 1 of A must have the length 3"),
        (lambda: gaussian_sketch(2, 3).apply(np.ones((3, 4)), 2), ValueError, "axis must be at most 1"),
        (lambda: gaussian_sketch(2, 3).apply(np.ones((3, 4)), -3), ValueError, "axis must be at least -2"),
        (lambda: gaussian_sketch(2, 3) @ np.asarray(1.0), ValueError, "A must have at least one axis"),
        (lambda: gaussian_sketch(2, 3) @ [1, 2, 3], TypeError, "A must be an array, got list"),
        (lambda: gaussian_sketch(2, 3) @ np.asarray([1, np.nan, 0]), ValueError, "A contains NaN or inf"),
        (lambda: np.ones((2, 2)) @ gaussian_sketch(2, 3), TypeError, "unsupported operand"),
        (
            lambda: hadamard_transform(np.ones((4, 6))),
            ValueError,
            "A must have a power of two as its length along axis 1",
        ),
        (lambda: hadamard_transform(np.ones((0, 6)), 0), ValueError, "power of two .* got 0"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_unchecked_numbers_pass():
    assert np.isnan(count_sketch(2, 3, rng=0).apply(np.asarray([1.0, np.nan, 2.0]), check_finite=False)).sum() == 1
    assert np.all(np.isnan(hadamard_transform(np.asarray([1.0, np.nan]), check_finite=False)))
