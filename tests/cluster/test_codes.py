"""Hash codes against plain formulas."""

import math

import numpy as np
import pytest

from nlattn.cluster import cross_polytope_codes, hyperplane_codes, p_stable_codes
from nlattn.testing import assert_close

rng = np.random.default_rng(0)


def plain_bits(x, W):
    return sum((np.sum(x * w, axis=-1) > 0).astype(np.int64) << t for t, w in enumerate(W))


def plain_vertices(x, W, factors):
    codes, base, begin = np.zeros(x.shape[:-1], np.int64), 1, 0
    for size in factors:
        values = np.stack([np.sum(x * w, axis=-1) for w in W[begin : begin + size]], axis=-1)
        place = np.argmax(np.abs(values), axis=-1)  # of equal ones the first
        negative = np.take_along_axis(values, place[..., None], axis=-1)[..., 0] < 0
        codes += base * (place + size * negative)
        begin, base = begin + size, base * 2 * size
    return codes


# Few points run on the generic kernel everywhere, many on the compiled one.
@pytest.mark.parametrize("n", [1, 7, 5000])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("r", [1, 16, 62])
def test_hyperplane_codes(backend, n, dtype, r):
    # Values that every order of summation gets right, so that no sign depends on rounding.
    x, W = rng.integers(-8, 9, (n, 6)).astype(dtype), rng.integers(-8, 9, (r, 6)).astype(dtype)
    codes = hyperplane_codes(backend.array(x), backend.array(W))
    wanted = backend.array(plain_bits(x, W))
    assert_close(codes, wanted, rtol=0)
    assert np.all(backend.to_numpy(codes) >= 0)


@pytest.mark.parametrize("n", [7, 4200])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("factors", [None, (16,), (1, 15), (8, 8), (5, 10, 1)])
def test_cross_polytope_codes(backend, n, dtype, factors):
    x, W = rng.integers(-4, 5, (n, 6)).astype(dtype), rng.integers(-4, 5, (16, 6)).astype(dtype)
    codes = backend.to_numpy(cross_polytope_codes(backend.array(x), backend.array(W), factors=factors))
    assert codes.dtype == np.int64
    assert np.array_equal(codes, plain_vertices(x, W, factors or (16,)))
    assert codes.max() < math.prod(2 * f for f in factors or (16,))


@pytest.mark.parametrize("n", [5, 700])
def test_rounds_and_batches_broadcast(backend, n):
    x = rng.integers(-8, 9, (2, 1, n, 6)).astype(float)
    W = rng.integers(-8, 9, (3, 12, 6)).astype(float)
    bits = backend.to_numpy(hyperplane_codes(backend.array(x), backend.array(W)))
    assert bits.shape == (2, 3, n)
    digits = backend.to_numpy(cross_polytope_codes(backend.array(x), backend.array(W), factors=(6, 6)))
    for b in range(2):
        for h in range(3):
            assert np.array_equal(bits[b, h], plain_bits(x[b, 0], W[h]))
            one = backend.array(x[b, 0]), backend.array(W[h])
            assert np.array_equal(digits[b, h], backend.to_numpy(cross_polytope_codes(*one, factors=(6, 6))))


def test_zero_rows_have_code_0(backend):
    x, W = backend.array(np.zeros((3, 4))), backend.array(rng.standard_normal((5, 4)))
    assert not backend.to_numpy(hyperplane_codes(x, W)).any()
    assert not backend.to_numpy(cross_polytope_codes(x, W, factors=(2, 3))).any()
    for shape in ((0, 4), (3, 0, 4), (0, 2, 4)):
        empty = backend.array(np.zeros(shape))
        assert tuple(hyperplane_codes(empty, W).shape) == shape[:-1]
        assert tuple(cross_polytope_codes(empty, W).shape) == shape[:-1]


@pytest.mark.parametrize("lead", [(), (2,)])
def test_p_stable_codes(backend, lead):
    x, W, b = rng.standard_normal((*lead, 9, 4)), rng.standard_normal((*lead, 3, 4)), 2.5 * rng.random((*lead, 3))
    codes = p_stable_codes(backend.array(x), backend.array(W), backend.array(b), 2.5)
    wanted = np.floor((np.einsum("...nd,...md->...nm", x, W) + b[..., None, :]) / 2.5).astype(np.int64)
    assert_close(codes, backend.array(wanted), rtol=0)
    assert wanted.min() < 0


@pytest.mark.parametrize("function", [hyperplane_codes, cross_polytope_codes])
def test_codes_of_other_kinds_of_input(function):
    x, W = rng.integers(-8, 9, (3000, 6)), rng.integers(-8, 9, (24, 6))
    codes = function(x, W)
    assert np.array_equal(codes, function(x.astype(float), W))
    assert np.array_equal(codes, function(x.astype(np.float16), W.astype(np.float64)))
    assert np.array_equal(codes, function(2.5 * x, 0.5 * W))
    wide = np.repeat(np.repeat(x.astype(float), 2, axis=0), 3, axis=1)
    view = wide[::2, ::3]
    view.flags.writeable = False
    assert np.array_equal(codes, function(view, np.asfortranarray(W.astype(float))))
    with pytest.raises(TypeError, match="x must be real"):
        function(x + 0j, W)
    with pytest.raises(ValueError, match="x contains NaN or inf"):
        function(x * np.nan, W)
    with pytest.raises(ValueError, match="x and projection must agree in their last axis"):
        function(x, W[:, 1:])


def test_bad_codes():
    x, W = np.ones((2, 3)), np.ones((4, 3))
    with pytest.raises(ValueError, match="projection must have at most 62 rows, which fill an int64, got 63"):
        hyperplane_codes(x, np.ones((63, 3)))
    with pytest.raises(ValueError, match=r"factors must add up to the 4 rows of projection, got \(2, 3\)"):
        cross_polytope_codes(x, W, factors=(2, 3))
    with pytest.raises(ValueError, match="factors must be at least 1, got 0"):
        cross_polytope_codes(x, W, factors=(4, 0))
    with pytest.raises(ValueError, match="factors must not make more than"):
        cross_polytope_codes(x, np.ones((63, 3)), factors=(1,) * 63)
    with pytest.raises(ValueError, match="width must be > 0, got 0"):
        p_stable_codes(x, W, np.zeros(4), 0)
    with pytest.raises(
        ValueError, match="offsets must hold one number for each of the 4 rows of projection, got shape"
    ):
        p_stable_codes(x, W, np.zeros(3), 1)
    with pytest.raises(ValueError, match="width must be large enough for strip numbers to fit an int64, got 1e-30"):
        p_stable_codes(x, W, np.zeros(4), 1e-30)


@pytest.mark.parametrize("n", [300, 5000, 30_000])
def test_codes_do_not_depend_on_threads(monkeypatch, n):
    draws = np.random.default_rng(0)
    x, W = draws.standard_normal((n, 16), np.float32), draws.standard_normal((32, 16), np.float32)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NLATTN_NUM_THREADS", threads)
        results.append((hyperplane_codes(x, W), cross_polytope_codes(x, W, factors=(16, 16))))
    for parts in zip(*results, strict=True):
        assert all(np.array_equal(part, parts[0]) for part in parts)
