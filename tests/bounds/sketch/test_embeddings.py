"""Subspace embeddings: special cases known exactly, and what the hypotheses are for."""

import math

import numpy as np
import pytest
from scipy import linalg, stats

from nlattn.bounds import count_sketch_embedding, gaussian_embedding, srht_embedding
from nlattn.sketch import count_sketch, sparse_sign_sketch


def test_gaussian_embedding_of_a_line():
    """For k = 1 the singular value is a chi variable, whose probability beyond the bound is below `failure`."""
    for m in (5, 50, 500):
        for failure in (0.5, 0.1, 1e-3):
            t = gaussian_embedding(1, m, failure)
            outside = stats.chi.sf(math.sqrt(m) * (1 + t), m) + stats.chi.cdf(math.sqrt(m) * max(1 - t, 0), m)
            assert outside <= failure


def test_gaussian_embedding_needs_gaussian_entries():
    """A CountSketch of coordinate vectors fails gaussian_embedding far more often than with its probability."""
    k, m, failure = 10, 200, 0.05
    bound = gaussian_embedding(k, m, failure)
    deviations = []
    for seed in range(200):
        sketched = count_sketch(m, k, rng=seed).matrix(np.zeros(1))
        deviations.append(np.max(np.abs(np.linalg.svd(sketched, compute_uv=False) - 1)))
    assert bound < 1
    assert np.mean(np.asarray(deviations) > bound) > 3 * failure


def test_count_sketch_embedding_at_birthday_collisions():
    """Coordinate vectors lose rank when two share a row. The bound allows for that at the birthday probability."""
    k, m, trials = 8, 100, 600
    lost = 0
    for seed in range(trials):
        sketched = count_sketch(m, k, rng=seed).matrix(np.zeros(1))
        lost += np.linalg.svd(sketched, compute_uv=False)[-1] < 1e-8
    birthday = 1 - math.prod(1 - i / m for i in range(k))
    assert stats.binomtest(int(lost), trials, birthday).pvalue > 1e-6
    # The deviation is then at least 1, so no true bound may be below 1 at that probability.
    assert count_sketch_embedding(k, m, birthday) >= 1
    smallest = [
        np.linalg.svd(sparse_sign_sketch(m, k, 8, rng=s).matrix(np.zeros(1)), compute_uv=False)[-1] for s in range(100)
    ]
    assert min(smallest) > 0.2


def test_count_sketch_embedding_needs_signs():
    """Without signs a constant vector is stretched by about n / m."""
    n, m = 2000, 50
    u = np.full((n, 1), n**-0.5)
    h = np.random.default_rng(0).integers(0, m, n)
    sketched = np.bincount(h, weights=u[:, 0], minlength=m)
    assert abs(sketched @ sketched - 1) > 10 * count_sketch_embedding(1, m, 0.05)


def test_srht_embedding_needs_signs():
    """Rows of H without signs send a column of H to one coordinate, which the sample mostly misses."""
    n, k, m = 2048, 1, 1024
    H = linalg.hadamard(n)
    u = H[:, 5] / math.sqrt(n)
    rows = np.random.default_rng(0).choice(n, m, replace=False)
    sketched = H[rows] @ u / math.sqrt(m)
    assert srht_embedding(n, k, m, 0.05) < 0.8
    # Missed, or counted twice: never near 1.
    assert abs(sketched @ sketched - 1) > 0.9


def test_srht_embedding_says_when_it_says_nothing():
    assert srht_embedding(10**6, 50, 100, 0.01) == math.inf
    assert srht_embedding(1000, 2, 10**5, 0.05) == srht_embedding(1024, 2, 10**5, 0.05) < 0.1


@pytest.mark.parametrize("k", [1, 4])
def test_srht_embedding_rows_are_short(k):
    """The first step in the proof of srht_embedding: the tail of a sum of rows with signs, all of them enumerated."""
    n, t = 12, 2.0
    U = np.linalg.qr(np.random.default_rng(k).standard_normal((n, k)))[0]
    signs = 1.0 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    lengths = np.sum((signs @ U) ** 2, axis=1)
    assert np.mean(lengths > k + 2 * math.sqrt(k * t) + 2 * t) <= math.exp(-t)
    for weight in (0.1, 0.3, 0.45):
        assert np.mean(np.exp(weight * lengths)) <= (1 - 2 * weight) ** (-k / 2)
