"""Near and far clusters, on every backend, against loops over rows and clusters."""

import numpy as np
import pytest
from kernel_calls import call_on, cases_for

from nlattn.kernels.cluster_attention import Clusters, RowBlocks, cluster_attention
from nlattn.testing import assert_close


def case(
    seed=0, *, b=2, h=4, g=2, s=90, e=6, ev=5, segment=24, causal=True, block=8, sinks=4, weighted=False, offset=0
):
    """Queries, keys and a random division of the keys into clusters inside segments."""
    rng = np.random.default_rng(seed)
    length = s - offset
    q, k, v = (rng.standard_normal((b, n, m, d)) for n, m, d in ((h, length, e), (g, s, e), (g, s, ev)))
    weight = np.where(rng.random((b, g, s)) < 0.8, rng.standard_normal((b, g, s)), -np.inf) if weighted else None
    n_segments, per = -(-s // segment), 4
    label = np.arange(s) // segment * per + rng.integers(0, per, (b, g, s))
    used = np.broadcast_to(np.arange(s) >= sinks, label.shape)
    used = used if weight is None else used & (weight != -np.inf)
    m = n_segments * per
    label = np.where(used, label, m)
    order = np.argsort(label, axis=-1, kind="stable")
    edges = np.stack([[np.searchsorted(row, np.arange(m + 1)) for row in np.sort(x)] for x in label])
    at = order[..., None]
    clusters = Clusters(
        key=np.take_along_axis(k, at, 2),
        value=np.take_along_axis(v, at, 2),
        weight=None if weight is None else np.take_along_axis(weight, order, 2),
        position=order,
        edges=edges,
        segments=np.broadcast_to(per * np.arange(n_segments + 1), (b, g, n_segments + 1)),
        label=label,
        deviation=rng.random((b, g, m)) ** 0.5,
    )
    start = np.arange(offset // block, -(-s // block)) * block
    rows = np.clip(np.r_[start, s] - offset, 0, length)
    group = 2 * block
    if causal:
        window = np.clip(np.stack([start - block, start + block], -1), 0, s)
        visible, stop = window[:, 0], np.arange(offset, s) + 1
    else:
        window = np.clip(np.stack([start - 2, start + block + 2], -1), 0, s)
        visible, stop = np.full(len(start), s), np.full(length, s)
    within = np.where(visible < s, visible // segment, n_segments)
    blocks = RowBlocks(rows, start // group - start[0] // group, window, visible, within, stop, sinks)
    centre = rng.standard_normal((b, h, 1 + blocks.centre.max(), e))
    near = rng.integers(0, s // 2, (b, h))
    near[0, -1] = -1
    return (q, k, v, clusters, blocks, centre, near), {"scale": 0.6, "weight": weight}


def loops(q, k, v, clusters, blocks, centre, near, *, scale, weight, overhead=16):
    """What the kernel does, block by block and cluster by cluster."""
    (b, h, length, _), s, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    out, lse = np.zeros((b, h, length, v.shape[3])), np.full((b, h, length), -np.inf)
    position, m = np.arange(s), clusters.deviation.shape[2]
    for i, j, t in np.ndindex(b, h, len(blocks.visible)):
        if near[i, j] < 0:
            continue
        g, rows = j // group, slice(blocks.rows[t], blocks.rows[t + 1])
        low, high = blocks.window[t]
        extra = np.zeros(s) if weight is None else weight[i, g]
        q0, queries = centre[i, j, blocks.centre[t]], scale * q[i, j, rows]
        window = (position < min(blocks.sinks, low)) | ((position >= low) & (position < high))
        free = (position < blocks.visible[t]) & ~((position >= low) & (position < high))
        count, far, values = np.zeros(m, int), np.full((len(queries), m), -np.inf), np.zeros((m, v.shape[3]))
        for c in range(m):
            mine = free & (clusters.label[i, g] == c)
            count[c] = mine.sum()
            if count[c]:
                w = np.exp(k[i, g, mine] @ q0 + extra[mine])
                mean, values[c] = w @ k[i, g, mine] / w.sum(), w @ v[i, g, mine] / w.sum()
                turn = queries - q0
                second = (turn**2).sum(-1) * clusters.deviation[i, g, c] ** 2
                far[:, c] = np.log(w.sum()) + turn @ mean + np.minimum(second, 3)
        scores = np.where(position < blocks.stop[rows][:, None], queries @ k[i, g].T + extra, -np.inf)
        common = window & (position < blocks.stop[rows].min(initial=s))
        mass = np.exp(np.where(common, scores, -np.inf)).sum(-1) + np.exp(far).sum(-1)
        share = (np.exp(far) / np.where(mass > 0, mass, 1)[:, None]).sum(0) / np.maximum(count + overhead, 1)
        taken = np.zeros(m, bool)
        left = near[i, j] - min(blocks.sinks, low) - (high - low)
        for c in np.argsort(-share, kind="stable"):
            if count[c] > left:
                break
            left -= count[c]
            taken[c] = True
        shown = window | (free & np.append(taken, False)[clusters.label[i, g]])
        w = np.exp(np.concatenate([np.where(shown, scores, -np.inf), np.where(taken, -np.inf, far)], axis=1))
        total = w.sum(-1)
        out[i, j, rows] = w @ np.concatenate([v[i, g], values]) / np.where(total > 0, total, 1)[:, None]
        with np.errstate(divide="ignore"):
            lse[i, j, rows] = np.log(total)
    return out, lse


def call(backend, arguments, options, **more):
    *arrays, clusters, blocks, centre, near = arguments
    # The blocks of rows are NumPy arrays on every backend.
    return call_on(
        backend,
        lambda q, k, v, clusters, centre, near, **rest: cluster_attention(
            q, k, v, clusters, blocks, centre, near, **rest
        ),
        *arrays,
        clusters,
        centre,
        near,
        **options,
        **more,
    )


def in_single_precision(x):
    if isinstance(x, np.ndarray):
        return x.astype(np.float32) if x.dtype.kind == "f" else x
    if isinstance(x, RowBlocks) or not isinstance(x, tuple):
        return x
    return type(x)(*map(in_single_precision, x)) if hasattr(x, "_fields") else tuple(map(in_single_precision, x))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("causal", [True, False])
def test_against_loops(backend, causal, weighted):
    one_head = {"b": 1, "h": 1, "g": 1, "s": 120, "segment": 48, "block": 16}
    for sizes in cases_for(backend, [{"offset": 37}, {}, {"s": 7}, {"sinks": 0}, one_head]):
        arguments, options = case(1, causal=causal, weighted=weighted, **sizes)
        wanted = loops(*arguments, **options)
        out, lse = call(backend, arguments, options)
        assert_close(out, wanted[0], rtol=1e-10, atol=1e-10)
        assert_close(lse, wanted[1], rtol=1e-10, atol=1e-10)
    out, _ = call(backend, arguments, options, overhead=0)
    assert_close(out, loops(*arguments, **options, overhead=0)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_single_precision(backend, weighted):
    arguments, options = case(2, weighted=weighted)
    wanted = loops(*arguments, **options)
    options["weight"] = in_single_precision(options["weight"])
    out, lse = call(backend, in_single_precision(arguments), options)
    assert out.dtype == lse.dtype == np.float32
    assert_close(out.astype(float), wanted[0], rtol=1e-4, atol=1e-4)
    assert_close(lse.astype(float), wanted[1], rtol=1e-4, atol=1e-4)


def test_all_near_is_exact_and_a_tilted_cluster_is_exact_at_its_point(backend):
    (q, k, v, clusters, blocks, centre, near), options = case(5)
    everything = (q, k, v, clusters, blocks, centre, np.full_like(near, 1000))
    scores = 0.6 * q @ np.repeat(k, 2, axis=1).swapaxes(-1, -2)
    w = np.exp(np.where(np.arange(90) <= np.arange(90)[:, None], scores, -np.inf))
    exact = w @ np.repeat(v, 2, axis=1) / w.sum(-1, keepdims=True)
    assert_close(call(backend, everything, options)[0], exact, rtol=1e-10)
    # All queries of a group at the expansion point: the moments are the sums themselves.
    point = np.repeat(centre, 16, axis=2)[:, :, :90] / 0.6
    nothing = (point, k, v, clusters, blocks, centre, np.zeros_like(near))
    w = np.exp(
        np.where(np.arange(90) <= np.arange(90)[:, None], 0.6 * point @ np.repeat(k, 2, 1).swapaxes(-1, -2), -np.inf)
    )
    out, lse = call(backend, nothing, options)
    assert_close(out, w @ np.repeat(v, 2, axis=1) / w.sum(-1, keepdims=True), rtol=1e-10)
    assert_close(lse, np.log(w.sum(-1)), rtol=1e-10)
