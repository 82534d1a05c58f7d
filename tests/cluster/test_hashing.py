"""Hash codes, their order and their collisions, and blocks of neighbours, against plain formulas."""

import itertools
import math

import numpy as np
import pytest

from nlattn.cluster import (
    augment_for_inner_products,
    cross_polytope_codes,
    cross_polytope_collision_probability,
    gray_rank,
    hyperplane_codes,
    hyperplane_collision_probability,
    p_stable_codes,
    p_stable_collision_probability,
    sort_into_blocks,
)
from nlattn.testing import assert_close, assert_same_kind

rng = np.random.default_rng(0)


# -- codes ------------------------------------------------------------------------------------------------------------


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


# Small ones run on the generic kernel everywhere, large ones on the compiled one.
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


@pytest.mark.parametrize("n", [1, 7, 5000])
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


def test_codes_do_not_depend_on_threads(run_python):
    pytest.importorskip("numba")
    code = """
import hashlib, numpy as np, nlattn.cluster
rng, digest = np.random.default_rng(0), hashlib.sha256()
for n in (300, 5000, 30_000):
    x, W = rng.standard_normal((n, 16), np.float32), rng.standard_normal((32, 16), np.float32)
    digest.update(nlattn.cluster.hyperplane_codes(x, W).tobytes())
    digest.update(nlattn.cluster.cross_polytope_codes(x, W, factors=(16, 16)).tobytes())
print(digest.hexdigest())
"""
    assert len({run_python(code, NLATTN_NUM_THREADS=str(t)) for t in (1, 2, 3)}) == 1


# -- the order of codes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 12])
def test_gray_neighbours_differ_in_one_bit(backend, bits):
    codes = np.arange(2**bits)
    rank = backend.to_numpy(gray_rank(backend.array(codes)))
    by_rank = np.argsort(rank)
    assert np.array_equal(np.sort(rank), codes)
    assert np.all(np.bitwise_count(by_rank[1:] ^ by_rank[:-1]) == 1)
    # It inverts the map from ranks to codes.
    assert np.array_equal(rank ^ (rank >> 1), codes)


def test_forward_gray_map_is_no_rank():
    """What is found in released codes: from three bits on, consecutive buckets may differ in several bits."""
    for bits, jumps in ((2, 0), (3, 1), (7, 31)):
        codes = np.arange(2**bits)
        by_rank = np.argsort(codes ^ (codes >> 1))
        different = np.bitwise_count(by_rank[1:] ^ by_rank[:-1])
        assert np.sum(different > 1) == jumps


def test_gray_rank_of_long_codes():
    codes = rng.integers(0, 2**62, 100)
    rank = gray_rank(codes)
    assert np.array_equal(rank ^ (rank >> 1), codes)
    assert gray_rank(codes.astype(np.uint8)).dtype == np.uint8
    with pytest.raises(TypeError, match="codes must be integers, got float64"):
        gray_rank(codes * 1.0)


# -- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("n", [0, 1, 64, 101])
def test_sort_into_blocks(backend, n, masked):
    for size, kind in itertools.product((1, 4, 64, 200), ("int64", "int8", "float32", "high", "low")):
        codes = rng.integers(-5, 6, (2, n))
        # Beyond 16 bits to one side only.
        codes = {"high": np.abs, "low": lambda c: -np.abs(c)}[kind](codes) * 2**40 if kind in ("high", "low") else codes
        codes = codes.astype("int64" if kind in ("high", "low") else kind)
        valid = rng.random((2, n)) < 0.6
        index, used, inverse = (
            backend.to_numpy(p)
            for p in sort_into_blocks(backend.array(codes), size, valid=backend.array(valid) if masked else None)
        )
        blocks = -(-n // size)
        assert index.shape == used.shape == (2, blocks, size)
        assert inverse.shape == (2, n)
        for b in range(2):
            keep = valid[b] if masked else np.ones(n, bool)
            points = np.arange(n)
            order = np.lexsort((points, codes[b], ~keep))
            assert np.array_equal(used[b].ravel(), np.arange(blocks * size) < keep.sum())
            assert np.array_equal(index[b].ravel()[:n], order)
            assert np.array_equal(index[b].ravel()[inverse[b]], points)
            assert np.all((index[b] >= 0) & (index[b] < n))


def test_bad_blocks():
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        sort_into_blocks(np.arange(3), 0)
    with pytest.raises(ValueError, match="codes must have at least one axis"):
        sort_into_blocks(np.asarray(3), 1)
    with pytest.raises(TypeError, match="valid must be boolean, got int64"):
        sort_into_blocks(np.arange(3), 1, valid=np.arange(3))
    with pytest.raises(TypeError, match="codes must be integers or real numbers, got complex128"):
        sort_into_blocks(np.arange(3) + 0j, 1)
    with pytest.raises(
        ValueError, match=r"valid must have a shape that broadcasts to \(3,\), that of codes, got \(2,\)"
    ):
        sort_into_blocks(np.arange(3), 1, valid=np.ones(2, bool))


# -- inner products ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["xbox", "xbox+", "simple"])
def test_augmentation(backend, dtype, kind):
    q, k = rng.standard_normal((2, 9, 5)).astype(dtype), (3 * rng.standard_normal((2, 40, 5))).astype(dtype)
    q[0, 0], k[1, 3] = 0, 0
    a, b = augment_for_inner_products(backend.array(q), backend.array(k), kind=kind)
    assert_same_kind(a, backend.array(q))
    a, b, q, k = (
        backend.to_numpy(p).astype(float) if not isinstance(p, np.ndarray) else p.astype(float) for p in (a, b, q, k)
    )
    tight = {"float64": 1e-12, "float32": 3e-5}[dtype]
    products = q @ np.swapaxes(k, 1, 2)
    q_norm, k_norm = (np.linalg.norm(p, axis=-1) for p in (q, k))
    Q, K = q_norm.max(axis=-1), k_norm.max(axis=-1)
    distances = np.sum((a[:, :, None] - b[:, None]) ** 2, axis=-1)
    if kind == "xbox":
        assert_close(a @ np.swapaxes(b, 1, 2), products, rtol=tight, atol=100 * tight)
        assert_close(np.linalg.norm(b, axis=-1), np.broadcast_to(K[:, None], k_norm.shape), rtol=tight)
        assert_close(distances, (q_norm**2 + K[:, None] ** 2)[:, :, None] - 2 * products, rtol=tight, atol=300 * tight)
    elif kind == "xbox+":
        assert_close(a @ np.swapaxes(b, 1, 2), products, rtol=tight, atol=100 * tight)
        total = (Q**2 + K**2)[:, None]
        for p in (a, b):
            assert_close(np.sum(p**2, axis=-1), np.broadcast_to(total, p.shape[:2]), rtol=tight)
        assert_close(distances, 2 * total[..., None] - 2 * products, rtol=tight, atol=300 * tight)
    else:
        assert_close(np.linalg.norm(b, axis=-1), np.ones_like(k_norm), rtol=tight)
        assert_close(np.linalg.norm(a, axis=-1), 1.0 * (q_norm > 0), rtol=tight)
        cosines = products / np.where(q_norm > 0, q_norm, 1)[..., None] / K[:, None, None]
        assert_close(a @ np.swapaxes(b, 1, 2), cosines, rtol=tight, atol=tight)


@pytest.mark.parametrize("kind", ["xbox", "xbox+", "simple"])
def test_augmentation_at_the_edge(kind):
    """Rounding does not make a root of a negative number, and nothing divides by 0."""
    for seed in range(20):
        k = np.random.default_rng(seed).standard_normal((7, 3)).astype(np.float32)
        for keys in (k, k[:1], np.repeat(k[:1], 3, axis=0), 0 * k, k[:0]):
            for query in (k, 0 * k, k[:0]):
                a, b = augment_for_inner_products(query, keys, kind=kind)
                assert np.isfinite(a).all()
                assert np.isfinite(b).all()
                assert b.shape == (len(keys), 5 if kind == "xbox+" else 4)
    pole = augment_for_inner_products(k, 0 * k, kind="simple")[1]
    assert np.array_equal(pole, np.tile([0, 0, 0, 1], (7, 1)))
    with pytest.raises(ValueError, match=r"kind must be one of 'xbox', 'xbox\+', 'simple', got 'box'"):
        augment_for_inner_products(k, k, kind="box")


# -- collisions -------------------------------------------------------------------------------------------------------


def test_hyperplane_collision_probability(backend):
    angles = np.linspace(0, np.pi, 7)
    got = hyperplane_collision_probability(backend.array(angles), 3)
    assert_close(got, backend.array((1 - angles / np.pi) ** 3), rtol=1e-14, atol=1e-15)
    assert hyperplane_collision_probability(0.0) == 1
    assert hyperplane_collision_probability(math.pi, 5) == 0
    with pytest.raises(ValueError, match=r"angle must be >= 0 and <= 3\.14159, got 4"):
        hyperplane_collision_probability(4)
    with pytest.raises(ValueError, match="bits must be at least 1"):
        hyperplane_collision_probability(1.0, 0)


def test_cross_polytope_collision_probability():
    angles = np.asarray([0.0, 1e-8, 0.01, 0.3, 1.0, 2.0, 3.1, np.pi])
    np.testing.assert_allclose(cross_polytope_collision_probability(angles, 1), 1 - angles / np.pi, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        cross_polytope_collision_probability(angles, 2), (1 - angles / np.pi) ** 2, rtol=0, atol=1e-9
    )
    for size in (1, 3, 32, 1000):
        assert cross_polytope_collision_probability(np.pi / 2, size) == pytest.approx(1 / (2 * size), rel=1e-8)
        assert cross_polytope_collision_probability(0.0, size) == pytest.approx(1, abs=1e-8)
        assert cross_polytope_collision_probability(np.pi, size) == pytest.approx(0, abs=1e-14)
    assert np.all(np.diff(cross_polytope_collision_probability(angles, 8)) < 0)
    with pytest.raises(ValueError, match="angle must lie between 0 and pi"):
        cross_polytope_collision_probability(-0.1, 8)
    with pytest.raises(ValueError, match="size must be at least 1"):
        cross_polytope_collision_probability(0.1, 0)


def test_p_stable_collision_probability():
    assert p_stable_collision_probability(0.0, 1.0) == 1
    distances = np.asarray([0.0, 1e-3, 1.0, 5.0, 1e6])
    got = p_stable_collision_probability(distances, 2.0)
    # The mean over the offset, by quadrature, of the probability that both points fall into the strip.
    t = (np.arange(200_000) + 0.5) / 200_000 * 2
    for distance, p in zip(distances[1:4], got[1:4], strict=True):
        density = np.sqrt(2 / np.pi) / distance * np.exp(-0.5 * (t / distance) ** 2)
        np.testing.assert_allclose(p, np.mean(density * (1 - t / 2)) * 2, rtol=1e-5)
    assert 0 < got[-1] < 1e-5
    with pytest.raises(ValueError, match="width must be > 0"):
        p_stable_collision_probability(1.0, 0.0)
    with pytest.raises(ValueError, match="distance must not be negative"):
        p_stable_collision_probability(-1.0, 1.0)
