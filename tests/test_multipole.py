"""multipole_attention rebuilt densely from the labels of its clusters; what its near keys hold; its parts."""

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import nlattn
from nlattn.methods.arguments import prepare
from nlattn.methods.sparse import multipole
from nlattn.methods.sparse.key_clusters import Clustering, cluster_keys, cluster_size
from nlattn.methods.sparse.key_metric import coordinates, query_moment
from nlattn.methods.sparse.query_tree import tree_order
from nlattn.testing import assert_close, dense_attention, to_numpy

SHARED = Path(__file__).parents[2] / "shared" / "qkv"
SHIPPED = nlattn.datasets.NAMES
BIDIRECTIONAL = ("minilm", "dinov2", "whisper")


def draw(length, s, *, h=4, g=2, e=6, ev=5, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((*batch, n, m, d)) for n, m, d in ((h, length, e), (g, s, e), (g, s, ev)))


def planted(s=1024, kinds=16, seed=0):
    """Queries that look for keys of their own kind, scattered over all positions; values go with the kinds."""
    rng = np.random.default_rng(seed)
    middles, values = 2.5 * rng.standard_normal((kinds, 16)), rng.standard_normal((kinds, 8))
    of_q, of_k = rng.integers(0, kinds, s), rng.integers(0, kinds, s)
    q, k = (middles[x] + 0.5 * rng.standard_normal((s, 16)) for x in (of_q, of_k))
    return q[None], k[None], (values[of_k] + 0.3 * rng.standard_normal((s, 8)))[None]


def shared(name):
    """Layers of a file of which users have no copy: (layer, q, k, v, scale)."""
    if not (SHARED / name).exists():
        pytest.skip("needs ../shared/qkv")
    with np.load(SHARED / name) as z:
        for i, layer in enumerate(z["layers"]):
            yield int(layer), *(z[part][i].astype(np.float32) for part in "qkv"), float(z["scale"])


def relative(x, exact, axis=None):
    difference, exact = np.asarray(x, float) - exact, np.asarray(exact, float)
    axis = tuple(range(exact.ndim)) if axis is None else axis
    return np.sqrt((difference**2).sum(axis) / (exact**2).sum(axis))


def prepared(q, k, v, near, *, attn_mask=None, is_causal=False, scale=None, **options):
    problem = prepare("x", q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, masks="keys")
    return problem, multipole._prepare(problem, near, **options)


def softmax(scores):
    """Weights, and logarithms of the mass; 0 and -inf where nothing is seen."""
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    w = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = w.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return w / np.where(total > 0, total, 1), (top + np.log(total))[:, 0]


class Rebuilt(NamedTuple):
    """For each head: the rows, outputs, log-sum-exps and which keys each row met one by one."""

    rows: list
    out: list
    lse: list
    met: list


def rebuild(
    q, k, v, near, *, attn_mask=None, is_causal=False, scale=None, order=2, variant="nlattn", every=1, **options
):
    """The method by its documentation, in dense float64, from the labels of its clusters; every which block."""
    given = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    problem, state = prepared(q, k, v, near, order=order, variant=variant, **given, **options)
    scale, (h, length, _), s = problem.scale, q.shape, k.shape[-2]
    position, found = np.arange(s), Rebuilt([], [], [], [])
    extra = np.zeros(s) if attn_mask is None else attn_mask
    extra = np.where(extra, 0, -np.inf) if extra.dtype == bool else extra
    extra = np.broadcast_to(extra, (h, 1, s))[:, 0].astype(float)
    for a in range(h):
        layout = state.layouts[int(state.choice[0, a])]
        heads = layout.clusters.label.shape[1]
        label, keys, values = layout.clusters.label[0, a // (h // heads)], k[a // (h // len(k))], v[a // (h // len(k))]
        keys, values, queries = keys.astype(float), values.astype(float), scale * q[a].astype(float)
        m = layout.clusters.edges.shape[2] - 1
        member = label[:, None] == np.arange(m)  # S x M
        size = np.maximum(member.sum(0), 1)
        apart = keys - np.concatenate([member.T @ keys / size[:, None], keys[:1]])[label]
        variance = member.T @ (apart**2).mean(-1) / size
        spread = np.zeros(m) if order < 2 or variant == "paper" else variance / 2
        taken_by = np.arange(length) if layout.order is None else layout.order[0, a]
        place = np.arange(length) + (s - length if layout.order is None else 0)
        outs, lses, mets, rows_of = [], [], [], []
        for t in np.unique(place // state.block)[::every]:
            rows = taken_by[place // state.block == t]
            beside = taken_by[place // state.group == t * state.block // state.group]
            q0 = np.zeros(q.shape[2]) if order == 0 or variant == "paper" else queries[beside].mean(0)
            seen = (position <= rows[:, None] + s - length) if is_causal else np.full((len(rows), s), True)
            seen = seen & (extra[a] > -np.inf)
            low, high = t * state.block, (t + 1) * state.block
            if is_causal:
                window = (position >= low - state.block) & (position < high)
                free = (position < low - state.block) & (position >= state.block)
                window |= (position < low - state.block) & (position < state.block)
            else:
                window = (position >= low - state.block // 4) & (position < high + state.block // 4)
                window = window if layout.order is None else np.zeros(s, bool)
                free = ~window
            mine = member & free[:, None]
            w, log_mass, count = *softmax(np.where(mine.T, keys @ q0 + extra[a], -np.inf)), mine.sum(0)
            key, value = w @ keys, w @ values
            turn = queries[rows] - q0
            far = log_mass + turn @ key.T + np.minimum((turn**2).sum(-1)[:, None] * spread, 3)
            scores = np.where(seen, queries[rows] @ keys.T + extra[a], -np.inf)
            # What only later rows may see must not decide what earlier ones meet.
            common = window & (position <= rows.min() + s - length if is_causal else True)
            shares, _ = softmax(np.concatenate([np.where(common, scores, -np.inf), far], axis=1))
            share = shares[:, s:].sum(0)
            share /= np.maximum(1, count + (0 if variant == "paper" else 16))
            by_share = np.argsort(-share, kind="stable")
            taken = np.zeros(m, bool)
            window_keys = min(s, max(0, high if is_causal else high + state.block // 4))
            left = near - window.sum() if window_keys else near
            taken[by_share[np.cumsum(count[by_share]) <= left]] = True
            met = seen & (window | (free & np.append(taken, False)[label]))
            w, log_mass = softmax(np.concatenate([np.where(met, scores, -np.inf), np.where(taken, -np.inf, far)], 1))
            outs.append(w @ np.concatenate([values, value]))
            lses.append(log_mass)
            mets.append(met)
            rows_of.append(rows)
        for part, name in ((rows_of, "rows"), (outs, "out"), (lses, "lse"), (mets, "met")):
            getattr(found, name).append(np.concatenate(part))
    return found


def in_order(found, q):
    out, lse = np.empty((*q.shape[:2], found.out[0].shape[1])), np.empty(q.shape[:2])
    for a, rows in enumerate(found.rows):
        out[a, rows], lse[a, rows] = found.out[a], found.lse[a]
    return out, lse


def captured(q, k, v, near, **options):
    """The part of the softmax that the near keys hold, mean over rows, for each head."""
    found, group = rebuild(q, k, v, near, **options), len(q) // len(k)
    held = []
    for a, (rows, met) in enumerate(zip(found.rows, found.met, strict=True)):
        held.append((weights(q[a], k[a // group], rows, options) * met).sum(-1).mean())
    return np.asarray(held)


def weights(q, k, rows, options):
    scores = q[rows].astype(float) @ k.T.astype(float) * (options.get("scale") or q.shape[-1] ** -0.5)
    if options.get("is_causal"):
        scores = np.where(np.arange(len(k)) <= rows[:, None] + len(k) - len(q), scores, -np.inf)
    w = np.exp(scores - scores.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


class Contiguous(NamedTuple):
    """Blocks of 64 consecutive keys for blocks of 64 consecutive queries, by the mass of their mean keys."""

    captured: np.ndarray
    dropped: np.ndarray
    """Relative error of a head without the other blocks."""
    replaced: np.ndarray
    """And with each of them as its mean key and mean value."""


def contiguous(q, k, v, near, *, is_causal=False, scale=None, every=1):
    group, scale, (h, length, _), s = len(q) // len(k), scale or q.shape[2] ** -0.5, q.shape, k.shape[1]
    edges = np.arange(0, s, 64)
    size = np.diff([*edges, s])
    rows_of = [np.arange(i, min(i + 64, length)) for i in range(0, length, 64)][::every]
    found = []
    for a in range(h):
        keys, values = k[a // group].astype(float), v[a // group].astype(float)
        middle, value = (np.add.reduceat(x, edges, axis=0) / size[:, None] for x in (keys, values))
        held, errors, exact = [], [[], []], []
        for rows in rows_of:
            far = scale * q[a, rows].astype(float) @ middle.T + np.log(size)
            own = rows[0] // 64
            if is_causal:
                far[:, own:] = -np.inf
            share = np.exp(far - far.max(-1, keepdims=True, initial=-1e300))
            share = (share / np.maximum(share.sum(-1, keepdims=True), 1e-300)).sum(0)
            if is_causal:
                share[[0, max(0, own - 1), own]] = np.inf
                share[own + 1 :] = -1
            taken = np.zeros(len(edges), bool)
            taken[np.argsort(-share, kind="stable")[: near // 64]] = True
            met = np.repeat(taken, size)
            w = weights(q[a], k[a // group], rows, {"is_causal": is_causal, "scale": scale})
            held.append((w * met).sum(-1))
            exact.append(w @ values)
            errors[0].append((w * met) @ values / held[-1][:, None])
            scores = scale * q[a, rows].astype(float) @ keys.T
            if is_causal:
                scores = np.where(np.arange(s) <= rows[:, None], scores, -np.inf)
            both = np.concatenate([np.where(met, scores, -np.inf), np.where(taken, -np.inf, far)], axis=1)
            both = np.exp(both - both.max(-1, keepdims=True))
            errors[1].append(both @ np.concatenate([values, value]) / both.sum(-1, keepdims=True))
        exact = np.concatenate(exact)
        found.append((np.concatenate(held).mean(), *(relative(np.concatenate(x), exact) for x in errors)))
    return Contiguous(*(np.asarray(x) for x in zip(*found, strict=True)))


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
    q, k, v = draw(4500, 4500, h=2, g=1)
    found = rebuild(q, k, v, 900, is_causal=True, every=6, **options)
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
    problem = prepare("x", *(backend.array(x) for x in (q, k, v)), masks="keys")
    state = multipole._prepare(problem, 20, clusters="kmeans", order=0)
    part = multipole._apply(multipole._rebudget(state, np.zeros((1, 1), np.int64)), problem)
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


def sample(name):
    q, k, v, scale, is_causal = nlattn.datasets.load(name)[:5]
    options = {"scale": scale, "is_causal": is_causal}
    return (q, k, v), options, nlattn.exact_attention(q, k, v, **options)


@pytest.mark.parametrize("name", SHIPPED)
def test_near_keys_and_higher_orders_reduce_the_error_on_real_heads(name):
    arrays, options, exact = sample(name)
    s = exact.shape[1]
    errors = np.asarray(
        [
            [relative(nlattn.multipole_attention(*arrays, near, order=order, **options), exact) for order in (0, 1, 2)]
            for near in (s // 8, s // 4, s // 2)
        ]
    )
    assert np.all(np.diff(errors, axis=0) < 0)
    assert np.all(errors[:, 1:] < 0.97 * errors[:, :1])
    assert relative(nlattn.multipole_attention(*arrays, s, **options), exact) < 1e-6


@pytest.mark.parametrize("is_causal", [False, True])
def test_near_keys_hold_most_of_the_mass_of_planted_clusters(is_causal):
    for seed in range(2):
        q, k, v = planted(seed=seed)
        options = {"is_causal": is_causal}
        ours, paper = (captured(q, k, v, 256, variant=x, **options)[0] for x in ("nlattn", "paper"))
        apart = contiguous(q, k, v, 256, **options)
        assert ours >= paper
        assert ours > 1.1 * apart.captured[0]
        assert is_causal or ours > 0.97
        out = nlattn.multipole_attention(q, k, v, 256, **options)
        assert relative(out, dense_attention(q, k, v, **options).out) < 0.4 * apart.replaced[0]


@pytest.mark.parametrize("name", SHIPPED)
def test_near_keys_hold_most_of_the_mass_of_real_heads(name):
    """At least as much as those of the paper and of consecutive blocks; and a smaller error on every head."""
    (q, k, v), options, exact = sample(name)
    near, some = k.shape[1] // 4, options | {"every": 1 + k.shape[1] // 1024}
    ours, paper = (captured(q, k, v, near, variant=x, **some) for x in ("nlattn", "paper"))
    apart = contiguous(q, k, v, near, **some)
    assert ours.mean() >= paper.mean()
    assert np.all(ours >= 0.98 * paper)
    assert np.all(ours >= apart.captured)
    errors = [
        relative(nlattn.multipole_attention(q, k, v, near, variant=x, **options), exact, (1, 2))
        for x in ("nlattn", "paper")
    ]
    assert np.all(errors[0] < 0.8 * errors[1])


BIDIRECTIONAL_FILES = ("minilm_kjvjohn_n512.npz", "dinov2s_china_n1370.npz", "whisper_enc_n1500.npz")


@pytest.mark.parametrize("name", BIDIRECTIONAL + BIDIRECTIONAL_FILES)
def test_better_than_consecutive_blocks_on_every_bidirectional_head(name):
    """At a quarter of the keys; the blocks may drop the others or keep their means."""
    if name in BIDIRECTIONAL:
        sample = nlattn.datasets.load(name)
        layers = [(sample.layer, sample.query, sample.key, sample.value, sample.scale)]
    else:
        layers = list(shared(name))
    for layer, q, k, v, scale in layers:
        near = k.shape[1] // 4
        exact = nlattn.exact_attention(q, k, v, scale=scale)
        errors = relative(nlattn.multipole_attention(q, k, v, near, scale=scale), exact, (1, 2))
        apart = contiguous(q, k, v, near, scale=scale)
        assert np.all(errors < 0.85 * np.minimum(apart.dropped, apart.replaced)), f"layer {layer}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "near", "every"),
    [
        ("smollm2_kjv_n2048.npz", 256, 4),
        ("smollm2_kjv_n8192_kv1.npz", 512, 16),
        ("smollm2_asyncio_n16384_kv2.npz", 512, 32),
        ("smollm2_kjv_n32768_kv1.npz", 1024, 64),
        *((name, None, 1) for name in BIDIRECTIONAL_FILES),
    ],
)
def test_near_keys_hold_about_as_much_mass_as_others_in_all_files(name, near, every):
    for layer, q, k, v, scale in shared(name):
        options = {"scale": scale, "is_causal": near is not None, "every": every}
        budget = near or k.shape[1] // 4
        ours, paper = (captured(q, k, v, budget, variant=x, **options) for x in ("nlattn", "paper"))
        apart = contiguous(q, k, v, budget, **options).captured
        # The paper's clusters, of 16 keys each, are up to four times as many far terms.
        assert np.all(ours >= 0.94 * paper), f"layer {layer}"
        assert ours.mean() >= 0.99 * max(paper.mean(), apart.mean()), f"layer {layer}"


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
    q, k, v = (torch.tensor(x, requires_grad=True) for x in draw(40, 40, h=2, g=1, e=3, ev=2))
    bias = torch.tensor(np.random.default_rng(1).standard_normal((2, 1, 40)), requires_grad=True)

    def function(q, k, v, bias):
        options = {"order": order, "is_causal": is_causal, "attn_mask": bias}
        return tuple(nlattn.multipole_attention(q, k, v, 9, return_lse=True, **options))

    assert torch.autograd.gradcheck(function, (q, k, v, bias), fast_mode=True)
    assert all(x.grad is None or torch.all(torch.isfinite(x.grad)) for x in (q, k, v))
    out = nlattn.multipole_attention(q[:, :1], k, v, 9, order=2)  # at its expansion point
    assert all(torch.all(torch.isfinite(g)) for g in torch.autograd.grad(out.sum(), (q, k, v)))


def test_threads_do_not_matter(run_python):
    code = """
import numpy as np, hashlib, nlattn
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((2, h, 2500, 16), dtype=np.float32) for h in (4, 2, 2))
for options in ({"is_causal": True}, {}):
    part = nlattn.multipole_attention(q, k, v, 300, return_lse=True, **options)
    print(hashlib.sha256(part.out.tobytes() + part.lse.tobytes()).hexdigest())
"""
    assert run_python(code, NLATTN_NUM_THREADS="1") == run_python(code, NLATTN_NUM_THREADS="2")


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_batch_is_a_loop(backend, is_causal):
    q, k, v = draw(100, 90, batch=(2, 3))
    out, _ = call(backend, q, k, v, 30, is_causal=is_causal)
    for i in np.ndindex(2, 3):
        alone, _ = call(backend, q[i], k[i], v[i], 30, is_causal=is_causal)
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
    q, k, v = draw(200, 200, e=256, ev=100)
    out, lse = in_order(rebuild(q, k, v, 60, is_causal=is_causal), q)
    assert_close(call(backend, q, k, v, 60, is_causal=is_causal)[0], out, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("is_causal", [False, True])
def test_equal_keys_zeros_and_duplicates(backend, is_causal):
    """One giant cluster is cut up; what all keys share is exact."""
    q, k, v = draw(300, 300)
    for x, y in (
        (q, np.repeat(k[:, :1], 300, axis=1)),
        (q, 0 * k),
        (0 * q, k),
        (q, np.repeat(k[:, ::100], 100, axis=1)),
    ):
        out, _ = call(backend, x, y, v, 70, is_causal=is_causal)
        if y[0, 0, 0] == y[0, 299, 0] or not x.any():
            assert_close(out, dense_attention(x, y, v, is_causal=is_causal).out, rtol=1e-9, atol=1e-10)
        assert np.all(np.isfinite(out))
        assert np.all(np.abs(out) <= np.abs(v).max() + 1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_scales(backend, is_causal):
    """Only the products of queries and keys matter, as far as float32 reaches; large ones give no NaN."""
    q, k, v = (x.astype(np.float32) for x in draw(120, 120))
    plain, _ = call(backend, q, k, v, 40, is_causal=is_causal)
    for factor in (np.float32(2.0**90), np.float32(2.0**-90)):
        out, _ = call(backend, q * factor, k / factor, v, 40, is_causal=is_causal)
        assert relative(out, plain) < 1e-4


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", [{}, {"order": 0}, {"variant": "paper"}])
def test_huge_logits(backend, options, dtype):
    """Far masses are tangents of the true ones, or up to 3 above: a key that is met and stands out gets all weight."""
    _, k, v = draw(1, 200, h=2, g=2)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    for is_causal in (False, True):
        for factor in (1e4, 1e8):
            out, _ = call(backend, k, k, v, 70, dtype=dtype, is_causal=is_causal, scale=factor, **options)
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
            arrays = draw(200, 200)
            arrays[which][0, 120, 0] = np.nan
            out, _ = call(backend, *arrays, 60, is_causal=is_causal, check_finite=False)
            assert np.any(np.isnan(out[0, 120]))
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


@pytest.mark.parametrize(("n", "size"), [(300, 16), (256, 16), (257, 16), (5, 8), (1, 4), (70, 1)])
def test_tree_order_is_a_permutation(backend, n, size):
    x = np.random.default_rng(0).standard_normal((2, 3, n, 4))
    x[1, 0] = 0
    x[1, 1] = x[1, 1, :1]
    x[1, 2] *= 1e300
    a = backend.array(x)
    order = to_numpy(tree_order(backend_namespace(a), a, size))
    assert np.array_equal(np.sort(order, axis=-1), np.broadcast_to(np.arange(n), (2, 3, n)))
    assert np.array_equal(order[1, 0], np.arange(n))


def backend_namespace(array):
    from array_api_compat import array_namespace

    return array_namespace(array)


def test_tree_order_keeps_groups_together(backend):
    """16 groups of 16, far apart; and a line, which is cut into intervals."""
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat(np.arange(16), 16))
    x = 50 * rng.standard_normal((16, 5))[label] + rng.standard_normal((256, 5))
    line = np.outer(rng.standard_normal(200), [1.0, 2.0])
    a, b = (backend.array(y[None, None]) for y in (x, line))
    order = to_numpy(tree_order(backend_namespace(a), a, 16))[0, 0]
    kinds = [len(set(label[run])) for run in order.reshape(16, 16)]
    assert np.mean(kinds) < 2
    order = to_numpy(tree_order(backend_namespace(b), b, 25))[0, 0]
    runs = sorted((line[run, 0].min(), line[run, 0].max()) for run in order.reshape(8, 25))
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(runs))


def clustered(backend, kind, s, *, used=None, weight=None, same=False, size=8, segment=64):
    _, k, v = draw(4, s, h=2, g=2)
    k = 0 * k if same else k
    problem = prepare("x", *(backend.array(x) for x in (k[:, :4], k, v)), masks="keys")
    used = np.ones((1, 2, s), bool) if used is None else used
    given = [None if x is None else backend.array(x) for x in (used, weight)]
    found = cluster_keys(problem, Clustering(kind, size, segment), *given, problem.key)
    return k, v, used, type(found)(*(None if x is None else to_numpy(x) for x in found))


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("s", [200, 64, 9, 1])
@pytest.mark.parametrize("kind", ["kmeans", "blocks"])
def test_clusters_divide_the_keys_that_are_used(backend, kind, s, masked, same):
    rng = np.random.default_rng(1)
    used = rng.random((1, 2, s)) < 0.6 if masked else None
    weight = rng.standard_normal((1, 2, s)) if masked else None
    k, v, used, found = clustered(backend, kind, s, used=used, weight=weight, same=same)
    m = found.edges.shape[2] - 1
    assert m == found.spread.shape[2]
    for g in range(2):
        position, edges, label, segments = (getattr(found, x)[0, g] for x in ("position", "edges", "label", "segments"))
        assert np.array_equal(np.sort(position), np.arange(s))
        assert np.array_equal(found.key[0, g], k[g, position])
        assert np.array_equal(found.value[0, g], v[g, position])
        assert weight is None or np.array_equal(found.weight[0, g], weight[0, g, position])
        assert (edges[0], edges[-1]) == (0, used[0, g].sum())
        assert np.all(label[~used[0, g]] == m)
        assert segments[0] == 0
        assert segments.shape == (-(-s // 64) + 1,)
        for c in range(m):
            mine = position[edges[c] : edges[c + 1]]
            assert np.array_equal(mine, np.flatnonzero(used[0, g] & (label == c)))  # ascending, and all of them
            assert len(mine) <= 4 * 8
            assert len(mine) > 0 or c >= segments[-1]  # padding of a head with fewer clusters
            spread = np.sqrt(k[g, mine].var(0).mean() / 2) if len(mine) else 0
            np.testing.assert_allclose(found.spread[0, g, c], spread, atol=1e-12)
            for n in np.unique(mine // 64):
                assert segments[n] <= c < segments[n + 1]
        if kind == "blocks":
            assert np.all(np.diff(label[used[0, g]]) >= 0)


def test_k_means_finds_planted_clusters(backend):
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat(np.arange(8), 8))
    x = 30 * np.eye(8)[label] + rng.standard_normal((64, 8))
    problem = prepare("x", *(backend.array(y) for y in (x, x, x)), masks="keys")
    used = backend.array(np.ones((1, 1, 64), bool))
    found = to_numpy(cluster_keys(problem, Clustering("kmeans", 4, 64, 10), used, None, problem.key).label)[0, 0]
    assert all(len(set(label[found == c])) == 1 for c in np.unique(found))


def test_cluster_size_grows_like_the_root():
    sizes = [cluster_size(s) for s in (1, 1500, 6000, 24000, 96000, 10**6, 10**9)]
    assert sizes == [8, 8, 16, 32, 64, 128, 128]


def metric(backend, q, k, v, **options):
    problem = prepare("x", *(backend.array(x) for x in (q, k, v)), masks="keys", **options)
    used = backend.array(np.ones((1, len(k), k.shape[1]), bool))
    found = coordinates(problem, used, query_moment(problem))
    return to_numpy(found.points), to_numpy(found.queries), problem.scale


def squares(x):
    return ((x[:, None] - x) ** 2).sum(-1)


def test_distances_of_keys_are_root_mean_square_differences_of_scores(backend):
    q, k, v = draw(80, 60, e=6)
    points, _, scale = metric(backend, q, k, 0 * v)
    for g in range(2):
        scores = scale * np.concatenate(q[2 * g : 2 * g + 2]) @ k[g].T
        wanted = squares(scores.T) / 160
        assert_close(squares(points[0, g]), wanted, rtol=1e-9, atol=1e-10)
        # Values add a part with a quarter of the variance.
        both, _, _ = metric(backend, q, k, v)
        extra = squares(both[0, g]) - wanted
        assert_close(extra, 0.25 * wanted.mean() / squares(v[g]).mean() * squares(v[g]), rtol=1e-8, atol=1e-9)
    # Beyond 16 directions the rest is dropped, and it is the smallest part.
    q, k, v = draw(300, 60, e=40)
    decay = 0.8 ** np.arange(40)
    points, _, scale = metric(backend, q * decay, k * decay, 0 * v)
    scores = scale * np.concatenate((q * decay)[:2]) @ (k[0] * decay).T
    wanted, kept = squares(scores.T) / 600, squares(points[0, 0])
    assert np.all(kept <= wanted * (1 + 1e-9))
    assert kept.sum() > 0.99 * wanted.sum()


def test_coordinates_of_queries_keep_differences_of_scores(backend):
    q, k, v = draw(80, 60, e=6)
    _, side, _ = metric(backend, q, k, v)
    centred = k[0] - k[0].mean(0)
    wanted = squares(q[0] @ centred.T) / 60
    assert_close(squares(q[0] @ side[0, 0]), wanted, rtol=1e-9, atol=1e-10)
