"""Clusters of the keys of each segment, by k-means or of consecutive keys."""

import numpy as np
import pytest
from multipole_oracle import draw

from nlattn.problem.arguments import checked_problem
from nlattn.select.key_clusters import Clustering, cluster_keys, cluster_size
from nlattn.testing import to_numpy


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
    assert m == found.deviation.shape[2]
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
            deviation = np.sqrt(k[g, mine].var(0).mean() / 2) if len(mine) else 0
            np.testing.assert_allclose(found.deviation[0, g, c], deviation, atol=1e-12)
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
