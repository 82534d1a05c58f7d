"""Clusters of equal size."""

import numpy as np
import pytest
from partitions import clustered
from scipy.optimize import linear_sum_assignment

from nlattn.cluster import kmeans


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 4), (6, 4), (61, 7), (32, 32), (33, 32)])
def test_no_cluster_above_its_share(numpy_backend, n, k):
    for seed, spread in ((0, 0.0), (1, 5.0)):
        x = clustered(n, 3, 2, spread=spread, seed=seed)
        found = kmeans(numpy_backend.array(x), k, kind="balanced", rng=seed)
        counts = np.bincount(numpy_backend.to_numpy(found.labels), minlength=k)
        assert counts.max() <= -(-n // k)
        assert np.array_equal(counts, numpy_backend.to_numpy(found.counts))
    # Points that stay out take no seat.
    weights = np.ones(n)
    weights[n // 2 + 1 :] = 0
    few = min(k, n // 2 + 1)
    found = kmeans(numpy_backend.array(x), few, numpy_backend.array(weights), kind="balanced", rng=0)
    counts = np.bincount(numpy_backend.to_numpy(found.labels)[weights > 0], minlength=few)
    assert counts.max() <= -(-(n // 2 + 1) // few)


def test_exchanges_come_close_to_the_best_assignment():
    for seed, (n, k, groups) in enumerate([(120, 6, 3), (200, 10, 5), (150, 15, 40)]):
        x = clustered(n, 4, groups, seed=seed)
        start = x[:k]
        found = kmeans(x, start, kind="balanced", iterations=0)
        costs = np.repeat(((x[:, None] - start) ** 2).sum(-1), n // k, axis=1)
        best = costs[linear_sum_assignment(costs)].sum()
        assert best * (1 - 1e-12) <= found.inertia <= 1.04 * best
