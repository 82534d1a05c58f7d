"""routing_attention against dense attention over index sets that are built here, and beside routing-transformer."""

import numpy as np
import pytest

import nlattn
from nlattn.testing import dense_attention


def draw(length, s, seed=0, e=6):
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((4, length, e)), rng.standard_normal((2, s, e)), rng.standard_normal((2, s, 5))
    return q, k, v, rng.standard_normal((2, 7, e))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def lists(q, k, centres, keys_per_centre, mask=None):
    """Queries and keys of each centre as boolean arrays (heads, clusters, n), and each query's nearest centre."""
    length, s = q.shape[-2], k.shape[-2]
    m = min(length, -(-keys_per_centre * length // s))
    centres, k = (np.repeat(x, 2, axis=0) for x in (unit(centres), k))
    near_q, near_k = centres @ np.swapaxes(unit(q), -1, -2), centres @ np.swapaxes(unit(k), -1, -2)
    if mask is not None:
        near_k = np.where(mask, near_k, -np.inf)
    in_q, in_k = (np.argsort(np.argsort(-x, axis=-1), axis=-1) < n for x, n in ((near_q, m), (near_k, keys_per_centre)))
    return in_q, in_k & (near_k > -np.inf), near_q.argmax(1)


def union(in_q, in_k, nearest, fallback):
    """Pairs that meet."""
    if fallback == "nearest":
        lost = ~in_q.any(1)
        in_q = in_q | (lost[:, None] & (nearest[:, None] == np.arange(in_q.shape[1])[:, None]))
    return np.einsum("hcq,hck->hqk", in_q.astype(int), in_k.astype(int)) > 0


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("fallback", ["nearest", "zero"])
@pytest.mark.parametrize(
    ("length", "s", "keys_per_centre"), [(80, 80, 17), (30, 90, 40), (90, 30, 5), (1, 50, 3), (80, 80, 2)]
)
@pytest.mark.parametrize("numbers", [1, 1 << 21])
def test_is_attention_over_the_union_of_clusters(monkeypatch, is_causal, fallback, length, s, keys_per_centre, numbers):
    """A pair that several clusters join counts once, whatever is computed at a time."""
    monkeypatch.setattr("nlattn.attend.cluster_members.TILE_NUMBERS", numbers)
    q, k, v, centres = draw(length, s)
    sets = union(*lists(q, k, centres, keys_per_centre), fallback)
    wanted = dense_attention(q, k, v, sets, is_causal=is_causal)
    options = {"centres": centres, "fallback": fallback, "is_causal": is_causal}
    out, lse = nlattn.routing_attention(q, k, v, keys_per_centre, return_lse=True, **options)
    met = wanted.lse > -np.inf
    np.testing.assert_allclose(out[met], wanted.out[met], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(lse[met], wanted.lse[met], rtol=1e-9, atol=1e-11)
    for h, i in np.argwhere(~met):
        own = i + s - length
        if fallback == "zero" or own < 0:
            assert np.all(out[h, i] == 0)
        else:
            np.testing.assert_allclose(out[h, i], v[h // 2, own], rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1, 80), (4, 1, 80)])
def test_masks(shape):
    q, k, v, centres = draw(80, 80)
    rng = np.random.default_rng(3)
    bias = np.where(rng.random(shape) < 0.6, rng.standard_normal(shape), -np.inf)
    seen = np.broadcast_to(bias > -np.inf, (4, 1, 80))
    grouped = np.repeat(seen.reshape(2, 2, 1, 80).any(1), 2, axis=0)  # a centre takes keys that some head may see
    sets = union(*lists(q, k, centres, 20, grouped), "nearest")
    wanted = dense_attention(q, k, v, np.where(sets, np.broadcast_to(bias, (4, 1, 80)), -np.inf))
    out, lse = nlattn.routing_attention(q, k, v, 20, centres=centres, attn_mask=bias, return_lse=True)
    met = wanted.lse > -np.inf
    assert met.mean() > 0.9
    np.testing.assert_allclose(out[met], wanted.out[met], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(lse[met], wanted.lse[met], rtol=1e-9, atol=1e-11)


def test_the_paper_takes_means():
    q, k, v, centres = draw(80, 80)
    in_q, in_k, _ = lists(q, k, centres, 17)
    total, count = np.zeros((4, 80, 5)), in_q.sum(1)[..., None]
    for c in range(7):
        total += np.where(in_q[:, c, :, None], dense_attention(q, k, v, in_k[:, c, None, :]).out, 0)
    wanted = total / np.maximum(count, 1)
    options = {"centres": centres, "variant": "paper"}
    out = nlattn.routing_attention(q, k, v, 17, fallback="zero", **options)
    np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-12)
    with pytest.raises(NotImplementedError, match="routing_attention has no log-sum-exp"):
        nlattn.routing_attention(q, k, v, 17, return_lse=True, **options)


def test_beside_routing_transformer():
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("routing_transformer.routing_transformer")
    q, k, v, centres = draw(64, 64)
    q, v = q[:2], np.random.default_rng(5).standard_normal((2, 64, 6))
    peer = package.KmeansAttention(7, 16, 2, 6).eval().double()
    peer.kmeans.means.copy_(torch.from_numpy(unit(centres)))
    peer.kmeans.initted.fill_(True)
    with torch.no_grad():
        wanted = peer(*(torch.from_numpy(x)[None] for x in (q, k, v)))[0][0].numpy()
    out = nlattn.routing_attention(q, k, v, 16, centres=centres, variant="paper", fallback="zero")
    np.testing.assert_allclose(out, wanted, rtol=3e-5, atol=1e-9)  # its means have 1e-5 in the denominator


def test_planted_clusters_are_found():
    """Far apart, as many as the default has centres: nothing that matters is dropped."""
    rng = np.random.default_rng(0)
    middles = 12 * np.eye(8)
    group = np.repeat(np.arange(8), 25)
    q, k = (middles[rng.permutation(group)] + rng.standard_normal((200, 8)) for _ in range(2))
    v = rng.standard_normal((200, 4))
    exact = nlattn.exact_attention(q, k, v)
    error = [np.linalg.norm(nlattn.routing_attention(q, k, v, 25, rng=s) - exact) for s in range(5)]
    assert min(error) < 1e-3 * np.linalg.norm(exact)
    assert max(error) < 0.8 * np.linalg.norm(exact)


@pytest.mark.parametrize("variant", ["nlattn", "paper"])
def test_a_common_offset_of_the_keys_does_not_matter(variant):
    q, k, v, _ = draw(80, 80)
    out = nlattn.routing_attention(q, k, v, 17, variant=variant, rng=0)
    moved = nlattn.routing_attention(q, k + 7.0 * np.arange(6), v, 17, variant=variant, rng=0)
    np.testing.assert_allclose(moved, out, rtol=1e-8, atol=1e-10)


def test_the_paper_centres_queries_too():
    from nlattn.methods.sparse.routing import Routing
    from nlattn.problem.arguments import checked_problem

    q, k, v, _ = draw(80, 80)
    method = Routing(17, variant="paper")
    problems = [checked_problem("x", x, k, v) for x in (q, q + np.arange(6))]
    states = [method.prepare(problem, np.random.default_rng(0)) for problem in problems]
    assert np.array_equal(states[0].members.queries, states[1].members.queries)


def test_common_coordinates():
    """They keep q (k - mean) and have equal diagonal second moments up to one factor, whatever basis is given."""
    from nlattn.problem.arguments import checked_problem
    from nlattn.select.score_basis import common_basis

    q, k, v, _ = draw(80, 90)
    left, right, mean = common_basis(checked_problem("x", q, k, v))
    few_q, few_k = q.reshape(2, 160, 6) @ left[0], (k - mean[0]) @ right[0]
    np.testing.assert_allclose(mean[0], k.mean(1, keepdims=True), atol=1e-14)
    centred = k - k.mean(1, keepdims=True)
    np.testing.assert_allclose(
        few_q @ np.swapaxes(few_k, 1, 2), q.reshape(2, 160, 6) @ np.swapaxes(centred, 1, 2), atol=1e-11
    )
    for x, y in zip(np.swapaxes(few_q, 1, 2) @ few_q, np.swapaxes(few_k, 1, 2) @ few_k, strict=True):
        np.testing.assert_allclose(x / x.max(), y / y.max(), atol=1e-12)
        np.testing.assert_allclose(x, np.diag(np.diag(x)), atol=1e-10)
    basis = np.random.default_rng(4).standard_normal((6, 6))
    other = nlattn.routing_attention(q @ basis, k @ np.linalg.inv(basis).T, v, 17, rng=0)
    np.testing.assert_allclose(other, nlattn.routing_attention(q, k, v, 17, rng=0), rtol=1e-7, atol=1e-9)


def test_more_window_drops_less_mass():
    q, k, v, scale, _ = nlattn.datasets.load("dinov2")[:5]
    exact = nlattn.exact_attention(q, k, v, scale=scale, return_lse=True)
    mass, errors = [], []
    for keys_per_centre in (64, 128, 256, 512):
        part = nlattn.routing_attention(q, k, v, keys_per_centre, scale=scale, rng=0, return_lse=True)
        mass.append(float(np.exp(part.lse - exact.lse).mean()))
        errors.append(float(np.linalg.norm(part.out - exact.out) / np.linalg.norm(exact.out)))
    assert mass == sorted(mass)
    assert mass[-1] < 1
    assert errors[-1] < errors[0]


def test_bad_arguments():
    q, k, v, centres = draw(40, 40)
    with pytest.raises(ValueError, match=r"centres must have shape \(heads_kv, clusters, E\) = \(2, clusters, 6\)"):
        nlattn.routing_attention(q, k, v, 9, centres=centres[0])
    with pytest.raises(ValueError, match="clusters must be the number of centres, 7, or None, got 3"):
        nlattn.routing_attention(q, k, v, 9, centres=centres, clusters=3)
    with pytest.raises(ValueError, match="clusters must be at least 1"):
        nlattn.routing_attention(q, k, v, 9, clusters=0)
    with pytest.raises(ValueError, match="fallback must be one of"):
        nlattn.routing_attention(q, k, v, 9, fallback="own")
    out = nlattn.routing_attention(q, k, np.ones_like(v), 9, clusters=300, rng=0)
    np.testing.assert_allclose(out, 1, rtol=1e-12)
