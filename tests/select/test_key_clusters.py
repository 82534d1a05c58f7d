"""What multipole attention sorts by: the metric of the queries, clusters of keys, and the tree of queries."""

import itertools

import numpy as np
import pytest

from nlattn.problem.arguments import checked_problem
from nlattn.select.key_clusters import Clustering, cluster_keys, cluster_size
from nlattn.select.key_metric import coordinates, query_moment
from nlattn.select.query_order import tree_order
from nlattn.testing import assert_close, to_numpy


def draw(length, s, *, h=4, g=2, e=6, ev=5, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((*batch, n, m, d)) for n, m, d in ((h, length, e), (g, s, e), (g, s, ev)))


@pytest.mark.parametrize(("n", "size"), [(300, 16), (256, 16), (257, 16), (5, 8), (1, 4), (70, 1)])
def test_tree_order_is_a_permutation(backend, n, size):
    x = np.random.default_rng(0).standard_normal((2, 3, n, 4))
    x[1, 0] = 0
    x[1, 1] = x[1, 1, :1]
    x[1, 2] *= 1e300
    a = backend.array(x)
    order = to_numpy(tree_order(a, size))
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
    order = to_numpy(tree_order(a, 16))[0, 0]
    kinds = [len(set(label[run])) for run in order.reshape(16, 16)]
    assert np.mean(kinds) < 2
    order = to_numpy(tree_order(b, 25))[0, 0]
    runs = sorted((line[run, 0].min(), line[run, 0].max()) for run in order.reshape(8, 25))
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(runs))


def clustered(backend, kind, s, *, used=None, weight=None, same=False, size=8, segment=64):
    _, k, v = draw(4, s, h=2, g=2)
    k = 0 * k if same else k
    problem = checked_problem("x", *(backend.array(x) for x in (k[:, :4], k, v)), masks="keys")
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
    problem = checked_problem("x", *(backend.array(y) for y in (x, x, x)), masks="keys")
    used = backend.array(np.ones((1, 1, 64), bool))
    found = to_numpy(cluster_keys(problem, Clustering("kmeans", 4, 64, 10), used, None, problem.key).label)[0, 0]
    assert all(len(set(label[found == c])) == 1 for c in np.unique(found))


def test_cluster_size_grows_like_the_root():
    sizes = [cluster_size(s) for s in (1, 1500, 6000, 24000, 96000, 10**6, 10**9)]
    assert sizes == [8, 8, 16, 32, 64, 128, 128]


def metric(backend, q, k, v, **options):
    problem = checked_problem("x", *(backend.array(x) for x in (q, k, v)), masks="keys", **options)
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
