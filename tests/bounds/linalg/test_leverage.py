"""Leverage scores and sampling by importance."""

import itertools

import numpy as np

from nlattn.bounds import leverage_sampling, sampled_product_error, sketched_leverage
from nlattn.linalg import importance_sample, leverage_scores


def test_band_is_attained():
    """A sketch that shrinks one direction by 1 - e; beyond e = 1 sketched_leverage says nothing."""
    e = 0.3
    u = np.eye(4)[:, :2]
    r = np.linalg.qr(np.diag([1 - e, 1.0, 0, 0]) @ u)[1]
    found = np.sum((u @ np.linalg.inv(r)) ** 2, axis=1)
    np.testing.assert_allclose(found[0] / leverage_scores(u)[0], sketched_leverage(e))


def test_uniform_sampling_loses_a_spike():
    """Uniform draws, for which b is only k / (n max t), exceed leverage_sampling for b = 1."""
    u = np.zeros((400, 2))
    u[0, 0], u[1:, 1] = 1, 399**-0.5
    rng = np.random.default_rng(0)
    limit = leverage_sampling(2, 120, 0.05)
    assert limit < 1

    def distortion(weights):
        index, log_weight = importance_sample(weights, 120, rng=rng)
        rows = u[index] * np.exp(log_weight / 2)[:, None]
        return np.linalg.norm(rows.T @ rows - np.eye(2), 2)

    assert sum(distortion(leverage_scores(u)) > limit for _ in range(100)) < 20
    assert sum(distortion(np.ones(400)) > limit for _ in range(100)) > 90


def test_sampled_product_over_all_draws():
    """All pairs of draws give sampled_product_error, which its optimal probabilities make least."""
    rng = np.random.default_rng(0)
    a, b, p = rng.standard_normal((2, 4)), rng.standard_normal((4, 3)), rng.dirichlet(np.ones(4))
    terms = [np.outer(a[:, i], b[i]) / p[i] for i in range(4)]
    exact = sum(
        p[i] * p[j] * np.linalg.norm((terms[i] + terms[j]) / 2 - a @ b) ** 2
        for i, j in itertools.product(range(4), repeat=2)
    )
    np.testing.assert_allclose(sampled_product_error(a, b, p, 2), exact)
    best = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=1)
    best = best / best.sum()
    others = [sampled_product_error(a, b, rng.dirichlet(np.ones(4)), 2) for _ in range(200)]
    assert sampled_product_error(a, b, best, 2) <= min(others)
