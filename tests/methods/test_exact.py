"""Exact attention against the dense formula and against its peer, and what the conformance suite does not see."""

import functools
import inspect
import tracemalloc

import numpy as np
import pytest

import nlattn
from nlattn import exact_attention
from nlattn.testing import assert_close, dense_attention, to_numpy
from nlattn.testing.checks.limits import naive_attention


def draw(length, s, heads=4, heads_kv=2, e=16, ev=12, batch=(2,), seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((*batch, heads, length, e)),
        rng.standard_normal((*batch, heads_kv, s, e)),
        rng.standard_normal((*batch, heads_kv, s, ev)),
    )


# Beside the tiles of the kernels: 256 and 512 keys, 64 to 512 rows, and 512 x 1024 in the generic version.
@pytest.mark.parametrize(("length", "s"), [(63, 257), (513, 1025), (65, 2049), (1030, 70)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_across_tiles(backend, length, s, is_causal):
    q, k, v = draw(length, s, heads=2, heads_kv=1, batch=())
    rng = np.random.default_rng(1)
    some = rng.random((length, s)) < 0.5
    some[:, 200:520] = False  # whole tiles without a key
    some[length // 2 : length // 2 + 5] = False
    bias = np.where(some, 2 * rng.standard_normal((length, s)), -np.inf)
    keys = np.where(rng.random((2, 1, s)) < 0.5, rng.standard_normal((2, 1, s)), -np.inf)
    for mask in (None, some, bias, keys):
        arrays = [backend.array(x) for x in (q, k, v)]
        options = {"attn_mask": None if mask is None else backend.array(mask), "is_causal": is_causal}
        out, lse = exact_attention(*arrays, **options, return_lse=True)
        wanted = dense_attention(q, k, v, mask, is_causal)
        assert_close(out, wanted.out, rtol=1e-11, atol=1e-13, like=arrays[0])
        assert_close(lse, wanted.lse, rtol=1e-12, atol=1e-12, like=arrays[0])


@functools.cache
def extended(size, is_causal):
    """Arrays, the formula in extended precision, and the formula in float64."""
    q, k, v = draw(150, 300, heads=4, heads_kv=4, batch=())
    q, k = size * q, size * k
    truth = naive_attention(*(x.astype(np.longdouble) for x in (q, k, v)), is_causal, 0.25)
    return q, k, v, truth, naive_attention(q, k, v, is_causal, 0.25)


@pytest.mark.parametrize("is_causal", [False, True])
def test_float64_is_as_good_as_the_formula(backend, is_causal):
    """Against extended precision, at most twice the error of the formula in float64."""
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("no extended precision here")
    for size in (1.0, 4.0, 12.0):
        q, k, v, truth, naive = extended(size, is_causal)
        out = to_numpy(exact_attention(*(backend.array(x) for x in (q, k, v)), is_causal=is_causal))
        ours, theirs = (np.linalg.norm((x - truth).astype(np.float64)) for x in (out, naive))
        assert ours <= 2 * theirs


def test_low_precision_is_summed_in_float32(backend):
    """4096 equal keys: a running sum in float16 would stop at 2048, in bfloat16 at 256."""
    for dtype in set(backend.dtypes) & {"float16", "bfloat16"}:
        q, k, v = np.ones((1, 2, 8)), np.zeros((1, 4096, 8)), np.ones((1, 4096, 3))
        v[:, ::2] = 3.0
        arrays = [backend.array(x, dtype) for x in (q, k, v)]
        out, lse = exact_attention(*arrays, return_lse=True)
        assert_close(exact_attention(*arrays), np.full((1, 2, 3), 2.0), rtol=0, like=arrays[0])
        assert_close(to_numpy(out), np.full((1, 2, 3), 2.0, np.float32), rtol=0)
        assert_close(to_numpy(lse), np.full((1, 2), np.log(4096.0), np.float32), rtol=1e-6)
        # Scores of 60000 * 8 overflow float16 before they are scaled.
        big = [backend.array(x, dtype) for x in (200 * q, 300 * np.ones_like(k), v)]
        assert_close(exact_attention(*big, scale=1e-3), np.full((1, 2, 3), 2.0), rtol=0, like=big[0])


def test_takes_the_calls_of_pytorch():
    torch = pytest.importorskip("torch")
    peer = torch.nn.functional.scaled_dot_product_attention
    names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert list(inspect.signature(exact_attention).parameters)[:8] == names
    q, k, v = (torch.tensor(x) for x in draw(40, 40))
    mask = torch.tensor(np.random.default_rng(0).random((40, 40)) < 0.7)
    for options in (
        {"enable_gqa": True},
        {"is_causal": True, "enable_gqa": True},
        {"attn_mask": mask, "scale": 0.7, "enable_gqa": True},
        {"attn_mask": torch.where(mask, 0.3, -torch.inf).double(), "enable_gqa": True},
    ):
        torch.testing.assert_close(exact_attention(q, k, v, **options), peer(q, k, v, **options))
    arrays = q, q, q
    torch.testing.assert_close(
        exact_attention(*arrays, mask, 0.0, False, 0.2), peer(*arrays, mask, 0.0, False, scale=0.2)
    )


def test_keys_are_not_repeated_in_memory():
    """With 16 query heads on one key head the extra memory is less than one copy of repeated keys."""
    pytest.importorskip("numba")
    q, k, v = (x.astype(np.float32) for x in draw(64, 8192, heads=16, heads_kv=1, e=64, ev=64, batch=()))
    with nlattn.use_backend("numba_cpu"):
        exact_attention(q, k, v)
        tracemalloc.start()
        exact_attention(q, k, v)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16 * k.nbytes / 4


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_axes_of_size_one_may_have_any_stride(dtype):
    """One key, or one feature, which NumPy may give stride 0: no leading dimension for BLAS."""
    rng = np.random.default_rng(0)
    for s, e, ev in ((1, 3, 1), (1, 3, 4), (1, 1, 1), (5, 1, 1)):
        q, k, v = (rng.standard_normal((2, 1, n, c)).astype(dtype) for n, c in ((3, e), (s, e), (s, ev)))
        wanted = dense_attention(q, k, v).out
        shared = [np.broadcast_to(x[:, :, :1], x.shape) if x.shape[2] == 1 else x for x in (k, v)]
        for arrays in ((k, v), shared, [x[:, :, ::-1] for x in (k, v)]):
            assert_close(exact_attention(q, *arrays), wanted, rtol=1e-3, atol=1e-3, like=q)


def test_shared_keys_of_a_batch_stay_shared():
    """Keys that a batch shares by broadcasting, of float16 too, are not copied for each of its elements."""
    pytest.importorskip("numba")
    for dtype in (np.float32, np.float16):
        q, k, v = (x.astype(dtype) for x in draw(8, 4096, heads=1, heads_kv=1, e=64, ev=64, batch=(32,)))
        k, v = (np.broadcast_to(x[:1], x.shape) for x in (k, v))
        exact_attention(q, k, v)
        tracemalloc.start()
        exact_attention(q, k, v)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 16 * k[0].size * 4, dtype


def test_one_array_for_all(backend):
    x = draw(50, 50, heads=2, heads_kv=2)[0]
    array = backend.array(x)
    out = exact_attention(array, array, array, is_causal=True)
    assert_close(out, dense_attention(x, x, x, is_causal=True).out, rtol=1e-12, like=array)
    assert np.array_equal(to_numpy(array), x)


def test_nan_across_tiles(backend):
    """A NaN in the third tile of keys reaches the rows that may attend to it, whatever its sign."""
    q, k, v = draw(700, 700, heads=1, heads_kv=1, batch=())
    wanted = dense_attention(q, k, v, is_causal=True).out
    for number in (np.nan, -np.nan):
        for which in (1, 2):
            arrays = [x.copy() for x in (q, k, v)]
            arrays[which][0, 600, 3] = number
            out = to_numpy(exact_attention(*(backend.array(x) for x in arrays), is_causal=True, check_finite=False))
            assert np.array_equal(np.isnan(out).any(-1)[0], np.arange(700) >= 600)
            np.testing.assert_allclose(out[:, :600], wanted[:, :600], rtol=1e-11, atol=1e-13)


def test_infinite_value_does_not_spread_by_zero_weights(backend):
    q, k, v = draw(20, 20, heads=1, heads_kv=1, batch=())
    v[0, 7, 2] = np.inf
    mask = np.arange(20)[:, None] != np.arange(20)
    mask[:, 7] = np.arange(20) == 3
    out = to_numpy(exact_attention(*(backend.array(x) for x in (q, k, v)), backend.array(mask), check_finite=False))
    assert np.array_equal(np.argwhere(~np.isfinite(out)), [[0, 3, 2]])


def test_scaled_before_it_overflows(backend):
    """Scores of ten, of products that float32 does not hold."""
    q, k, v = draw(20, 30, heads=1, heads_kv=1, batch=())
    q, k = 3e19 * q, 3e19 * k
    out = exact_attention(*(backend.array(x, "float32") for x in (q, k, v)), scale=1e-39)
    assert_close(to_numpy(out).astype(float), dense_attention(q, k, v, scale=1e-39).out, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("check_finite", [True, False])
def test_traced_arrays(check_finite):
    """Values that are not there yet are not looked at."""
    torch = pytest.importorskip("torch")
    q, k, v = (torch.tensor(x) for x in draw(9, 11))
    mask = torch.where(torch.arange(11) > 2, 0.5, -torch.inf).double()

    def attend(*arrays):
        return exact_attention(*arrays, mask, is_causal=True, check_finite=check_finite)

    torch.testing.assert_close(torch.func.vmap(attend)(q, k, v), attend(q, k, v))
    assert exact_attention(*(x.to("meta") for x in (q, k, v)), check_finite=check_finite).shape == (2, 4, 9, 12)


@pytest.mark.parametrize("length", [1, 2, 3, 64, 65, 130])
@pytest.mark.parametrize("spoiled", ["query", "key", "value"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found_on_the_way(backend, length, spoiled, bad):
    """Also where it gives a key the score -inf for all rows and so hides it. What no row may see may hold anything."""
    q, k, v = (np.abs(x) for x in draw(length, 150, batch=()))
    wanted = dense_attention(q, k[:, :-1], v[:, :-1]).out
    mask = np.arange(150) < 149
    arrays = {"query": q, "key": k, "value": v}
    arrays[spoiled] = arrays[spoiled].copy()
    arrays[spoiled][-1, -1, 3] = bad
    given = [backend.array(x) for x in arrays.values()]
    with pytest.raises(ValueError, match=f"{spoiled} contains NaN or inf"):
        exact_attention(*given)
    if spoiled != "query":
        found = exact_attention(*given, attn_mask=backend.array(mask, "bool"))
        assert_close(to_numpy(found), wanted, rtol=1e-10, atol=1e-10)


def test_results_that_overflow_are_no_errors():
    """A finite input may have an infinite output, and then its values are looked at for nothing."""
    values = np.full((3, 2), 3e38, np.float32)
    out = exact_attention(np.zeros((2, 4), np.float32), np.zeros((3, 4), np.float32), values)
    assert out.shape == (2, 2)
    assert not np.any(np.isnan(out))
