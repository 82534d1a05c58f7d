"""multipole_attention rebuilt densely from the labels of its clusters; what its near keys hold; its parts."""

import numpy as np
import pytest
from multipole_oracle import draw, in_order, rebuild, relative

import nlattn
from nlattn.methods.sparse.multipole.method import Multipole
from nlattn.problem.arguments import checked_problem
from nlattn.testing import assert_close, dense_attention, to_numpy


def call(backend, q, k, v, near, *, dtype=None, attn_mask=None, **options):
    arrays = [backend.array(x, dtype) for x in (q, k, v)]
    mask = attn_mask if attn_mask is None else backend.array(attn_mask)
    part = nlattn.multipole_attention(*arrays, near, attn_mask=mask, return_lse=True, **options)
    return to_numpy(part.out), to_numpy(part.lse)


CASES = {
    "auto": ((160, 160, 40), {}),
    "kmeans": ((160, 160, 40), {"clusters": "kmeans", "order": 1}),
    "blocks": ((160, 160, 40), {"clusters": "blocks"}),
    "order 0": ((130, 130, 45), {"order": 0}),
    "paper": ((200, 200, 70), {"variant": "paper", "clusters": "blocks"}),
    "few queries": ((50, 210, 100), {}),
    "many queries": ((250, 90, 40), {"order": 1}),
    "one query": ((1, 150, 40), {"order": 0}),
    "near = 1": ((40, 70, 1), {}),
    "near = 2": ((40, 50, 2), {"clusters": "kmeans"}),
    "near = 3": ((50, 40, 3), {"clusters": "blocks"}),
}


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_is_what_its_documentation_says(backend, case, is_causal):
    (length, s, near), options = CASES[case]
    q, k, v = draw(length, s)
    out, lse = in_order(rebuild(q, k, v, near, is_causal=is_causal, **options), q)
    found = call(backend, q, k, v, near, is_causal=is_causal, **options)
    assert_close(found[0], out, rtol=1e-9, atol=1e-10)
    assert_close(found[1], lse, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 150), (4, 1, 150)])
def test_masks(backend, shape, is_causal):
    """Boolean and log-weights, for all heads or each of a group its own; sinks and whole blocks may be hidden."""
    q, k, v = draw(150, 150)
    rng = np.random.default_rng(3)
    mask = rng.random(shape) < 0.7
    mask[..., 40:80] = False
    for m in (mask, np.where(mask, 2 * rng.standard_normal(shape), -np.inf)):
        out, lse = in_order(rebuild(q, k, v, 50, attn_mask=m, is_causal=is_causal), q)
        found = call(backend, q, k, v, 50, attn_mask=m, is_causal=is_causal)
        assert_close(found[0], out, rtol=1e-9, atol=1e-10)
        assert_close(found[1], lse, rtol=1e-9, atol=1e-10)
    out, lse = call(backend, q, k, v, 50, attn_mask=np.zeros(shape, bool), is_causal=is_causal)
    assert np.all(out == 0)
    assert np.all(lse == -np.inf)
    one = np.zeros(shape, bool)
    one[..., 66] = True
    out, _ = call(backend, q, k, v, 50, attn_mask=one, is_causal=is_causal)
    assert_close(out[:, 66:], np.broadcast_to(np.repeat(v[:, 66:67], 2, axis=0), out[:, 66:].shape), rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"clusters": "blocks"}, {"variant": "paper"}])
def test_several_segments(options):
    """Also where the keys of a segment end inside a group of queries, and the last segment is short."""
    q, k, v = draw(4500, 4500, h=1, g=1)
    found = rebuild(q, k, v, 900, is_causal=True, every=9, **options)
    part = nlattn.multipole_attention(q, k, v, 900, is_causal=True, return_lse=True, **options)
    for a, rows in enumerate(found.rows):
        assert_close(part.out[a, rows], found.out[a], rtol=1e-9, atol=1e-11)
        assert_close(part.lse[a, rows], found.lse[a], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "options", [{"order": 0}, {"clusters": "blocks"}, {"clusters": "kmeans"}, {"variant": "paper"}]
)
def test_all_keys_near_is_exact(backend, options, is_causal):
    q, k, v = draw(40, 60, batch=(2,))
    exact = dense_attention(q, k, v, is_causal=is_causal)
    for near in (60, 10**9):
        out, lse = call(backend, q, k, v, near, is_causal=is_causal, **options)
        assert_close(out, exact.out, rtol=1e-10, atol=1e-12)
        assert_close(lse, exact.lse, rtol=1e-10, atol=1e-12)


def test_order_0_counts_the_keys_of_a_cluster(backend):
    """Without near clusters: the window, and N exp(q.k') for the mean key k' of all others with one label."""
    q, k, v = (x.astype(float) for x in draw(90, 90, h=1, g=1))
    problem = checked_problem("x", *(backend.array(x) for x in (q, k, v)), masks="keys")
    method = Multipole(20, clusters="kmeans", order=0)
    state = method.prepare(problem, np.random.default_rng())
    part = method.apply(method.with_budgets(state, np.zeros((1, 1), np.int64), np.full((1, 1), True)), problem)
    label, wanted = to_numpy(state.layouts[0].clusters.label)[0, 0], np.empty_like(v)
    for i in range(90):
        low, high = i // 8 * 8 - 2, i // 8 * 8 + 10
        inside = (np.arange(90) >= low) & (np.arange(90) < high)
        groups = [np.flatnonzero(~inside & (label == c)) for c in np.unique(label[~inside])]
        keys = np.concatenate([k[0, inside], [k[0, x].mean(0) for x in groups]])
        values = np.concatenate([v[0, inside], [v[0, x].mean(0) for x in groups]])
        w = np.array([1] * inside.sum() + [len(x) for x in groups]) * np.exp(keys @ q[0, i] / 6**0.5)
        wanted[0, i] = w @ values / w.sum()
    assert_close(to_numpy(part.out)[0], wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_exact_at_the_expansion_point(backend, order, is_causal):
    """One query is the mean of its group, and so are equal queries."""
    q, k, v = draw(1, 400)
    for x in (q, np.repeat(q, 30, axis=1)):
        out, lse = call(backend, x, k, v, 30, is_causal=is_causal, order=order)
        exact = dense_attention(x, k, v, is_causal=is_causal)
        assert_close(out, exact.out, rtol=1e-10, atol=1e-12)
        assert_close(lse, exact.lse, rtol=1e-10)


def test_blocks_have_no_lookahead():
    """With three segments: neither keys nor values of the future change a bit of the past."""
    q, k, v = draw(5000, 5000, h=2, g=1, e=4, ev=3)
    rng = np.random.default_rng(1)
    options = {"clusters": "blocks", "is_causal": True}
    for near in (600, 14):
        first = nlattn.multipole_attention(q, k, v, near, **options)
        for now in (1, 700, 2047, 4097):
            new = [x.copy() for x in (k, v)]
            for x in new:
                x[:, now:] = 5 * rng.standard_normal(x[:, now:].shape)
            out = nlattn.multipole_attention(q, *new, near, **options)
            assert np.array_equal(out[:, :now], first[:, :now])
            assert not np.allclose(out[:, now:], first[:, now:])


@pytest.mark.parametrize("options", [{}, {"variant": "paper"}, {"order": 0}])
def test_future_keys_have_no_weight(options):
    """Values that say how late a key is: no row sees a larger one than its own."""
    q, k, _ = draw(3000, 3000, h=2, g=1)
    late = np.linspace(0, 1, 3000) > np.linspace(0.03, 0.97, 30)[:, None]
    out = nlattn.multipole_attention(q, k, np.ascontiguousarray(late.T, float)[None], 300, is_causal=True, **options)
    assert np.all(out[:, ~late.T] == 0)
    assert np.all(out >= 0)
    assert out.max() > 0.5


def test_a_cluster_beside_the_window_counts_once(backend):
    """v = 1 gives 1 and the mass is that of all keys where queries are equal, whatever is cut off a cluster."""
    q, k, v = draw(70, 500)
    q, v = np.repeat(q[:, :1], 70, axis=1), np.ones_like(v)
    for is_causal in (False, True):
        out, lse = call(backend, q, k, v, 60, is_causal=is_causal)
        assert_close(out, np.ones_like(out), rtol=1e-12)
        assert_close(lse, dense_attention(q, k, v, is_causal=is_causal).lse, rtol=1e-11)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("order", [0, 1])
def test_gradients(order, is_causal):
    torch = pytest.importorskip("torch")
    q, k, v = (torch.tensor(x, requires_grad=True) for x in draw(20, 20, h=2, g=1, e=3, ev=2))
    bias = torch.tensor(np.random.default_rng(1).standard_normal((2, 1, 20)), requires_grad=True)

    def function(q, k, v, bias):
        options = {"order": order, "is_causal": is_causal, "attn_mask": bias}
        return tuple(nlattn.multipole_attention(q, k, v, 9, return_lse=True, **options))

    assert torch.autograd.gradcheck(function, (q, k, v, bias), fast_mode=True, check_undefined_grad=False)
    assert all(x.grad is None or torch.all(torch.isfinite(x.grad)) for x in (q, k, v))
    out = nlattn.multipole_attention(q[:, :1], k, v, 9, order=2)  # at its expansion point
    assert all(torch.all(torch.isfinite(g)) for g in torch.autograd.grad(out.sum(), (q, k, v)))


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_batch_is_a_loop(backend, is_causal):
    q, k, v = draw(60, 50, batch=(2, 2))
    out, _ = call(backend, q, k, v, 20, is_causal=is_causal)
    for i in np.ndindex(2, 2):
        alone, _ = call(backend, q[i], k[i], v[i], 20, is_causal=is_causal)
        assert_close(out[i], alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_sizes_at_the_edge(backend, is_causal):
    for length, s, e, ev in (
        (0, 128, 4, 3),
        (0, 100, 4, 3),
        (128, 128, 1, 1),
        (128, 128, 4, 0),
        (1, 2, 1, 1),
        (70, 2, 3, 2),
    ):
        q, k, v = draw(length, s, e=e, ev=ev)
        before = [x.copy() for x in (q, k, v)]
        near = max(1, s // 4)
        out, lse = call(backend, q, k, v, near, is_causal=is_causal)
        assert out.shape == (4, length, ev)
        assert lse.shape == (4, length)
        assert np.all(np.isfinite(out))
        assert all(np.array_equal(x, y) for x, y in zip((q, k, v), before, strict=True))
    empty = call(backend, *draw(100, 100, batch=(0,)), 30, is_causal=is_causal)[0]
    assert empty.shape == (0, 4, 100, 5)
    q, k, v = draw(80, 80, h=1, g=1, e=256, ev=100)
    out, lse = in_order(rebuild(q, k, v, 30, is_causal=is_causal), q)
    assert_close(call(backend, q, k, v, 30, is_causal=is_causal)[0], out, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("is_causal", [False, True])
def test_equal_keys_zeros_and_duplicates(backend, is_causal):
    """One giant cluster is cut up; what all keys share is exact."""
    q, k, v = draw(120, 120)
    for x, y in (
        (q, np.repeat(k[:, :1], 120, axis=1)),
        (q, 0 * k),
        (0 * q, k),
        (q, np.repeat(k[:, ::40], 40, axis=1)),
    ):
        out, _ = call(backend, x, y, v, 40, is_causal=is_causal)
        if y[0, 0, 0] == y[0, 119, 0] or not x.any():
            assert_close(out, dense_attention(x, y, v, is_causal=is_causal).out, rtol=1e-9, atol=1e-10)
        assert np.all(np.isfinite(out))
        assert np.all(np.abs(out) <= np.abs(v).max() + 1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_scales(backend, is_causal):
    """Only the products of queries and keys matter, as far as float32 reaches; large ones give no NaN."""
    q, k, v = (x.astype(np.float32) for x in draw(70, 70))
    plain, _ = call(backend, q, k, v, 30, is_causal=is_causal)
    for factor in (np.float32(2.0**90), np.float32(2.0**-90)):
        out, _ = call(backend, q * factor, k / factor, v, 30, is_causal=is_causal)
        assert relative(out, plain) < 1e-4


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", [{}, {"order": 0}, {"variant": "paper"}])
def test_huge_logits(backend, options, dtype):
    """Far masses are tangents of the true ones, or up to 3 above: a key that is met and stands out gets all weight."""
    _, k, v = draw(1, 120, h=2, g=2)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    for is_causal in (False, True):
        for factor in (1e4, 1e8) if dtype == "float32" else (1e8,):
            out, _ = call(backend, k, k, v, 45, dtype=dtype, is_causal=is_causal, scale=factor, **options)
            wanted = dense_attention(k, k, v, is_causal=is_causal, scale=factor)
            found = np.abs(out - wanted.out).max(-1) < 1e-3
            assert np.all(np.isfinite(out))
            assert np.mean(found) > 0.9
            own = np.diagonal(wanted.weights, axis1=1, axis2=2) > 1 - 1e-6
            assert np.all(found[own])


@pytest.mark.parametrize("variant", ["nlattn", "paper"])
def test_float16(variant):
    """Computed in float32, clusters too: keys of some thousands have squares that float16 cannot hold."""
    for factor in (1, 3000):
        half = [x.astype(np.float16) for x in draw(300, 300)]
        half[1] = (factor * half[1]).astype(np.float16)
        wide = [x.astype(np.float32) for x in half]
        out = nlattn.multipole_attention(*half, 70, variant=variant, is_causal=True)
        assert out.dtype == np.float16
        wanted = nlattn.multipole_attention(*wide, 70, variant=variant, is_causal=True)
        assert_close(out.astype(float), wanted.astype(float), rtol=1e-3, atol=1e-3)


def test_a_nan_that_is_let_through_shows(backend):
    for is_causal in (False, True):
        for which in range(3):
            arrays = draw(100, 100)
            arrays[which][0, 60, 0] = np.nan
            out, _ = call(backend, *arrays, 30, is_causal=is_causal, check_finite=False)
            assert np.any(np.isnan(out[0, 60]))
            if which == 0:
                assert np.all(np.isfinite(out[1:]))


def test_bad_arguments():
    q, k, v = draw(40, 40)
    with pytest.raises(ValueError, match="near must be at least 1, got 0"):
        nlattn.multipole_attention(q, k, v, 0)
    with pytest.raises(TypeError, match=r"near must be an integer, got 2\.5"):
        nlattn.multipole_attention(q, k, v, 2.5)
    with pytest.raises(ValueError, match="clusters must be one of 'auto', 'kmeans', 'blocks', got 'tree'"):
        nlattn.multipole_attention(q, k, v, clusters="tree")
    for order in (3, -1, True, None, "1"):
        with pytest.raises(ValueError, match="order must be 0, 1 or 2, got"):
            nlattn.multipole_attention(q, k, v, order=order)
    with pytest.raises(ValueError, match="variant must be one of 'nlattn', 'paper', got 'official'"):
        nlattn.multipole_attention(q, k, v, variant="official")
    with pytest.raises(NotImplementedError, match="multipole_attention honours key masks only"):
        nlattn.multipole_attention(q, k, v, attn_mask=np.ones((40, 40), bool))
